"""The internal validation part: groups stay together, order is kept, and a handful decides nothing."""

import warnings

import numpy as np
import pytest

from neuralrde.estimators import NeuralRDERegressor
from neuralrde.estimators.division import FEWEST_TO_DECIDE, divide
from neuralrde.paths import Series
from tests.estimators.options import options

SMALL = {"state": 4, "width": 6, "layers": 1, "epochs": 2, "step": 8, "random_state": 0, "verbose": False}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 9))
SERIES, NUMBERS, CLASSES = Series.from_array(X), RNG.normal(size=(240, 1)), (np.arange(240) % 3).astype(np.int32)


@pytest.mark.parametrize("target", [NUMBERS, CLASSES])
def test_groups_stay_together(target):
    groups = np.repeat(np.arange(24), 10)
    rows, held_out = divide(SERIES, target, fraction=0.2, groups=groups)
    assert len(held_out) == 50 or len(held_out) == 40  # 48 series, in groups of 10
    assert not set(groups[rows]) & set(groups[held_out])
    assert sorted([*rows, *held_out]) == list(range(240))


def test_without_shuffling_the_last_series_are_held_out():
    rows, held_out = divide(SERIES, NUMBERS, fraction=0.15, shuffle=False)
    np.testing.assert_array_equal(np.r_[rows, held_out], np.arange(240))
    assert len(held_out) == 36
    groups = np.repeat(np.arange(24), 10)
    assert divide(SERIES, NUMBERS, fraction=0.15, shuffle=False, groups=groups)[1].tolist() == list(range(200, 240))
    with pytest.raises(ValueError, match=r"cuts through a group.*shuffle=True"):
        divide(SERIES, NUMBERS, fraction=0.15, shuffle=False, groups=np.arange(240) % 2)


def test_classes_without_a_series_to_train_on_are_refused():
    with pytest.raises(ValueError, match="1 of 3 classes whose series come last"):
        divide(SERIES, np.sort(CLASSES), fraction=0.34, shuffle=False)
    with pytest.raises(ValueError, match="classes whose series have groups of their own"):
        divide(SERIES, CLASSES, fraction=0.3, groups=CLASSES)


def test_what_cannot_be_divided_is_said():
    alike = Series.from_array(np.zeros((240, 9)))
    with pytest.warns(UserWarning, match="without a validation set, because.*239 of them copies"):
        rows, held_out = divide(alike, NUMBERS, fraction=0.15)
    assert (len(rows), len(held_out)) == (240, 0)
    with pytest.raises(ValueError, match="groups= that leave no validation set"):
        divide(SERIES, NUMBERS, fraction=0.15, groups=np.zeros(240))


@pytest.mark.long
def test_fit_takes_groups_and_order():
    """What is held out is told by what the transform has not seen: its scale is that of the training part."""

    def held_out(groups=None, **small):
        marked = X.copy()
        marked[200:] += 1e6
        model = NeuralRDERegressor(**options(**SMALL, **small)).fit(marked, NUMBERS[:, 0], groups=groups)
        return model.transform_.transforms[2].means_[0] < 1e3

    assert not held_out()
    assert held_out(shuffle=False, validation_fraction=1 / 6)
    with pytest.raises(ValueError, match=r"groups of shape \(3,\) for 240 series"):
        held_out(groups=[1, 2, 3])


@pytest.mark.parametrize(("patients", "decide"), [(120, True), (80, False)])
def test_groups_decide_by_their_number(patients, decide):
    """72 series are held out, of 36 patients or of 24: what is wrong for one series of a patient is for the others."""
    groups = np.repeat(np.arange(patients), 240 // patients)
    model = NeuralRDERegressor(**options(**SMALL, validation_fraction=0.3)).fit(X, NUMBERS[:, 0], groups=groups)
    assert ("validation_loss" in model.history_[0]) == decide
    alone = NeuralRDERegressor(**options(**SMALL, validation_fraction=0.3)).fit(X, NUMBERS[:, 0])
    assert "validation_loss" in alone.history_[0]


def test_a_handful_is_not_held_out():
    """Under 30 series nothing is held out and training runs to its end, with patience or without."""
    few = int(FEWEST_TO_DECIDE / 0.15) - 1
    small = SMALL | {"epochs": 5, "patience": 1, "learning_rate": 1e-9}  # nothing improves
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NeuralRDERegressor(**options(**small)).fit(X[:few], NUMBERS[:few, 0])
    assert len(model.history_) == 5
    assert "validation_loss" not in model.history_[0]
    assert model.history_[model.best_epoch_ - 1]["loss"] == model.validation_loss_
    model = NeuralRDERegressor(**options(**small)).fit(X[: few + 1], NUMBERS[: few + 1, 0])
    assert "validation_loss" in model.history_[0]


def test_a_given_handful_is_only_reported():
    small = SMALL | {"epochs": 6, "patience": 1, "learning_rate": 3e-2, "batch_size": 8}
    plain = NeuralRDERegressor(**options(**small, validation_fraction=0.0)).fit(X[:60], NUMBERS[:60, 0])
    model = NeuralRDERegressor(**options(**small)).fit(
        X[:60], NUMBERS[:60, 0], validation=(X[60:89], NUMBERS[60:89, 0])
    )
    assert len(model.history_) == 6
    assert "validation_rmse" in model.history_[-1]
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    model = NeuralRDERegressor(**options(**small)).fit(
        X[:60], NUMBERS[:60, 0], validation=(X[60:90], NUMBERS[60:90, 0])
    )
    assert model.validation_loss_ == min(record["validation_loss"] for record in model.history_)
