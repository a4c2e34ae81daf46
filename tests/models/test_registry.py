"""Every model of the registry, built and called as an estimator does: a new one is entered there and tested here."""

import diffrax
import equinox as eqx
import jax
import numpy as np
import pytest

from neuralrde.models import MODELS, AbstractModel
from neuralrde.registry import Config, accepted

CHANNELS, OUTPUTS, STEP, LENGTH, SAMPLES = 3, 2, 4, 17, 5
OPTIONS = [(name, {}) for name in MODELS]
# The mean over all states is the readout that padding would change if nobody told it the number of windows.
OPTIONS += [(name, {"readout": "mean"}) for name in MODELS if "readout" in accepted(MODELS[name])]


@eqx.filter_jit
def run(model, inputs, windows=None):
    """Most of the time goes into compiling: with weights as an argument, models of one shape are one program."""
    if windows is None:
        return jax.vmap(model)(*inputs)
    return jax.vmap(lambda windows, *inputs: model(*inputs, windows=windows))(windows, *inputs)


def build(name: str, options: dict) -> AbstractModel:
    if name == "cubic-cde" and options:  # its steps go on into the padding, and states are read off between them
        options = options | {"controller": diffrax.PIDController(rtol=1e-5, atol=1e-7)}
    make = Config(MODELS[name], **options)
    key = jax.random.key(0)
    return make(channels=CHANNELS, outputs=OUTPUTS, depth=2, step=STEP, points=STEP + 1, key=key)


def paths():
    steps = np.random.default_rng(0).normal(size=(SAMPLES, LENGTH, CHANNELS)) / np.sqrt(LENGTH)
    return steps.cumsum(axis=1).astype(np.float32), np.tile(np.arange(LENGTH, dtype=np.float32), (SAMPLES, 1))


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_a_model_is_built_takes_its_inputs_is_not_changed_by_padding_and_has_the_labels_units(name, options):
    model, (path, times), cuts = build(name, options), paths(), np.arange(0, LENGTH, STEP)
    assert isinstance(model, MODELS[name])
    inputs = model.inputs(path, times, cuts)
    assert {len(array) for array in inputs} == {SAMPLES}
    model = model.fit_inputs(inputs)
    predictions = run(model, inputs, np.full(SAMPLES, 4, np.int32))
    assert predictions.shape == (SAMPLES, OUTPUTS)
    assert np.ptp(predictions, axis=0).min() > 1e-3  # they depend on the series
    # It predicts in the units of labels; float32 around 80.
    labels = np.random.default_rng(1).normal(80.0, 13.0, size=(SAMPLES, OUTPUTS))
    in_units = run(model.fit_labels(labels), inputs, np.full(SAMPLES, 4, np.int32))
    np.testing.assert_allclose(in_units, predictions * labels.std(axis=0) + labels.mean(axis=0), rtol=1e-5)
    if not model.ignores_padding:  # then estimators add none
        return
    # Two of the four windows are padding, as a ragged `Series` has it: the last point and its time, repeated.
    middle = 2 * STEP
    for array in (path, times):
        array[:, middle:] = array[:, middle : middle + 1]
    padded = model.inputs(path, times, np.minimum(cuts, middle))
    own = model.inputs(path[:, : middle + 1], times[:, : middle + 1], cuts[:3])
    found = run(model, padded, np.full(SAMPLES, 2, np.int32))
    # float32, programs of another shape: sums are taken in another order. Adaptive steps: the controller's tolerance.
    tolerance = 1e-4 if name == "cubic-cde" else 1e-6
    np.testing.assert_allclose(found, run(model, own), rtol=1e-5, atol=tolerance)
    assert np.abs(found - predictions).max() > 1e-3  # and what was cut off did matter
