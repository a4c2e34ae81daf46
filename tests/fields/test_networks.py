"""The network fields: what they compute, and that they start at a sane size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde.fields import BoundedField, FreeField

from .registry import CONTROLS, FIELDS, STATE, make, quick, start


@pytest.mark.parametrize("name", FIELDS)
def test_a_zero_log_signature_drives_nothing(name):
    field = make(name)  # outside the trace: fields are made once and kept
    slope = quick(lambda l, z: field.contract(l)(z))(jnp.zeros(CONTROLS), start())
    np.testing.assert_array_equal(slope, 0)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_linear_in_the_log_signature(name):
    with jax.enable_x64(True):

        @quick
        def slopes(z, a, b):
            field = make(name)
            assert (field.state, field.controls) == (STATE, CONTROLS)
            return field.contract(a + 2 * b)(z), field.contract(a)(z) + 2 * field.contract(b)(z)

        a, b = jax.random.normal(jax.random.key(3), (2, CONTROLS))
        together, apart = slopes(start(), a, b)
        np.testing.assert_allclose(together, apart, rtol=1e-10, atol=1e-12)  # rounding


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_free_field_is_the_papers_network(layers):
    """With NumPy: Linear, [ReLU, Linear] x (layers - 1), tanh, then a linear map to state x controls."""
    field = FreeField(5, 4, width=6, layers=layers, key=jax.random.key(0))
    z, log_signature = np.array([0.5, -1.0, 2.0, 0.1]), np.array([1.0, -0.5, 0.2, 0.0, 3.0])
    hidden = z
    for i, layer in enumerate(field.features.layers):
        hidden = layer.weight @ hidden + layer.bias
        hidden = np.maximum(hidden, 0) if i < layers - 1 else np.tanh(hidden)
    matrix = np.einsum("csw,w->sc", field.weight, hidden) + np.asarray(field.bias).T
    got = field.contract(jnp.asarray(log_signature, jnp.float32))(jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(got, matrix @ log_signature, rtol=2e-5)  # float32 sums of 6 and 5 terms


@pytest.mark.parametrize("build", [FreeField, BoundedField])
@pytest.mark.parametrize("controls", [6, 91])
def test_the_first_slope_is_of_order_one_whatever_the_depth(build, controls):
    slope = lambda key, l, z: build(controls, 32, key=key).contract(l)(z)
    keys, driving = (
        jax.random.split(jax.random.key(0), 8),
        jax.random.normal(jax.random.key(9), (8, controls)),
    )
    slopes = quick(jax.vmap(slope, in_axes=(0, 0, None)))(keys, driving, jnp.ones(32))
    size = float(jnp.sqrt(jnp.mean(slopes**2)))
    assert 0.1 < size < 2.0


def test_errors_say_what_to_write():
    with pytest.raises(ValueError, match=r"layers=3"):
        FreeField(5, 4, layers=0, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"layers=3"):
        BoundedField(5, 4, layers=0, key=jax.random.key(0))
