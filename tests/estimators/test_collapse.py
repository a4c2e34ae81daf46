"""A classifier that predicts one class for everything is noticed, said, and trained again."""

import warnings

import numpy as np
import pytest

from neuralrde.datasets import order_of_events
from neuralrde.estimators import NeuralRDEClassifier
from neuralrde.estimators.trainer import constant_loss, has_collapsed
from neuralrde.training import AdamW, TrainingWarning
from tests.estimators.options import options

DATA = order_of_events(samples=80, length=33, events=4, noise=0.02)
X, Y = DATA.series.values, DATA.target
SMALL = options(state=6, width=12, layers=1, epochs=25, learning_rate=2e-2, step=8, random_state=0)
# Weights that shrink this much hold nothing: without another training all predictions are alike.
HUGE = SMALL | {"optimizer": AdamW(learning_rate=2e-2, weight_decay=30.0)}


@pytest.mark.long
def test_a_collapse_is_trained_again():
    with pytest.warns(TrainingWarning, match="one class.*trained again.*learning rate of 0.01"):
        model = NeuralRDEClassifier(**HUGE).fit(X, Y)
    first, second = model.restarts_
    assert (first["collapsed"], first["kept"]) == (True, False)
    assert (second["collapsed"], second["kept"]) == (False, True)
    assert (second["weight_decay"], second["learning_rate"]) == (0.0, 0.01)
    assert model.score(X, Y) > 0.9
    assert [record["epoch"] for record in model.history_] == list(range(1, 26))
    again = NeuralRDEClassifier(**HUGE)
    with pytest.warns(TrainingWarning):
        np.testing.assert_array_equal(again.fit(X, Y).predict_proba(X), model.predict_proba(X))


@pytest.mark.long
def test_at_most_two_more_and_the_best_is_kept():
    """Constant series tell nothing apart: each training collapses, and that is said too."""
    same = np.zeros((40, 9))
    with pytest.warns(TrainingWarning, match="learned nothing that tells them apart"):
        model = NeuralRDEClassifier(**HUGE).fit(same, np.arange(40) % 2)
    assert len(model.restarts_) == 3
    assert all(record["collapsed"] for record in model.restarts_)
    kept = [record["monitored"] for record in model.restarts_ if record["kept"]]
    assert kept == [min(record["monitored"] for record in model.restarts_)] == [model.validation_loss_]


def test_a_training_that_learns_is_left_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NeuralRDEClassifier(**SMALL | {"optimizer": AdamW(learning_rate=2e-2, weight_decay=0.01)}).fit(X, Y)
    assert model.restarts_ == []
    # Nor is one that was too short to learn.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert NeuralRDEClassifier(**HUGE | {"epochs": 2}).fit(X, Y).restarts_ == []


def test_labels_at_points_and_weights():
    target = np.array([[0, 1, -1], [0, 0, 1]])
    assert has_collapsed(np.zeros((2, 3, 2)), target)
    assert not has_collapsed(np.eye(2)[np.maximum(target, 0)], target)
    # Loss: each series counts alike, and its own labels share that: class 0 has 1/4 + 1/3.
    share = 1 / 4 + 1 / 3
    assert constant_loss(target) == pytest.approx(-share * np.log(share) - (1 - share) * np.log(1 - share))
    assert constant_loss(np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 1.0, 3.0])) == pytest.approx(np.log(2))
    # One rare class, never predicted, is no collapse if the loss says that something was learned.
    rare = np.r_[np.zeros(98, int), 1, 1]
    knows = np.stack([np.full(100, 2.0), np.r_[np.full(98, -3.0), 1.9, 1.9]], axis=1)
    assert knows.argmax(1).max() == 0
    assert not has_collapsed(knows, rare)
