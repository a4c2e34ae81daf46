"""Models at the edges: mixed precision, padded series, statistics in float64, sizes said before anything is made."""

import tracemalloc

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neuralrde as nrde
from neuralrde.fields import BoundedField, BracketField, FreeField, LinearField
from neuralrde.models import ChannelScale, LabelScale
from neuralrde.solvers import Backsolve, Direct, Nested, Recompute

KEY = jax.random.key(0)


@pytest.mark.parametrize("gradient", [Recompute(), Nested(), Direct(), Backsolve()], ids=lambda g: type(g).__name__)
@pytest.mark.parametrize("narrow", ["weights", "log_signatures", "z0"])
def test_mixed_precision_has_the_highest(gradient, narrow):
    """Float32 weights with float64 log-signatures had been a raw error of the scan."""
    with jax.enable_x64(True):
        field = FreeField(3, 4, width=6, layers=2, key=KEY)
        parts = {"weights": field, "log_signatures": jnp.ones((5, 3)) * 0.1, "z0": jnp.ones(4)}
        parts = {
            name: jax.tree.map(
                lambda x, to=jnp.float32 if name == narrow else jnp.float64: x.astype(to) if eqx.is_array(x) else x,
                part,
            )
            for name, part in parts.items()
        }

        @eqx.filter_jit
        @eqx.filter_value_and_grad
        def loss(field, z0, log_signatures):
            return (nrde.solve(field, z0, log_signatures, gradient=gradient) ** 2).sum()

        value, slope = loss(parts["weights"], parts["z0"], parts["log_signatures"])
        exact = eqx.filter_jit(nrde.solve)(field, jnp.ones(4), jnp.ones((5, 3)) * 0.1)
        assert value.dtype == jnp.float64
        np.testing.assert_allclose(value, (exact**2).sum(), rtol=1e-6)  # what was narrow was rounded to float32
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(slope, eqx.is_array)))


def test_statistics_keep_float64_where_it_is_on():
    labels = np.random.default_rng(0).normal(size=100) + 12345.678
    with jax.enable_x64(True):
        scale = LabelScale.fit(labels)
        assert scale(jnp.zeros(1)).dtype == jnp.float64
        assert float(scale(jnp.zeros(1))[0]) == labels.mean()
    assert LabelScale.fit(labels)(jnp.zeros(1)).dtype == jnp.float32


def test_the_shape_of_a_scale_takes_no_memory():
    """A file that says there are 10^9 outputs had taken 11 GB to be refused."""
    tracemalloc.start()
    shapes = eqx.filter_eval_shape(lambda: (ChannelScale.unit(10**9), LabelScale.unit(10**9)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert shapes[0].factors.array.shape == (10**9,)
    assert peak < 10**7


@pytest.mark.long
@pytest.mark.parametrize("readout", [nrde.models.FinalState(), nrde.models.EveryState()])
def test_a_padded_series_goes_through_a_cubic_cde(readout):
    """A `Series` repeats its last time in padding, which Diffrax refuses."""
    rng = np.random.default_rng(0)
    short, long = rng.normal(size=(6, 2)), rng.normal(size=(11, 2))
    times = np.arange(6) * 0.3, np.arange(11) * 0.2
    series = nrde.Series.from_arrays([short, long], times=times)
    controller = diffrax.PIDController(rtol=1e-6, atol=1e-7)
    model = nrde.models.CubicCDE(2, 3, state=4, width=8, layers=1, readout=readout, controller=controller, key=KEY)
    model = eqx.filter_jit(model)
    as_jax = lambda array: jnp.asarray(array, jnp.float32)
    alone = model(as_jax(times[0]), as_jax(short))
    # A final state needs no number of windows.
    windows = None if isinstance(readout, nrde.models.FinalState) else jnp.array([5, 10])
    batch = jax.vmap(model)(as_jax(series.times), as_jax(series.values), windows=windows)
    padded = batch[0]
    # Steps of rtol 1e-6 fall in other places where the solve goes on into the padding.
    np.testing.assert_allclose(padded[:6] if padded.ndim > 1 else padded, alone, rtol=0, atol=2e-4)
    assert jnp.isfinite(batch).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FreeField(2**20, 2**10, width=2**10, key=KEY),
        lambda: BoundedField(2**20, 2**10, width=2**10, key=KEY),
        lambda: LinearField(2**20, 2**12, 1, key=KEY),
    ],
)
def test_a_field_that_cannot_fit_is_refused_before_it_is_made(make):
    with pytest.raises(MemoryError, match="million weights"):
        make()


def test_a_very_large_field_is_said():
    """61 channels at depth 3: 166 million weights with time, and no word beforehand."""
    with pytest.warns(UserWarning, match=r"161 million weights .* 77,531 log-signature channels .* 17 GB"):
        eqx.filter_eval_shape(lambda: nrde.NeuralRDE(61, 2, depth=3, key=KEY))


def test_brackets_want_a_smooth_activation():
    for make in (
        lambda: nrde.LogNCDE(2, 1, depth=2, activation=jax.nn.relu, key=KEY),
        lambda: BracketField(FreeField(2, 4, key=KEY), depth=2),
    ):
        with pytest.raises(ValueError, match=r"activation relu at depth 2.*jax.nn.silu"):
            make()
    BracketField(FreeField(2, 4, key=KEY), depth=1)  # no brackets, no derivatives


def test_a_field_has_a_state_of_its_own():
    field = FreeField(3, 8, key=KEY)
    assert nrde.NeuralRDE(2, 1, depth=2, field=field, key=KEY).field.state == 8
    with pytest.raises(ValueError, match="state=16 and a field of state 8"):
        nrde.NeuralRDE(2, 1, depth=2, state=16, field=field, key=KEY)
