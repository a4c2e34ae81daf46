"""JAX traces and compiles once for one kind of work: a recompilation would cost seconds, in silence."""

import sys

import equinox as eqx
import numpy as np
import pytest

from neuralrde.training import CrossEntropy, Examples, Settings, accuracy, fit, loop, predict

from .examples import model


@pytest.fixture
def traced_once(monkeypatch):
    """The training step, which fails at its second trace; and how many programs there are of it and of predictions."""
    watched = eqx.debug.assert_max_traces(loop._step.__wrapped__, max_traces=1)
    monkeypatch.setattr(loop, "_step", eqx.filter_jit(watched))
    predictions = sys.modules[predict.__module__]._predictions
    before = predictions._cache_size()
    return lambda: (eqx.debug.get_num_traces(watched), predictions._cache_size() - before)


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
        assert traced_once() == (1, 1)
    for count in (3, 8, 21):  # however many are asked for
        assert predict(state.best, examples(count), batch=8).shape == (count, 2)
    assert traced_once() == (1, 1)
