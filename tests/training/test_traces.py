"""JAX traces and compiles once for one kind of work: a recompilation would cost seconds, in silence."""

import sys

import equinox as eqx
import numpy as np
import pytest

from neuralrde.training import CrossEntropy, Examples, Settings, accuracy, fit, loop, predict

from .examples import model


@pytest.fixture
def traced_once(monkeypatch):
    """The training step and the prediction, which fail at their second trace; and how many there were."""
    watched = {}
    for module, name in ((loop, "_step"), (sys.modules[predict.__module__], "_predictions")):
        watched[name] = eqx.debug.assert_max_traces(getattr(module, name).__wrapped__, max_traces=1)
        monkeypatch.setattr(module, name, eqx.filter_jit(watched[name]))
    return lambda: {name: eqx.debug.get_num_traces(function) for name, function in watched.items()}


def examples(count, seed=0):
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(count, 4, 3)).astype(np.float32)
    return Examples((windows[:, 0, :2], windows), (windows.sum((1, 2)) > 0).astype(np.int32))


def test_fits_and_predictions_of_the_same_shapes_are_traced_once(traced_once):
    """20 examples in batches of 8: the last is smaller, and so is the validation set's."""
    settings = Settings(epochs=3, batch_size=8)
    options = {"loss": CrossEntropy(), "metric": accuracy, "settings": settings}
    for seed in (0, 1):  # other weights and other data of the same shapes
        state = fit(model(seed), examples(20, seed), validation=examples(11, seed), **options)
        assert state.epoch == 3
        assert traced_once() == {"_step": 1, "_predictions": 1}
    for count in (3, 8, 21):  # however many are asked for
        assert predict(state.best, examples(count), batch=8).shape == (count, 2)
    assert traced_once() == {"_step": 1, "_predictions": 1}
