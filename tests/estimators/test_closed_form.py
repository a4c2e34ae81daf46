"""Estimators in closed form: what they take, what they promise, and that they come back from a file."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from neuralrde import Series
from neuralrde.estimators import (
    LogSignatureClassifier,
    LogSignatureFeatures,
    LogSignatureRegressor,
    fitted,
    load,
)
from neuralrde.estimators.fitted import FittedClosedForm
from neuralrde.features import FeatureSizes, RandomFeatures, Ridge
from neuralrde.features.random_windows import POINTS
from neuralrde.signatures import log_signature
from neuralrde.training import FileRefused


def turning(samples=60, length=80, noise=0.2, seed=0):
    """Circles that turn left or right, at any phase: only areas tell them apart."""
    rng = np.random.default_rng(seed)
    label = np.arange(samples) % 2
    angle = np.linspace(0, 6 * np.pi, length) * np.where(label, 1, -1)[:, None] + rng.uniform(0, 6, (samples, 1))
    values = np.stack([np.cos(angle), np.sin(angle)], axis=2) + noise * rng.normal(size=(samples, length, 2))
    return values, np.array(["left", "right"])[label]


def test_shares_are_those_of_windows_looked_at_one_by_one():
    """Each feature by hand: the windows' log-signatures with the public function, one at a time, in float64."""
    X, _ = turning(samples=6, length=40)
    series = Series.from_array(X)
    features = RandomFeatures.fit(series, FeatureSizes(draws=6, maps=5, windows=9), seed=3)
    found, at = features(series), 0
    scaled, each, changes = (np.swapaxes(array, 1, 2).astype(np.float64) for array in features.seen(series))
    for draw, (kind, dilation, _, kept, span) in enumerate(np.asarray(features.drawn.plan)):
        path = (scaled, each, changes)[kind] @ features.drawn.mixtures[draw, :, :kept].astype(np.float64)
        assert span == POINTS * dilation
        last = max(0, 39 - span)
        count = min(9, last + 1)
        starts = np.minimum(np.arange(count) * max(last, 1) // max(count - 1, 1), last)
        words = features.drawn.words[draw]
        maps = (
            np.concatenate([np.eye(words), features.drawn.maps[draw, :words]], axis=1)
            * features.drawn.scales[draw, :words, None]
        )
        thresholds = features.drawn.thresholds[draw, :, : maps.shape[1]]
        above = np.zeros((6, *thresholds.shape))
        close = np.zeros_like(above)
        for start in starts:
            points = np.minimum(start + dilation * np.arange(POINTS + 1), 39)
            clock = np.broadcast_to(np.linspace(0, 1, POINTS + 1)[:, None], (6, POINTS + 1, 1))
            window = np.concatenate([clock, path[:, points]], axis=2)
            logs = log_signature(window, depth=4 if kept == 1 else 3)[:, 1:]
            logs = logs if kind == 2 else np.concatenate([logs, path[:, start]], axis=1)
            values = (logs @ maps)[:, None]
            above += values > thresholds
            close += np.abs(values - thresholds) < 1e-4 * (1 + np.abs(thresholds))  # float32 may fall to either side
        size = above[0].size
        got = found[:, at : at + size] * count
        assert (np.abs(got - above.reshape(6, -1)) <= close.reshape(6, -1) + 1e-3).all()
        # Of eight rivals one wins each window, unless nothing happens in it: squared roots of shares add up to 1.
        won = (found[:, at + size : at + size + 64] ** 2).reshape(6, 2, 4, 8).sum(axis=3)
        np.testing.assert_allclose(won, 1.0, rtol=1e-5)  # of float32 numbers
        at += size + 64
    assert at == found.shape[1] == features.count


def test_areas_tell_classes_apart():
    X, y = turning()
    model = LogSignatureClassifier().fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) == 1.0
    assert list(model.classes_) == ["left", "right"]


def test_fitted_values_have_the_features_behind_their_predictions():
    X, y = turning(samples=20)
    classifier, features = LogSignatureClassifier(draws=7).fit(X, y), LogSignatureFeatures(draws=7).fit(X)
    found = classifier.fitted_.of(Series.from_array(X))
    np.testing.assert_array_equal(found, features.transform(X))
    np.testing.assert_array_equal(found, features.fitted_.of(Series.from_array(X)))


def test_many_series_are_predicted_in_blocks(monkeypatch):
    X, y = turning()
    model = LogSignatureClassifier(draws=7).fit(X, y)
    scores, probabilities = model.decision_function(X), model.predict_proba(X)
    sizes, of = [], FittedClosedForm.of
    monkeypatch.setattr(fitted, "_AT_ONCE", 25)
    monkeypatch.setattr(FittedClosedForm, "of", lambda self, *some: sizes.append(len(some[0])) or of(self, *some))
    # A product of fewer rows may be summed in another order, in float64.
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), probabilities, atol=1e-12)
    assert sizes == [25, 25, 10] * 2


def test_the_same_each_time_and_other_draws_with_another_seed():
    X, y = turning(samples=30)
    first, again = (LogSignatureClassifier().fit(X, y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (LogSignatureClassifier(random_state=1).fit(X, y).predict_proba(X) != first).any()


def test_irregular_times_gaps_and_lengths():
    """Half of the points dropped, values missing, series cut: times say where points are, so little is lost."""
    X, y = turning(samples=120, length=120)
    rng = np.random.default_rng(5)
    values, times = [], []
    for row in X:
        kept = np.sort(rng.choice(120, 60, replace=False))[: rng.integers(36, 61)]
        damaged = row[kept].copy()
        damaged[rng.random(damaged.shape) < 0.2] = np.nan
        values.append(damaged)
        times.append(kept.astype(float))
    series = Series.from_arrays(values, times=times)
    model = LogSignatureClassifier().fit(series[:80], y[:80])
    assert model.score(series[80:], y[80:]) > 0.9


def test_one_series_at_a_time_as_all_together():
    X, y = turning(samples=30)
    lengths = np.random.default_rng(0).integers(10, 81, size=30)
    series = Series(X, lengths=lengths)
    model = LogSignatureClassifier().fit(series, y)
    together = model.predict_proba(series)
    for row in (0, 7, 29):
        alone = Series.from_arrays([X[row, : lengths[row]]])
        np.testing.assert_allclose(model.predict_proba(alone)[0], together[row], rtol=1e-5, atol=1e-6)  # float32 sums


def test_very_short_and_constant_series():
    X, y = turning(samples=12, length=3)
    model = LogSignatureClassifier(draws=14).fit(X, y)
    assert np.isfinite(model.predict_proba(X[:, :1])).all()
    constant = LogSignatureClassifier(draws=14).fit(np.ones((8, 20, 2)), ["a", "b"] * 4)
    np.testing.assert_allclose(constant.predict_proba(np.ones((3, 20, 2))), 0.5)


def test_probabilities_are_calibrated_on_what_was_left_out():
    """Labels that are noise: nothing but even odds is right, although there are far more features than series."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 50, 2)), rng.integers(0, 2, size=200)
    model = LogSignatureClassifier(draws=42).fit(X, y[:100])
    other = rng.normal(size=(100, 50, 2))
    # Even odds have 0.69; a ridge classifier taken at its word has several times that.
    assert log_loss(y[100:], model.predict_proba(other)) < 0.8


@pytest.mark.parametrize("outputs", [None, 2])
def test_regression_and_its_intervals(outputs):
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.normal(size=(400, 60, 2)), axis=1) * rng.uniform(0.5, 2.0, size=(400, 1, 1))
    y = np.log(X.std(axis=1)) + 0.1 * rng.normal(size=(400, 2))
    y = y[:, 0] if outputs is None else y
    model = LogSignatureRegressor(draws=42).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.8
    predicted, interval = model.predict(X[200:], interval=0.9)
    assert predicted.shape == y[200:].shape
    assert interval.shape == (*predicted.shape, 2)
    inside = (interval[..., 0] <= y[200:]) & (y[200:] <= interval[..., 1])
    # Of 200 targets, a share of 0.9 has a standard error of 0.02; four of them.
    assert abs(inside.mean() - 0.9) < 0.085


def test_groups_are_left_out_together():
    """Series of a group are copies of each other: leaving out one of them says nothing, leaving out all does."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 40, 1)), rng.integers(0, 2, size=20)
    copies, labels, groups = np.repeat(X, 5, axis=0), np.repeat(y, 5), np.repeat(np.arange(20), 5)
    copies = copies + 1e-3 * rng.normal(size=copies.shape)
    sharp = LogSignatureClassifier(draws=14).fit(copies, labels)
    honest = LogSignatureClassifier(draws=14).fit(copies, labels, groups=groups)
    assert float(honest.model_.sharpness) < 0.5 * float(sharp.model_.sharpness)


@pytest.mark.parametrize("estimator", [LogSignatureClassifier(draws=7), LogSignatureRegressor(draws=7)])
def test_files(estimator, tmp_path):
    X, y = turning(samples=20)
    y = y if isinstance(estimator, LogSignatureClassifier) else np.arange(20.0)
    model = clone(estimator).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    LogSignatureFeatures(draws=7).fit(X).save(tmp_path / "features")
    expected = LogSignatureFeatures(draws=7).fit_transform(X)
    np.testing.assert_array_equal(load(tmp_path / "features").transform(X), expected)


def test_a_file_with_another_plan_is_refused(tmp_path):
    X, y = turning(samples=20)
    model = LogSignatureClassifier(draws=7).fit(X, y)
    model.model_.features.random.drawn.plan[0, 1] = -5
    model.save(tmp_path / "model")
    with pytest.raises((FileRefused, ValueError), match="plan"):
        load(tmp_path / "model").predict(X)


def test_with_scikit_learn():
    X, y = turning(samples=40)
    search = GridSearchCV(LogSignatureClassifier(), {"draws": [14, 28]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8
    pipeline = make_pipeline(LogSignatureFeatures(draws=14), RidgeClassifierCV()).fit(X, y)
    assert pipeline.score(X, y) == 1.0


def test_what_is_refused():
    X, y = turning(samples=10, length=20)
    with pytest.raises(ValueError, match=r"target at every point.*NeuralRDEClassifier"):
        LogSignatureClassifier().fit(X, np.tile(["a", "b"], (10, 10)))
    with pytest.raises(ValueError, match="Got draws=0"):
        LogSignatureClassifier(draws=0).fit(X, y)
    with pytest.raises(ValueError, match="channels"):
        LogSignatureClassifier(draws=7).fit(X, y).predict(X[..., :1])


def test_many_channels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 40, 1345)).astype(np.float32), np.arange(30) % 2
    X[y == 1, :, :400] *= 2
    model = LogSignatureClassifier().fit(Series.from_array(X[:20]), y[:20])
    assert model.score(Series.from_array(X[20:]), y[20:]) > 0.8


@pytest.mark.parametrize("factor", [1e12, 1e38, 1e300])
def test_values_beyond_float32_are_no_prediction(factor):
    """Log-signatures that overflow once counted as any others: 0.999999 sure, from 1e300."""
    X, y = turning(samples=20)
    wild = X.copy()
    wild[3, 40:, 1] *= factor
    series = Series(wild, ids=[f"s{k}" for k in range(20)])
    for model in (LogSignatureClassifier(draws=7), LogSignatureRegressor(draws=7)):
        model.fit(X, y if isinstance(model, LogSignatureClassifier) else np.arange(20.0))
        with pytest.raises(ValueError, match=r"series 3 \(s3\), whose channel 'x1' reaches .*write NaN"):
            model.predict(series)
        if factor == 1e300:
            with pytest.raises(ValueError, match="whose channel 'x1' reaches"), np.errstate(over="ignore"):
                clone(model).fit(wild, np.arange(20) % 2)
        stream = model.stream()
        stream.push(wild[3])
        with pytest.raises(ValueError, match="whose channel 'x1' reaches"):
            stream.predict()


def test_targets_beyond_float32_are_refused():
    X, _ = turning(samples=20)
    with pytest.raises(ValueError, match=r"targets up to 1\.9e\+40; expected at most 3\.4e\+38.*logarithm"):
        LogSignatureRegressor(draws=7).fit(X, 1e39 * np.arange(20.0))


@pytest.mark.parametrize("weight", [-5.0, np.nan, np.inf, 1e39])
@pytest.mark.parametrize("kind", [LogSignatureClassifier, LogSignatureRegressor])
def test_weights_that_mean_nothing_are_refused(kind, weight):
    X, _ = turning(samples=20)
    weights = np.ones(20)
    weights[4] = weight
    with pytest.raises(ValueError, match=r"sample_weight .* for series 4; expected finite numbers of 0 or more"):
        kind(draws=7).fit(X, np.arange(20) % 2, sample_weight=weights)


@pytest.mark.parametrize("kind", [LogSignatureClassifier, LogSignatureRegressor])
def test_a_weight_of_zero_leaves_a_series_out(kind):
    X, _ = turning(samples=30)
    y, weights = np.arange(30) % 2, np.ones(30)
    X[20:], weights[20:] = 100 * X[20:], 0.0  # which would have changed every scale
    some, fewer = kind(draws=7).fit(X, y, sample_weight=weights), kind(draws=7).fit(X[:20], y[:20])
    np.testing.assert_array_equal(some.predict(X), fewer.predict(X))
    with pytest.raises(ValueError, match="sample_weight or class_weight that is zero for all series"):
        kind(draws=7).fit(X, y, sample_weight=np.zeros(30))


def test_classes_have_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 40)), np.repeat(["a", "b", "c"], [60, 20, 10])
    share = lambda **options: LogSignatureClassifier(draws=7, **options).fit(X, y).predict_proba(X).mean(axis=0)
    np.testing.assert_allclose(share(class_weight="balanced"), 1 / 3, atol=0.1)
    np.testing.assert_allclose(share(), [6 / 9, 2 / 9, 1 / 9], atol=0.1)
    np.testing.assert_array_equal(
        share(class_weight={"c": 3.0}),
        LogSignatureClassifier(draws=7).fit(X, y, np.where(y == "c", 3.0, 1.0)).predict_proba(X).mean(axis=0),
    )
    none = LogSignatureClassifier(draws=7, class_weight={"c": 0.0}).fit(X, y)
    assert none.classes_.tolist() == ["a", "b", "c"]
    assert "c" not in none.predict(X)
    two = LogSignatureClassifier(draws=7).fit(X[:80], y[:80])
    np.testing.assert_array_equal(none.model_.features.blocks["shares"].mean, two.model_.features.blocks["shares"].mean)
    with pytest.raises(ValueError, match=r"class_weight for \['d'\]"):
        share(class_weight={"d": 1.0})


def test_each_output_is_fitted_to_the_series_that_have_it(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 50)).cumsum(axis=1)
    y = np.stack([X.std(axis=1), X[:, -1], X[:, -1] - X[:, 0]], axis=1)
    gaps = y.copy()
    gaps[:20, 1] = gaps[40:, 0] = np.nan
    model = LogSignatureRegressor(draws=14).fit(X, gaps)
    features = LogSignatureFeatures(draws=14).fit_transform(X)
    for output in range(3):
        known = ~np.isnan(gaps[:, output])
        alone = Ridge.fit(features[known], gaps[known, output : output + 1], blocks=model.model_.features.scales)
        np.testing.assert_allclose(model.predict(X)[:, output], alone(features)[:, 0], rtol=1e-4, atol=1e-4)  # float32
        assert len(model.scores_[output]) == known.sum()
    assert model.predict(X, interval=0.9)[1].shape == (60, 3, 2)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def test_features_of_many_series_are_an_array_too(monkeypatch):
    X = np.random.default_rng(0).normal(size=(12, 40, 2))
    usual = LogSignatureFeatures(draws=2).fit_transform(X)
    monkeypatch.setattr("neuralrde.features.features._KEPT", usual.nbytes // 3)
    model = LogSignatureFeatures(draws=2)
    found = model.fit_transform(X)
    assert isinstance(found, np.ndarray)
    assert found.shape == usual.shape
    np.testing.assert_array_equal(found, model.transform(X))
