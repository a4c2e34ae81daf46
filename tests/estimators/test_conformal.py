"""Intervals of series that come in groups: what they promise holds for a new group, and no more is promised."""

import numpy as np
import pytest

from neuralrde import Config, LogSignatureRegressor, NeuralRDE, NeuralRDEClassifier, NeuralRDERegressor
from neuralrde.estimators import LogSignatureClassifier, trainer
from neuralrde.estimators.division import folds
from neuralrde.estimators.fitted import conformal_score, held_out_scores
from neuralrde.tools.serving.served import ServedModel

TINY = {"model": Config(NeuralRDE, state=3, width=4, layers=1), "windows": 8, "epochs": 1, "verbose": False}


def patients(groups, series, rng, length=30):
    """Series of patients, each with a level of its own in the target that no series tells."""
    X = rng.normal(size=(groups * series, length)).cumsum(axis=1)
    group = np.repeat(np.arange(groups), series)
    return X, X.std(axis=1) + 3 * rng.normal(size=groups)[group] + 0.3 * rng.normal(size=len(X)), group


@pytest.mark.parametrize(("groups", "series"), [(12, 10), (30, 5), (4, 40)])
def test_a_new_group_is_covered_as_promised(groups, series):
    """Scores that differ from group to group more than within. Of 4,000 draws the standard error is 0.006."""
    rng, share = np.random.default_rng(groups), 0.8
    inside = np.zeros(4000)
    for i in range(len(inside)):
        scores = np.abs(rng.normal(size=(groups + 1, 1)) + 0.1 * rng.normal(size=(groups + 1, series)))
        held_out, new = scores[:-1].reshape(-1, 1), scores[-1, 0]
        inside[i] = new <= conformal_score(held_out_scores(held_out, np.repeat(np.arange(groups), series)), share)[0]
    # At least the share, and at most one group more, but for chance.
    assert share - 0.012 < inside.mean() < share + 1 / (groups + 1) + 0.012


def test_groups_of_one_series_are_no_groups():
    scores = np.random.default_rng(0).normal(size=(37, 2))
    scores[3, 1] = np.nan
    assert held_out_scores(scores, np.arange(37)) == held_out_scores(scores)
    assert held_out_scores(scores)[0] == sorted(scores[:, 0])


def test_no_more_is_promised_than_groups_can():
    X, y, group = patients(4, 10, np.random.default_rng(0))
    model = LogSignatureRegressor(draws=7).fit(X, y, groups=group)
    assert len(model.scores_[0]) == 4
    model.predict(X, interval=0.8)
    # A service leaves out what it cannot promise, and still predicts.
    assert [ServedModel("rate", model, interval=share).interval for share in (0.8, 0.9)] == [0.8, None]
    with pytest.raises(
        ValueError, match=r"4 held-out targets.*group.*at most 0\.8; expected at least 9.*interval=0\.8"
    ):
        model.predict(X, interval=0.9)


@pytest.mark.long
@pytest.mark.parametrize(("groups", "series", "share"), [(12, 10, 0.9), (30, 5, 0.9), (4, 40, 0.8)])
def test_intervals_of_new_patients(groups, series, share):
    """Where series were counted instead, 0.9, 0.9 and 0.8 covered 0.87, 0.88 and 0.75."""
    rng, covered = np.random.default_rng(1), []
    for _ in range(60):
        X, y, group = patients(groups + 60, series, rng)
        new = group >= groups
        model = LogSignatureRegressor(draws=14).fit(X[~new], y[~new], groups=group[~new])
        _, ends = model.predict(X[new], interval=share)
        covered.append(((ends[:, 0] <= y[new]) & (y[new] <= ends[:, 1])).mean())
    # The mean has a standard error of 0.006 to 0.024. Of few groups more are covered, because they are counted whole.
    assert np.mean(covered) > share


def test_left_out_groups_decide_what_a_regressor_learns():
    """Copies within a group: who leaves out single series finds no error at all."""
    rng = np.random.default_rng(0)
    X, group = np.repeat(rng.normal(size=(20, 40)), 5, axis=0), np.repeat(np.arange(20), 5)
    X, y = X + 1e-3 * rng.normal(size=X.shape), np.repeat(rng.normal(size=20), 5)
    alone, together = (LogSignatureRegressor(draws=14).fit(X, y, groups=one) for one in (None, group))
    assert np.median(alone.scores_[0]) < 0.1
    assert np.median(together.scores_[0]) > 0.3
    assert together.penalty_ > alone.penalty_


def test_a_neural_regressor_counts_groups_too(monkeypatch):
    X, y, group = patients(6, 4, np.random.default_rng(0))
    found = []
    monkeypatch.setattr(trainer, "folds", lambda *args, **how: found.append(folds(*args, **how)) or found[-1])
    model = NeuralRDERegressor(**TINY, members=2, closed_form=False, random_state=0).fit(X, y, groups=group)
    assert len(model.scores_[0]) == 6
    assert all(len(set(found[0][group == one])) == 1 for one in range(6))  # a member leaves out whole groups
    model.calibrate(X, y, groups=group // 2)
    assert len(model.scores_[0]) == 3


@pytest.mark.parametrize(
    "estimator",
    [
        LogSignatureClassifier(draws=3),
        LogSignatureRegressor(draws=3),
        NeuralRDEClassifier(**TINY),
        NeuralRDERegressor(**TINY),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("weight", [None, [1.0] * 10 + [0.0] * 10])
def test_a_single_group_is_refused(estimator, weight):
    X, y = np.random.default_rng(0).normal(size=(20, 30)), np.arange(20) % 2
    groups = ["one"] * (20 if weight is None else 10) + ["other"] * (0 if weight is None else 10)
    with pytest.raises(ValueError, match="groups that are all 'one'; expected at least two"):
        estimator.fit(X, y, sample_weight=weight, groups=groups)
