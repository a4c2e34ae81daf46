"""A few compiled programs predict series of any length, any number of them, and padding changes no prediction."""

import jax
import numpy as np
import pytest

from neuralrde import Config, NeuralRDE, NeuralRDEClassifier, Series, Windows
from neuralrde.estimators.sources import inputs_of, with_room
from neuralrde.models import MODELS, CubicCDE, natural_control
from neuralrde.registry import accepted
from neuralrde.training import Examples, predict
from neuralrde.training.examples import _predictions


def walks(lengths, channels=2, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(length, channels)).cumsum(axis=0) for length in lengths]


@pytest.fixture(scope="module")
def fitted():
    X = walks([40] * 12)
    model = Config(NeuralRDE, state=4, width=4)
    estimator = NeuralRDEClassifier(model=model, windows=Windows(step=2, depth=2), epochs=1, verbose=False)
    return estimator.fit(X, [0, 1] * 6)


def test_a_hundred_lengths_and_twenty_sizes_need_few_programs(fitted):
    before = _predictions._cache_size()
    for length in range(10, 410, 4):
        fitted.predict(walks([length]))
    # 5 to 205 windows: 8, 16, ..., 256.
    assert _predictions._cache_size() - before <= 6
    for size in range(1, 21):
        fitted.predict(walks([100] * size))
    # The same number of windows for 1, for up to 8, and for up to 32 of them.
    assert _predictions._cache_size() - before <= 6 + 2
    fitted.predict(walks(range(10, 70)))
    assert _predictions._cache_size() - before <= 6 + 3


def test_a_series_gets_the_same_alone_and_beside_others(fitted):
    X = walks([7, 30, 55, 100, 12, 64, 33, 90, 41, 8])
    together = fitted.predict_proba(X)
    alone = np.concatenate([fitted.predict_proba([x]) for x in X])
    # Float32: sums of products in another order, through some fifty windows.
    np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_model_sees_the_room(name):
    options = {"channels": 2, "outputs": 3, "depth": 2, "step": 3, "points": 4, "key": jax.random.key(0)}
    cls = MODELS[name]
    model = cls(**{key: value for key, value in options.items() if key in accepted(cls)})
    series = Series.from_arrays(walks([31, 20, 5]))
    found = []
    for room in (False, True):
        inputs = inputs_of(model, series, Windows(step=3, depth=2), room=room)
        found.append(predict(model, Examples(inputs.arrays, windows=inputs.windows)))
    assert model.ignores_padding
    assert inputs.cuts.shape[-1] - 1 == 16
    # Float32, and adaptive steps that end where padding begins.
    np.testing.assert_allclose(*found, atol=2e-5)


def test_a_spline_that_looks_ahead_gets_no_room():
    model = CubicCDE(channels=2, outputs=1, control=natural_control, key=jax.random.key(0))
    inputs = inputs_of(model, Series.from_arrays(walks([31, 20])), Windows(step=3, depth=1), room=True)
    assert not model.ignores_padding
    assert inputs.cuts.shape[-1] - 1 == 10


@pytest.mark.parametrize(
    ("number", "few", "many"), [(1, 1, 1), (9, 16, 9), (17, 32, 18), (129, 256, 144), (256, 256, 256)]
)
def test_room(number, few, many):
    assert with_room(number) == few
    assert number <= with_room(number, many=True) <= max(number, 1.125 * number + 1)
    assert with_room(number, many=True) == many
