"""The estimators: what they take, that they learn, and that they are good company in scikit-learn."""

import pickle

import jax
import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from neuralrde.datasets import order_of_events, spirals
from neuralrde.estimators import LogSignatureFeatures, NeuralRDEClassifier, NeuralRDERegressor
from neuralrde.estimators.sources import inputs_of
from neuralrde.paths import Series, Windows, window_cuts
from neuralrde.training import JSONLines
from neuralrde.transforms import Standard
from tests.estimators.options import options

SMALL = {"state": 6, "width": 12, "layers": 1, "epochs": 12, "learning_rate": 2e-2, "weight_decay": 0.01, "step": 8}
DATA = order_of_events(samples=80, length=33, events=4, noise=0.02)
X, Y = DATA.series.values, np.array(DATA.classes)[DATA.target]


def classifier(**changes):
    return NeuralRDEClassifier(**options(**SMALL | {"random_state": 0} | changes))


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, Y)


def test_classifier(fitted):
    assert fitted.classes_.tolist() == ["x first", "y first"]
    assert fitted.score(X, Y) > 0.9
    proba = fitted.predict_proba(X)
    assert proba.shape == (80, 2)
    np.testing.assert_allclose(proba.sum(1), 1)
    assert (fitted.classes_[proba.argmax(1)] == fitted.predict(X)).all()
    assert fitted.history_[0]["monitored"] > fitted.validation_loss_


def test_random_state_fixes_everything(fitted):
    np.testing.assert_array_equal(classifier().fit(X, Y).predict_proba(X), fitted.predict_proba(X))
    assert (classifier(random_state=1).fit(X, Y).predict_proba(X) != fitted.predict_proba(X)).any()


def test_forms_of_input(fitted):
    expected = fitted.predict_proba(X)
    np.testing.assert_array_equal(fitted.predict_proba(list(X)), expected)
    np.testing.assert_array_equal(fitted.predict_proba(X.tolist()), expected)
    np.testing.assert_array_equal(fitted.predict_proba(Series(X)), expected)
    flat = classifier().fit(X[..., 0], Y)
    np.testing.assert_array_equal(flat.predict_proba(X[..., 0]), flat.predict_proba(X[..., :1]))
    with pytest.raises(ValueError, match="expected 2, as in `fit`"):
        fitted.predict(X[..., :1])
    with pytest.raises(ValueError, match="is expecting 33 features"):
        flat.predict(X[:, :20, 0])


def test_ragged_series_and_their_padding():
    """A series among longer ones gets the answer that it gets alone."""
    rng = np.random.default_rng(0)
    ragged = [x[: rng.integers(9, 34)] for x in X]
    model = classifier(epochs=3).fit(ragged, Y)
    together, alone = model.predict_proba(ragged), [model.predict_proba([x]) for x in ragged[:3]]
    np.testing.assert_allclose(together[:3], np.concatenate(alone), rtol=1e-5)  # sums over more windows, in float32


def test_missing_values():
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = classifier(epochs=25).fit(holes, Y)
    assert model.score(holes, Y) > 0.8
    assert model.n_path_channels_ == 5  # time, two channels and how often each was observed
    # Filled causally: the state after a window does not know what comes later.
    later = holes.copy()
    later[:, 25:] = np.nan
    a, b = (inputs_of(model.model_, model.transform_(Series(x)), Windows(8)).arrays[1][:, :2] for x in (holes, later))
    np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="NaN"):
        classifier(fill=None).fit(holes, Y)


@pytest.mark.long
def test_in_a_pipeline_a_grid_over_depth_and_step():
    """The order of events needs depth 2 at windows that hold a whole event."""
    pipeline = make_pipeline(FunctionTransformer(lambda x: x - x[:, :1]), classifier(epochs=25))
    grid = {"neuralrdeclassifier__windows__depth": [1, 2], "neuralrdeclassifier__windows__step": [8, 16]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_["neuralrdeclassifier__windows__depth"] == 2
    assert search.best_score_ > 0.85


def test_cross_validation():
    assert cross_val_score(classifier(epochs=20), X, Y, cv=2).mean() > 0.85


def test_warm_start_goes_on(fitted):
    model = classifier(epochs=4, warm_start=True).fit(X, Y)
    first, steps = model.validation_loss_, model.transform_
    model.fit(X, Y)
    assert model.validation_loss_ < first
    assert model.transform_ is steps
    with pytest.raises(ValueError, match="expected one of"):
        model.fit(X, ["another"] * len(X))


def test_checkpoint_and_resume(tmp_path, fitted):
    class Stop(JSONLines):
        def epoch(self, record):
            if record["epoch"] == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        classifier().fit(X, Y, checkpoint=tmp_path / "run", listeners=[Stop()])
    resumed = classifier().fit(X, Y, checkpoint=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.predict_proba(X), fitted.predict_proba(X))


def test_class_weight():
    """Rare classes count as much as common ones; without weights the common one wins on noise."""
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(100, 9)), (np.arange(100) % 10 == 0).astype(int)
    small = {"epochs": 3, "validation_fraction": 0.0, "learning_rate": 1e-3}
    plain = classifier(**small).fit(noise, labels).predict_proba(noise)[:, 1].mean()
    weighted = {0: 1.0, 1: 30.0}
    heavy = classifier(**small, class_weight=weighted).fit(noise, labels).predict_proba(noise)[:, 1].mean()
    assert heavy > plain


def test_labels_at_every_point():
    """Is the first channel above its start? Predicted at each point, from the past only."""
    series = np.cumsum(np.random.default_rng(0).normal(size=(60, 33, 1)), axis=1)
    labels = np.where(series[..., 0] > series[:, :1, 0], "up", "down")
    model = classifier(step=1, epochs=30).fit(series, labels)
    assert model.predict(series).shape == (60, 33)
    assert model.score(series, labels) > 0.85
    changed = series.copy()
    changed[:, 20:] = 99.0
    np.testing.assert_array_equal(model.predict_proba(changed)[:, :20], model.predict_proba(series)[:, :20])


@pytest.mark.long
def test_labels_at_points_of_series_of_different_lengths():
    rng = np.random.default_rng(0)
    series = [np.cumsum(rng.normal(size=(9 + k % 7, 1)), axis=0) for k in range(24)]
    labels = [np.where(one[:, 0] > one[0, 0], "up", "down") for one in series]
    rows = np.full((24, 15), "padding", dtype=object)
    for row, own in zip(rows, labels, strict=True):
        row[: len(own)] = own
    labels[0][3] = rows[0, 3] = ""  # not known
    model = classifier(step=2, epochs=2)
    by_list, by_rows = (model.fit(series, y).predict_proba(series) for y in (labels, rows))
    np.testing.assert_array_equal(by_list, by_rows)
    assert model.classes_.tolist() == ["down", "up"]
    # Padding and what is not known do not count.
    predicted = model.predict(series)
    right = [(predicted[k, : len(own)] == own)[own != ""] for k, own in enumerate(labels)]
    assert model.score(series, labels) == model.score(series, rows) == np.concatenate(right).mean()
    assert len(cross_val_score(model, series, rows, cv=3, error_score="raise")) == 3
    assert 0 <= model.score(series[:1], rows[:1]) <= 1  # one series, whose rows were made for longer ones
    with pytest.raises(ValueError, match="8 targets for series 0 of 9 points"):
        model.fit(series, [labels[0][:8], *labels[1:]])
    with pytest.raises(ValueError, match=r"np\.asarray"):
        model.fit(series, [own.tolist() for own in labels])


def test_numbers_at_points_of_series_of_different_lengths():
    series = [np.cumsum(np.random.default_rng(k).normal(size=(9 + k % 7, 1)), axis=0) for k in range(24)]
    rows = np.full((24, 15, 1), 99.0)
    for row, own in zip(rows, series, strict=True):
        row[: len(own)] = own
    model = NeuralRDERegressor(**options(**SMALL | {"epochs": 2, "random_state": 0}))
    with pytest.warns(UserWarning, match="24 % of the labels"):
        by_list, by_rows = (model.fit(series, y).predict(series) for y in (series, rows))
    np.testing.assert_array_equal(by_list, by_rows)
    assert model.score(series, series) == model.score(series, rows)  # without the padding
    assert model.score(series[:1], rows[:1]) == model.score(series[:1], series[:1])
    with pytest.raises(ValueError, match="8 targets for series 0"):
        model.fit(series, [series[0][:8], *series[1:]])


def test_a_series_in_cross_validation():
    timed = Series.from_array(X, times=np.broadcast_to(np.arange(33) / 10, (80, 33)))
    model = classifier(step=None, every=0.8, epochs=2)
    assert len(cross_val_score(model, timed, Y, cv=2, error_score="raise")) == 2
    pipeline = make_pipeline(LogSignatureFeatures(draws=10), LogisticRegression(C=100))
    assert cross_val_score(pipeline, timed, Y, cv=2, error_score="raise").min() > 0.9


def test_parameters_set_later_count_from_the_next_fit_on(fitted):
    model = pickle.loads(pickle.dumps(fitted))
    model.set_params(model__readout="final", model__state=9, windows=Windows(every=2.0), transform__fill="linear")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(model.predict_proba(X), fitted.predict_proba(X))
    warm = pickle.loads(pickle.dumps(fitted)).set_params(warm_start=True, model__width=9)
    with pytest.raises(ValueError, match="warm_start=False"):
        warm.fit(X, Y)


def test_targets_that_float32_cannot_tell_apart():
    target = X[:, -1, 0] - X[:, 0, 0]
    with pytest.raises(ValueError, match="Subtract their mean"):
        NeuralRDERegressor(**options(**SMALL)).fit(X, target + 1.7e9)
    with pytest.warns(UserWarning, match=r"y\[..., None\]"):
        NeuralRDERegressor(**options(**SMALL | {"epochs": 1})).fit(X, X[..., 0])


def test_regressor():
    walks = np.cumsum(np.random.default_rng(0).normal(size=(80, 33)), axis=1)
    target = 80 + 10 * np.stack([walks[:, -1], walks.max(1)], axis=1)
    small = SMALL | {"epochs": 40, "random_state": 0}
    model = NeuralRDERegressor(**options(**small), loss="huber").fit(
        walks, target, validation=(walks[:40], target[:40])
    )
    assert model.predict(walks).shape == (80, 2)
    assert model.score(walks, target) > 0.8
    assert model.history_[0]["validation_rmse"] < 3 * target.std()  # in the labels' units, from the start


def test_numbers_at_every_point():
    walks = np.cumsum(np.random.default_rng(0).normal(size=(60, 33, 1)), axis=1)
    target = np.array(10 + 3 * walks)
    target[::3, 10:] = np.nan
    model = NeuralRDERegressor(**options(**SMALL | {"step": 2, "epochs": 40, "random_state": 0})).fit(walks, target)
    assert model.predict(walks).shape == (60, 33, 1)
    assert model.score(walks, target) > 0.8


def test_windows_by_time():
    data = spirals(samples=60, length=40)
    model = NeuralRDEClassifier(**options(**SMALL | {"step": None, "every": 0.1, "epochs": 20, "random_state": 0}))
    model.fit(data.series, data.target)
    assert model.score(data.series, data.target) > 0.9


def test_features_feed_other_estimators():
    pipeline = make_pipeline(LogSignatureFeatures(draws=10), StandardScaler(), LogisticRegression())
    assert pipeline.fit(X[:50], Y[:50]).score(X[50:], Y[50:]) > 0.95


def test_rounding_is_not_scaled_up():
    """A straight piece of path has no area: float32 and float64 must get the same answer."""
    model = classifier(step=1, epochs=3).fit(X[..., 0], Y)
    exact, rounded = (model.predict_proba(X[..., 0].astype(dtype)) for dtype in (np.float64, np.float32))
    np.testing.assert_allclose(rounded, exact, atol=1e-5)  # the series' own rounding


def test_wrong_names_and_values():
    with pytest.raises(TypeError, match="Did you mean 'epochs'"):
        NeuralRDEClassifier(epoch=3)  # type: ignore
    with pytest.raises(ValueError, match="Did you mean 'learning_rate'"):
        NeuralRDERegressor().set_params(optimizer__learning_rat=1e-3)
    with pytest.raises(TypeError, match=r"windows=Windows\(depth="):
        NeuralRDEClassifier(depth=3)  # type: ignore
    for wrong, match in (
        ({"windows": 0}, "step=0"),
        ({"windows": {"depth": 0}}, "depth=0"),
        ({"windows": "auto"}, "windows='auto'; expected .*GridSearchCV"),
        ({"model": "auto"}, "model='auto'; expected one of"),
        ({"transform": {"fill": "forwards"}}, "fill='forwards'; expected one of"),
        ({"transform": "standart"}, "Did you mean 'standard'"),
        ({"model": "neural-rdr"}, "Did you mean 'neural-rde'"),
        ({"model": {"name": "neural-rde", "readout": "max"}}, "readout='max'; expected one of"),
        ({"model": {"name": "neural-rde", "depth": 3}}, "without .'depth'."),
        ({"windows": {"step": 8, "every": 0.1}}, "at most one"),
        ({"loss": "hubert"}, "Did you mean 'huber'"),
        ({"optimizer": "sgd"}, "optimizer='sgd'; expected one of"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
    ):
        with pytest.raises(ValueError, match=match):
            NeuralRDEClassifier(**wrong).fit(X, Y)


@pytest.mark.long
def test_answers_are_means_over_all_ways_of_cutting():
    X = np.cumsum(np.random.default_rng(0).normal(size=(24, 41, 1)), axis=1)
    model = NeuralRDERegressor(**options(step=10, shifts=3, state=4, width=8, epochs=2, random_state=0, verbose=False))
    model.fit(X, X[:, -1, 0])
    prepared, answers = model.transform_(Series.from_array(X)), []
    for shift in (0, 3, 7):
        cuts = window_cuts(prepared, step=10, shift=shift)
        windows = np.asarray(model.model_.log_signatures(prepared.values, cuts=cuts), np.float32)
        x0 = prepared.values[:, 0].astype(np.float32)
        answers.append(np.asarray(jax.vmap(model.model_)(x0, windows))[:, 0])
    np.testing.assert_allclose(model.predict(X), np.mean(answers, axis=0), rtol=1e-4)
    assert np.std(answers, axis=0).max() > 1e-4  # or the test could not tell
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_shifts_are_refused_where_they_mean_nothing():
    X = np.zeros((24, 41, 1))
    with pytest.raises(ValueError, match="shifts=1"):
        NeuralRDERegressor(windows=Windows(shifts=3), epochs=1, verbose=False).fit(X, X)
    with pytest.raises(ValueError, match="shifts=3"):
        NeuralRDERegressor(windows={"shifts": 3, "every": 0.5}, verbose=False).fit(X, X[:, 0, 0])


@pytest.mark.parametrize(
    "changed",
    [{"windows__depth": 1}, {"windows": 4}, {"transform__fill": "linear"}, {"transform": Standard(time=False)}],
)
def test_a_warm_start_changes_nothing_that_the_weights_depend_on(fitted, changed):
    warm = pickle.loads(pickle.dumps(fitted)).set_params(warm_start=True, **changed)
    with pytest.raises(ValueError, match=f"{next(iter(changed)).partition('__')[0]}=.*warm_start=False"):
        warm.fit(X, Y)


def test_one_label_a_series_in_arrays_of_one():
    model = classifier(epochs=1)
    with pytest.warns(DataConversionWarning):
        model.fit(X, [np.array([label]) for label in Y])
    assert not model.per_time_


@pytest.mark.long
def test_targets_at_points_as_plain_arrays_and_their_weights():
    lengths = np.r_[[20, 33] * 12]
    series, y = [x[:n] for x, n in zip(X, lengths, strict=False)], [x[:n, 0] for x, n in zip(X, lengths, strict=False)]
    small = SMALL | {"epochs": 1, "random_state": 0}
    with pytest.warns(UserWarning, match="17 % of the labels"):
        plain, model = (NeuralRDERegressor(**options(**small)).fit(series, t) for t in (y, [t[:, None] for t in y]))
    np.testing.assert_array_equal(plain.predict(series), model.predict(series))
    weights = np.r_[np.ones(12), np.zeros(12)]
    assert model.score(series, y, weights) == pytest.approx(model.score(series[:12], y[:12]))
    with pytest.raises(ValueError, match=r"shape \(24,\); expected \(24, 33, 1\)"):
        model.score(series, np.zeros(24))
    calm = [np.where(t > 0, "up", "down") for t in y]
    with pytest.warns(UserWarning, match="17 % of the labels"):
        labelled = classifier(epochs=1).fit(series, calm)
    assert labelled.score(series, calm, weights) == pytest.approx(labelled.score(series[:12], calm[:12]))
    with pytest.raises(ValueError, match="one at every point"):
        labelled.score(series, Y[:24])
