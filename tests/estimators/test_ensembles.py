"""Ensembles of estimators: folds, predictions for series left out, and the closed form beside them."""

import pickle
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from sklearn.base import clone

from neuralrde import (
    Config,
    LogSignatureClassifier,
    NeuralRDE,
    NeuralRDEClassifier,
    NeuralRDERegressor,
    Series,
    Windows,
)
from neuralrde.estimators import load
from neuralrde.estimators.division import Samples, folds
from neuralrde.estimators.fitted import Blend
from neuralrde.estimators.sources import SeriesInMemory
from neuralrde.estimators.trainer import _significance, class_factors, number_factors
from neuralrde.models import MODELS, MultiScaleRDE
from neuralrde.registry import accepted
from neuralrde.training import Listener

RNG = np.random.default_rng(0)
X = np.cumsum(RNG.normal(size=(36, 33, 2)), axis=1)
Y = np.where(X[:, -1, 0] > X[:, 0, 0], "up", "down")
TINY = Config(MultiScaleRDE, units=6, width=4, state=4, blocks=1)
# Few windows: a scan over n of them is compiled as log n products.
WINDOWS = Windows(step=8, scales=(1, 2))
QUICK = {"model": TINY, "windows": WINDOWS, "members": 3, "epochs": 3, "random_state": 0, "verbose": False}
# Of a model that compiles quickly, where the ensemble counts and not what its members are.
CHEAP = QUICK | {"model": Config(NeuralRDE, state=4, width=5, layers=1), "windows": 8}


@pytest.mark.parametrize("number", [2, 5])
def test_folds_have_all_classes_in_proportion(number):
    target = np.repeat([0, 1, 2], [20, 11, 1])
    found = folds(target, number, seed=3)
    assert found[-1] == -1  # nobody could learn the class without it
    counts = np.array([np.bincount(found[target == one], minlength=number) for one in (0, 1)])
    assert np.ptp(counts, axis=1).max() <= 1
    assert np.ptp(counts.sum(axis=0)) <= 1


def test_folds_keep_groups_together_and_series_in_order():
    groups = np.arange(40) // 4
    found = folds(np.zeros(40), 3, groups=groups, seed=0)
    assert all(len(np.unique(found[groups == one])) == 1 for one in range(10))
    assert np.ptp(np.bincount(found)) <= 4
    in_order = folds(np.zeros(40), 3, shuffle=False)
    assert (np.diff(in_order) >= 0).all()
    assert set(in_order) == {0, 1, 2}


def test_weights_are_what_a_search_over_a_grid_finds():
    target = RNG.integers(3, size=200)
    closed, neural = (2 * np.eye(3)[target] + RNG.normal(size=(200, 3)) * size for size in (1.0, 2.0))
    best = class_factors(closed, neural, target)

    def log_loss(pair):
        logits = Blend(factors=tuple(pair))(neural, closed)
        return (np.log(np.exp(logits).sum(1)) - logits[np.arange(200), target]).mean()

    grid = [(a, b) for a in np.linspace(0, 4, 21) for b in np.linspace(0, 4, 21)]
    assert log_loss(best) <= min(map(log_loss, grid)) + 0.02  # the prior costs something, as 2 of 200 series would


def test_an_ensemble_has_no_say_before_it_has_earned_one():
    """Six series, for which both are equally right: the closed form stays as it is. Six hundred: the mean is better."""
    target = np.arange(600) % 2
    closed, neural = (2 * np.eye(2)[target] + RNG.normal(size=(600, 2)) for _ in range(2))
    few, many = (class_factors(closed[:n], neural[:n], target[:n]) for n in (6, 600))
    assert abs(few[0] - 1.0) + few[1] < 0.8
    # Independent errors of one size: both have the same factor but for chance, about 10 % with 600 series.
    assert many[1] == pytest.approx(many[0], rel=0.4)
    nothing = class_factors(np.zeros((6, 2)), neural[:6], target[:6])
    assert nothing[0] == 0.0
    assert nothing[1] > 0.0


def test_numbers_are_mixed_in_shares():
    target = RNG.normal(size=(100, 1))
    noisy, noisier = (target + RNG.normal(size=(100, 1)) * size for size in (0.5, 1.0))
    closed, neural = number_factors(noisy, noisier, target)
    assert closed + neural == pytest.approx(1.0)
    assert closed == pytest.approx(0.8, abs=0.1)  # inverse variances, 4 to 1; 100 samples
    assert number_factors(target, target, target) == [0.5, 0.5]
    gaps = np.concatenate([target, np.full((50, 1), np.nan)])
    more = (np.concatenate([one, np.ones((50, 1))]) for one in (noisy, noisier))
    assert number_factors(*more, gaps)[0] == pytest.approx(closed, abs=0.05)  # what is unknown decides nothing


@pytest.mark.parametrize("closed_form", [True, False])
def test_a_classifier_goes_round(closed_form, tmp_path):
    model = NeuralRDEClassifier(closed_form=closed_form, **QUICK if closed_form else CHEAP).fit(X, Y)
    assert model.members_ == model.model_.number == 3
    assert (model.closed_form_ is not None) == closed_form
    expected = model.predict_proba(X)
    np.testing.assert_allclose(expected.sum(axis=1), 1.0, rtol=1e-6)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    assert again.blend_ == model.blend_
    assert clone(again).get_params().keys() == model.get_params().keys()
    again.partial_fit(X, Y)
    assert again.n_iter_ == 4


def test_the_closed_form_has_the_say_it_earns():
    """Labels that a model of six units cannot learn in three epochs, and ridge regression can."""
    model = NeuralRDEClassifier(**QUICK).fit(X, Y)
    closed, neural = model.blend_
    assert closed > neural
    # What is blended is what both predict.
    alone = model.closed_form_.predict_proba(X)
    model.fitted_ = replace(model.fitted_, blend=replace(model.fitted_.blend, factors=(1.0, 0.0)))
    np.testing.assert_allclose(model.predict_proba(X), alone, rtol=1e-5, atol=1e-7)


def test_a_regressor_is_calibrated_by_series_that_were_left_out(tmp_path):
    y = np.stack([X[:, -1, 0] - X[:, 0, 0], X.std(axis=(1, 2))], axis=1)
    model = NeuralRDERegressor(**CHEAP).fit(X, y)
    assert model.closed_form_ is not None
    assert len(model.scores_[0]) == 36
    predicted, interval = model.predict(X, interval=0.8)
    assert predicted.shape == (36, 2)
    assert (interval[..., 0] < interval[..., 1]).all()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), predicted)


@pytest.mark.long
@pytest.mark.parametrize("loss", ["quantiles", "histogram"])
def test_losses_without_a_closed_form(loss):
    model = NeuralRDERegressor(loss=loss, **CHEAP).fit(X, X[:, -1, 0])
    assert model.closed_form_ is None
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.long
def test_labels_at_points():
    windows = Windows(step=2, scales=(1, 4))
    model = NeuralRDEClassifier(**QUICK | {"windows": windows}).fit(X, (X[..., 0] > 0).astype(int))
    assert model.predict(X).shape == (36, 33)
    cut = X.copy()
    cut[:, 20:] = 0.0
    np.testing.assert_array_equal(model.predict(cut)[:, :20], model.predict(X)[:, :20])  # from the past only


@pytest.mark.long
def test_series_of_different_lengths_and_missing_values():
    series = [x[: 20 + i % 13] for i, x in enumerate(np.where(RNG.random(X.shape) < 0.1, np.nan, X))]
    model = NeuralRDEClassifier(closed_form=False, **QUICK).fit(series, Y)
    together = model.predict_proba(series)
    alone = np.concatenate([model.predict_proba(series[i : i + 1]) for i in range(3)])
    np.testing.assert_allclose(together[:3], alone, rtol=1e-3, atol=1e-4)  # float32, padded to other lengths


@pytest.mark.long
def test_many_channels():
    wide = RNG.normal(size=(20, 30, 40)).cumsum(axis=1)
    options = QUICK | {"windows": None, "closed_form": False}  # windows of its own, and always a neural part
    model = NeuralRDEClassifier(**options).fit(wide, np.arange(20) % 2)
    assert model.model_.first.projection is not None
    assert np.isfinite(model.predict_proba(wide)).all()


def test_other_models_are_single_unless_asked():
    model = NeuralRDEClassifier(**CHEAP | {"members": None, "epochs": 1})
    assert model.fit(X, Y).members_ == 1
    with pytest.raises(ValueError, match="members=0"):
        model.set_params(members=0).fit(X, Y)


SMALL = {"state": 4, "width": 4, "layers": 1, "blocks": 2, "units": 6}


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_a_member(name):
    options = {option: size for option, size in SMALL.items() if option in accepted(MODELS[name])}
    estimator = NeuralRDEClassifier(
        model=Config(MODELS[name], **options), windows=16, members=2, epochs=1, random_state=0, verbose=False
    )
    model = estimator.fit(X[:12], Y[:12]).model_
    assert estimator.members_ == 2
    assert estimator.predict_proba(X[:3]).shape == (3, 2)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


class Said(Listener):
    """Keeps what is said, and how many epochs there were."""

    def __init__(self):
        self.messages, self.epochs = [], 0

    def say(self, message):
        self.messages.append(message)

    def epoch(self, record):
        self.epochs += 1


@pytest.mark.parametrize("kind", [NeuralRDEClassifier, pytest.param(NeuralRDERegressor, marks=pytest.mark.long)])
def test_a_part_without_weight_is_neither_computed_nor_kept(kind, tmp_path, monkeypatch):
    weights = {"class_factors": [1.5, 0.0], "number_factors": [1.0, 0.0]}
    for name, found in weights.items():
        monkeypatch.setattr(f"neuralrde.estimators.trainer.{name}", lambda *_, found=found: found)
    model = kind(**CHEAP).fit(X, Y if kind is NeuralRDEClassifier else X[:, -1, 0])
    assert model.n_iter_ == 3
    assert model.model_ is None
    monkeypatch.setattr("neuralrde.estimators.fitted.predict", None)
    outputs = model.closed_form_._outputs(X).versions[0].outputs * model.blend_[0]
    np.testing.assert_array_equal(model._outputs(X).versions[0].outputs, outputs)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for other in (again, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    model.closed_form_.save(tmp_path / "closed")
    assert (tmp_path / "model").stat().st_size < 1.1 * (tmp_path / "closed").stat().st_size
    stream = model.stream()
    stream.push(X[0])
    assert "carried" not in stream.state()
    assert again.stream(stream.state()).predict() == model.predict(X[:1])[0]
    with pytest.raises(ValueError, match="no neural model to go on with"):
        model.partial_fit(X, Y)


def test_a_closed_form_without_weight_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr("neuralrde.estimators.trainer.class_factors", lambda *_: [0.0, 2.0])
    model = NeuralRDEClassifier(**CHEAP).fit(X, Y)
    assert model.closed_form_ is None
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def far_apart(kind):
    """Two classes far apart, or two values: the closed form is right about each series without having seen it."""
    label = np.arange(36) % 2
    return 100.0 * label[:, None, None] + 0.0 * X, np.where(label, "up", "down") if kind._task[
        0
    ] == "c" else 1e6 * label


@pytest.mark.parametrize("kind", [NeuralRDEClassifier, NeuralRDERegressor])
def test_nothing_is_trained_where_nothing_can_be_gained(kind, tmp_path):
    apart, y = far_apart(kind)
    said = Said()
    model = kind(**CHEAP).fit(apart, y, listeners=[said])
    assert said.epochs == model.n_iter_ == 0
    assert model.blend_ == (1.0, 0.0)
    (message,) = said.messages
    assert "no error on the 36 series" in message
    assert "closed_form=False" in message
    np.testing.assert_array_equal(model.predict(apart), model.closed_form_.predict(apart).reshape(36))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(apart), model.predict(apart))


@pytest.mark.parametrize("kind", [NeuralRDEClassifier, NeuralRDERegressor])
def test_what_brings_nothing_ends_early(kind, tmp_path):
    """Noise: whatever an ensemble says of it, the closed form's predictions are not made clearly better."""
    y = RNG.permutation(Y) if kind is NeuralRDEClassifier else RNG.normal(size=36)
    said, brief = Said(), CHEAP | {"epochs": None}
    model = kind(**brief).fit(X, y, listeners=[said], checkpoint=tmp_path / "state")
    assert model.model_ is None
    assert model.blend_ == (1.0, 0.0)
    assert said.epochs == model.n_iter_ == 50  # a tenth of 1000 steps, two per epoch
    assert "promises no better" in said.messages[-1]
    assert "closed_form=False" in said.messages[-1]
    again = kind(**brief).fit(X, y, checkpoint=tmp_path / "state", resume=True)
    assert again.n_iter_ == model.n_iter_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_of_few_series_with_classes_the_default_is_the_closed_form():
    said = Said()
    model = NeuralRDEClassifier(random_state=0, verbose=False).fit(X, Y, listeners=[said])
    assert said.epochs == model.n_iter_ == 0
    assert "Of 36 series, fewer than 500" in said.messages[-1]
    assert "Write epochs=" in said.messages[-1]
    np.testing.assert_array_equal(model.predict(X), LogSignatureClassifier().fit(X, Y).predict(X))


def test_one_error_cannot_be_told_from_luck():
    apart, y = far_apart(NeuralRDEClassifier)
    y = np.where(np.arange(36) == 7, np.where(y == "up", "down", "up"), y)
    said = Said()
    model = NeuralRDEClassifier(**CHEAP | {"epochs": None}).fit(apart, y, listeners=[said])
    assert said.epochs == 0
    assert "1 error on the 36 series" in said.messages[0]
    assert model.model_ is None


def test_gains_are_counted_by_groups():
    """One group's gain says nothing of the next, however many series it has."""
    samples = Samples(SeriesInMemory(Series(X)), np.zeros(36))
    gains = np.where(np.arange(36) < 18, 1.0, 0.0)
    assert _significance(gains, samples) == pytest.approx(6.0)  # 18 of 36, each with a spread of a half
    assert _significance(gains, replace(samples, groups=np.arange(36) // 18)) == pytest.approx(2**0.5)
    assert _significance(gains, replace(samples, weight=3 * gains)) == pytest.approx(6.0)
    assert _significance(-gains, samples) == pytest.approx(-6.0)


@pytest.mark.long
@pytest.mark.parametrize("kind", [NeuralRDEClassifier, NeuralRDERegressor])
def test_training_can_be_asked_for_and_few_series_do_not_tell(kind):
    apart, y = far_apart(kind)
    assert kind(**CHEAP | {"closed_form": False}).fit(apart, y).n_iter_ == 3
    assert kind(**CHEAP).fit(apart[:20], y[:20]).n_iter_ == 3
