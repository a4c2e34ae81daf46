"""Models driven by log-signatures of several scales."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde import Config, log_signatures
from neuralrde.fields import BoundedField, DiagonalField, FreeLinearField, LinearField
from neuralrde.models import LinearRDE, NeuralRDE
from neuralrde.signatures import basis_channels, without_rounding
from neuralrde.solvers import Exponential

KEY = jax.random.key(0)
SCALES, DEPTHS = (1, 2, 4), (3, 2, 1)
MODELS = {
    "free": lambda **o: NeuralRDE(3, 2, state=4, width=5, key=KEY, **o),
    "bounded": lambda **o: NeuralRDE(3, 2, state=4, width=5, field=BoundedField, key=KEY, **o),
    "matrices": lambda **o: NeuralRDE(3, 2, state=4, field=FreeLinearField.random, solver=Exponential(), key=KEY, **o),
    "rotations": lambda **o: LinearRDE(3, 2, width=4, state=4, key=KEY, **o),
    "decays": lambda **o: LinearRDE(3, 2, width=4, state=4, field=DiagonalField, key=KEY, **o),
}
PATH = np.random.default_rng(0).normal(size=(5, 41, 3)).cumsum(axis=1) / 10
TIMES = np.tile(np.arange(41.0), (5, 1))
CUTS = np.arange(0, 41, 4)


@eqx.filter_jit
def run(model, inputs, windows=None):
    return jax.vmap(lambda x0, logs: model(x0, logs, windows=windows))(*inputs)


# A model knows of a depth how many channels it makes, so that one model will do for the same depth at all scales.
@pytest.mark.parametrize(("name", "depth"), [("free", 2), *((name, DEPTHS) for name in MODELS)], ids=str)
def test_a_model_takes_all_scales_and_is_not_changed_by_padding(name, depth):
    model = MODELS[name](depth=depth, scales=SCALES)
    x0, windows = model.inputs(PATH, TIMES, CUTS)
    assert windows.shape == (5, 10, basis_channels(3, depth, model.basis, scales=SCALES))
    np.testing.assert_allclose(windows, model.log_signatures(PATH, step=4), rtol=0, atol=1e-6)
    model = model.fit_inputs((x0, windows))
    expected = run(model, (x0, windows), jnp.array(10))
    assert expected.shape == (5, 2)
    assert np.ptp(expected, axis=0).min() > 1e-3  # they depend on the series
    # The first half of each series, alone and padded with its last point: scales that look back may not see beyond it.
    half = PATH[:, :21]
    alone = run(model, model.inputs(half, TIMES[:, :21], CUTS[:6]))
    padded = np.concatenate([half, np.repeat(half[:, -1:], 20, axis=1)], axis=1)
    inputs = model.inputs(padded, TIMES, np.minimum(CUTS, 20))
    assert not inputs[1][:, 5:].any()
    # float32, programs of another shape: sums are taken in another order.
    np.testing.assert_allclose(run(model, inputs, jnp.array(5)), alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("field", [LinearField, Config(LinearField, block=2), "linear"], ids=str)
def test_exact_brackets_are_those_of_one_log_signature(field):
    with pytest.raises(ValueError, match=r"scales=\(1, 2\) and field=.*LinearField.*free in its controls"):
        NeuralRDE(3, 2, depth=2, scales=(1, 2), field=field, key=KEY)
    made = LinearField(3, 4, 2, key=KEY)
    with pytest.raises(ValueError, match="Got log-signatures of 12 channels; expected 6"):
        NeuralRDE(3, 2, depth=2, scales=(1, 2), field=made, key=KEY)


def test_log_signatures_of_another_scale_are_refused():
    model = MODELS["free"](depth=2, scales=(1, 2))
    with pytest.raises(ValueError, match=r"\(windows, 12\): one example of 3 channels, .* scales \(1, 2\)"):
        model(PATH[0, 0], log_signatures(PATH[0], 2, step=4))


def test_rounding_is_measured_by_all_windows_that_a_scale_sees():
    """A corner between two straight windows: no area in either, but one over both."""
    path = np.array([[[0.0, 0.0], [0.1, 0.3], [0.7, 0.1], [0.7, 0.1]]])
    cuts = np.array([0, 1, 2, 3])
    windows = log_signatures(path, 2, cuts=cuts, scales=(1, 2))
    noisy = windows.copy()
    noisy[0, :2, 2] += 1e-17
    cleaned = without_rounding(noisy, path, 2, cuts, scales=(1, 2))
    assert not cleaned[0, :, 2].any()
    assert cleaned[0, 1, 5] == pytest.approx(0.5 * (0.1 * 0.1 - 0.3 * 0.7 - 0.1 * 0.3 + 0.3 * 0.1), abs=1e-12)
    np.testing.assert_allclose(cleaned, windows, rtol=0, atol=1e-12)
