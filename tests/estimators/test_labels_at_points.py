"""Labels at points: every one counts, or a sentence says which do not."""

import warnings

import numpy as np
import pytest

from neuralrde.estimators import NeuralRDEClassifier, NeuralRDERegressor
from neuralrde.estimators.targets import share_at_cuts
from neuralrde.paths import Series, Windows
from tests.estimators.options import options

SMALL = {"state": 6, "width": 12, "layers": 1, "epochs": 2, "learning_rate": 2e-2, "weight_decay": 0.01, "step": 4}
WALKS = np.cumsum(np.random.default_rng(0).normal(size=(40, 17, 1)), axis=1)


def sparse(points, of=WALKS):
    """The walk itself, known at some points only."""
    target = np.full_like(of, np.nan)
    target[:, points] = of[:, points]
    return target


def test_labels_between_windows_ends_are_trained_on():
    """None of these points ends a window of 4 points; each is a regular reading of what is to be learned."""
    model = NeuralRDERegressor(**options(**SMALL | {"epochs": 60, "random_state": 0}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(WALKS, sparse([1, 5, 9, 13]))
    assert model.label_share_ == 1.0
    assert model.history_[0]["loss"] > 0.1  # half the squared error, in spreads: nothing is known yet
    assert model.history_[-1]["loss"] < 0.1
    assert model.score(WALKS, WALKS) > 0.6  # at points in between the last prediction is held


def test_labels_of_classes_between_windows_ends():
    labels = np.full(WALKS.shape[:2], "", dtype=object)
    labels[:, 5] = np.where(WALKS[:, 5, 0] > 0, "up", "down")
    model = NeuralRDEClassifier(**options(**SMALL | {"epochs": 40, "random_state": 0})).fit(WALKS, labels)
    assert model.label_share_ == 1.0
    assert model.history_[-1]["loss"] < 0.3 < model.history_[0]["loss"]


def test_a_label_that_the_training_set_lacks_is_refused_at_points_too():
    labels = np.where(WALKS[..., 0] > 0, "up", "down")
    model = NeuralRDEClassifier(**options(**SMALL))
    with pytest.raises(ValueError, match="Got the label 'still'; expected one of"):
        model.fit(WALKS, labels, validation=(WALKS[:30], np.full((30, 17), "still")))


def test_labels_of_the_validation_set_count_too():
    model = NeuralRDERegressor(**options(**SMALL))
    model.fit(WALKS, sparse([1, 5]), validation=(WALKS[:30], sparse([3, 6, 7], of=WALKS[:30])))
    assert model.history_[-1]["validation_loss"] > 0


def test_dense_labels_keep_long_windows_and_say_their_share():
    with pytest.warns(UserWarning, match=r"windows of step=4, 29 % of the labels .* step=1 to use all"):
        model = NeuralRDERegressor(**options(**SMALL)).fit(WALKS, WALKS)  # at 0, 4, 8, 12 and 16 of 17 points
    assert model.label_share_ == pytest.approx(5 / 17)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert NeuralRDERegressor(**options(**SMALL | {"step": 1})).fit(WALKS, WALKS).label_share_ == 1.0


def test_no_label_at_any_windows_end_is_refused():
    with pytest.raises(ValueError, match=r"none of which stands at the end of a window of step=8.*step=1"):
        NeuralRDERegressor(**options(**SMALL | {"step": 8})).fit(WALKS, sparse([1, 2, 3, 5, 6, 7, 9, 10]))


def test_series_without_a_label_are_left_out():
    target = sparse([4, 8])
    target[1::2] = np.nan
    one, other = (NeuralRDERegressor(**options(**SMALL | {"random_state": 0})) for _ in range(2))
    one.fit(WALKS, target)
    other.fit(WALKS[::2], target[::2])
    np.testing.assert_array_equal(one.predict(WALKS), other.predict(WALKS))
    with pytest.raises(ValueError, match="no known target of output 0"):
        one.fit(WALKS, np.full_like(WALKS, np.nan))
    with pytest.raises(ValueError, match=r"Got series without any label"):
        one.fit(WALKS, target, validation=(WALKS, np.full_like(WALKS, np.nan)))


def test_windows_by_time_end_at_labels_too():
    timed = Series.from_array(WALKS, times=np.arange(17.0))
    known = np.zeros((40, 17), bool)
    known[:, [1, 9]] = True
    assert share_at_cuts(timed, known, Windows(every=4.0)) == 1.0
    small = SMALL | {"step": None, "every": 4.0}
    assert NeuralRDERegressor(**options(**small)).fit(timed, sparse([1, 9])).label_share_ == 1.0


def test_outputs_that_are_never_known_together():
    target = np.full((40, 17, 2), np.nan)
    target[:, 4, 0] = 100 + 10 * WALKS[:, 4, 0]
    target[:, 8, 1] = -WALKS[:, 8, 0]
    model = NeuralRDERegressor(**options(**SMALL | {"epochs": 60, "random_state": 0})).fit(WALKS, target)
    labels = model.model_.decoder.labels
    np.testing.assert_allclose(labels.mean.value, np.nanmean(target, axis=(0, 1)), rtol=1e-5)  # kept in float32
    np.testing.assert_allclose(labels.spread.value, np.nanstd(target, axis=(0, 1)), rtol=1e-5)
    assert model.score(WALKS, target) > 0.8
    lost = target.copy()
    lost[..., 1] = np.nan
    with pytest.raises(ValueError, match="no known target of output 1"):
        model.fit(WALKS, lost)


def test_some_outputs_of_a_series_may_be_unknown():
    target = np.stack([WALKS[:, -1, 0], WALKS[:, 4, 0]], axis=1)
    holes = target.copy()
    holes[::3, 0] = holes[1::3, 1] = np.nan
    model = NeuralRDERegressor(**options(**SMALL | {"epochs": 60, "random_state": 0})).fit(WALKS, holes)
    assert model.score(WALKS, target) > 0.8
    seen = ~np.isnan(holes)
    expected = [
        1 - ((model.predict(WALKS) - target)[seen[:, k], k] ** 2).mean() / target[seen[:, k], k].var() for k in (0, 1)
    ]
    assert model.score(WALKS, holes) == pytest.approx(np.mean(expected))
    holes[5] = np.nan
    with pytest.raises(ValueError, match="no target for series 5"):
        model.fit(WALKS, holes)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(WALKS, holes[:, 0])
