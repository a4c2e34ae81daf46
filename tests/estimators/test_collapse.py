"""A classifier that predicts one class for everything is noticed and said."""

import warnings

import numpy as np
import pytest

from neuralrde.datasets import order_of_events
from neuralrde.estimators import NeuralRDEClassifier
from neuralrde.training import AdamW, TrainingWarning
from tests.estimators.options import options

DATA = order_of_events(samples=80, length=33, events=4, noise=0.02)
X, Y = DATA.series.values, DATA.target
SMALL = options(state=6, width=12, layers=1, epochs=25, step=8, random_state=0)
# Weights that shrink this much hold nothing: all predictions are alike.
HUGE = SMALL | {"optimizer": AdamW(learning_rate=2e-2, weight_decay=30.0)}


@pytest.mark.long
@pytest.mark.parametrize("values", [X, np.zeros((80, 9))], ids=["decay", "nothing to learn"])
def test_a_collapse_is_said(values):
    with pytest.warns(TrainingWarning, match="one class for nearly all.*learned nothing"):
        NeuralRDEClassifier(**HUGE).fit(values, Y)


def test_a_training_that_learns_or_was_too_short_is_left_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeuralRDEClassifier(**SMALL | {"optimizer": AdamW(learning_rate=2e-2, weight_decay=0.01)}).fit(X, Y)
        NeuralRDEClassifier(**HUGE | {"epochs": 2}).fit(X, Y)
