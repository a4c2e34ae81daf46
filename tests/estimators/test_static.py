"""A table beside the series: coded, used by both kinds of estimator, explained, saved, streamed."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import cross_val_score

from neuralrde import Config, LogSignatureClassifier, LogSignatureRegressor, NeuralRDE, NeuralRDEClassifier
from neuralrde.estimators import NeuralRDERegressor, load
from neuralrde.estimators.inputs import StaticCoding
from neuralrde.models import LinearRDE, MultiScaleRDE

SERIES, TRAIN = 120, slice(0, 80)
MODELS = (
    Config(NeuralRDE, state=8, width=16),
    Config(LinearRDE, width=16, state=16),
    Config(MultiScaleRDE, units=6, width=4, state=4, blocks=1, dropout=0.0),
)
QUICK: dict[str, Any] = {"draws": 10}


def some(rows=slice(None), seed=0):
    """Random walks, and a table that has nothing to do with them; some ages are gaps."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(SERIES, 40, 2)).cumsum(axis=1)
    sex, age = rng.choice(["f", "m"], SERIES), rng.normal(60, 10, SERIES)
    age[::7] = np.nan
    return X[rows], pd.DataFrame({"sex": sex, "age": age})[rows]


def neural(model: Any = MODELS[0], kind: Any = NeuralRDEClassifier, **options: Any) -> Any:
    # XLA without optimisations, as tests have it, makes NaN of the gradients of a single MultiScaleRDE.
    several = {"members": 2 if model == MODELS[2] else 1, "closed_form": False}
    given: dict[str, Any] = {"model": model, "windows": 8, "epochs": 60, "random_state": 0, "verbose": False, **several}
    return kind(**given | options)


def test_a_table_becomes_numbers():
    table = {"age": [40.0, 60.0, np.nan], "sex": ["f", "m", None], "smokes": [True, False, True]}
    coding = StaticCoding.fit(table, 3)
    # 40 and 60 are one standard deviation from their mean; True is half a deviation of {1, 0, 1} above theirs.
    expected = [[-1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]
    np.testing.assert_array_equal(coding(table, 3)[:, :5], expected)
    np.testing.assert_allclose(coding(table, 3)[:, 5], [2**-0.5, -(2**0.5), 2**-0.5], rtol=1e-6)  # float32
    assert coding.owners.tolist() == [0, 0, 1, 1, 1, 2]
    np.testing.assert_array_equal(coding(pd.DataFrame(table).astype({"sex": "string"}), 3), coding(table, 3))
    np.testing.assert_array_equal(coding({"sex": "m"}, 1), [[0, 1, 0, 1, 0, 0]])  # what it lacks is a gap
    np.testing.assert_array_equal(coding({"sex": ["other"]}, 1)[0, 2:5], [0, 0, 1])  # so is a new word
    assert coding({"age": [1e6]}, 1)[0, 0] == 8.0  # mistyped


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({"age": [1.0]}, "age.*shape"),
        ({"age": [1.0, np.inf, 2.0]}, "infinity"),
        ({}, "without a column"),
        (np.zeros((3, 1)), "ndarray.*DataFrame"),
    ],
)
def test_tables_that_are_refused(table, what):
    with pytest.raises(ValueError, match=what):
        StaticCoding.fit(table, 3)


def test_many_words_are_names():
    with pytest.raises(ValueError, match="101 different words"):
        StaticCoding.fit({"name": [f"n{i}" for i in range(101)]}, 101)


def test_later_tables_must_fit():
    coding = StaticCoding.fit({"age": [1.0, 2.0], "sex": ["f", "m"]}, 2)
    for table, what in (({"aeg": [1.0]}, "unknown|'aeg'"), ({"age": ["old"]}, "numbers"), ({"sex": [1.0]}, "words")):
        with pytest.raises(ValueError, match=what):
            coding(table, 1)


long = [pytest.param(neural(model), marks=pytest.mark.long) for model in MODELS]


@pytest.mark.parametrize("estimator", [LogSignatureClassifier(**QUICK), *long])
def test_only_the_table_tells_classes_apart(estimator, tmp_path):
    """All that predicts takes the table, and all of it says the same."""
    X, table = some()
    y = np.where(table["sex"] == "m", "ill", "well")
    estimator.fit(X[TRAIN], y[TRAIN], static=table[TRAIN])
    assert estimator.score(X[80:], y[80:], static=table[80:]) == 1.0
    expected = estimator.predict_proba(X[80:], static=table[80:])
    estimator.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X[80:], static=table[80:]), expected)
    stream = estimator.stream(static={"sex": table["sex"][80], "age": table["age"][80]})
    stream.push(X[80, :7])
    again = estimator.stream(stream.state())
    again.push(X[80, 7:])
    np.testing.assert_allclose(again.predict_proba(), expected[0], rtol=1e-4, atol=1e-5)  # float32, other sums
    streams = estimator.streams()
    for name, row in (("a", 80), ("b", 81)):
        streams.open(name, static=dict(table.iloc[row]))
    assert not streams.push({name: (X[row], None) for name, row in (("a", 80), ("b", 81))})
    np.testing.assert_allclose(list(streams.predict_proba(["a", "b"]).values()), expected[:2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", [LogSignatureClassifier(**QUICK), *long[::2]])
def test_columns_are_explained_by_their_names(estimator):
    X, table = some()
    y = (table["sex"] == "m").to_numpy().astype(int)
    found = estimator.fit(X, y, static=table).explain(X[:6], bins=4, static=table[:6])
    assert found.channels == ("x0", "x1", "(time)", "sex", "age")
    size = np.abs(found.contributions).sum(axis=(1, 2))
    assert (np.abs(found.missing) <= 0.02 * size).all()  # of integrals, a hundredth is promised
    sums = found.contributions.sum(axis=2)[..., 0]
    assert (np.sign(sums[:, 3]) == np.where(y[:6] == 1, 1, -1)).all()
    assert (np.abs(sums[:, 3]) > np.abs(sums[:, 4])).all()
    assert (found.contributions[:, 3:, :-1] == 0).all()  # they belong to no time


def test_a_column_may_have_the_name_of_a_channel():
    """The weight at admission, beside weights that were measured later."""
    X, table = some(slice(0, 20))
    model = LogSignatureClassifier(**QUICK).fit(X, np.arange(20) % 2, static={"x0": table["age"]})
    assert model.explain(X[:1], static={}).channels == ("x0", "x1", "(time)", "x0 (static)")


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS)
def test_the_table_may_say_what_a_series_means(model):
    """Rising is ill for one sex, and falling for the other: neither the series nor the table alone says anything."""
    X, table = some()
    X[:, :, 0] = np.linspace(0, 1, 40) * np.sign(X[:, -1:, 0])  # straight up or down
    y = (X[:, -1, 0] > 0) == np.asarray(table["sex"] == "m")
    estimator = neural(model, epochs=120, patience=None, windows=4, batch_size=8).fit(
        X[TRAIN], y[TRAIN], static=table[TRAIN]
    )
    assert estimator.score(X[80:], y[80:], static=table[80:]) > 0.9


@pytest.mark.long
def test_numbers_in_everything_that_fits():
    """The blend, intervals, a validation set of one's own, calibration, and going on with training."""
    X, table = some()
    y = np.nan_to_num(table["age"].to_numpy(), nan=60.0)
    closed = LogSignatureRegressor(**QUICK).fit(X[TRAIN], y[TRAIN], static=table[TRAIN])
    assert closed.score(X[80:], y[80:], static=table[80:]) > 0.95
    _, ends = closed.predict(X[80:], 0.8, static=table[80:])
    assert ends.shape == (40, 2)
    blended = NeuralRDERegressor(epochs=2, random_state=0, verbose=False)
    blended.fit(X[TRAIN], y[TRAIN], static=table[TRAIN], validation=(X[80:], y[80:], None, table[80:]))
    assert blended.closed_form_ is not None
    assert blended.score(X[80:], y[80:], static=table[80:]) > 0.9
    blended.calibrate(X[80:], y[80:], static=table[80:])
    going = neural(kind=NeuralRDERegressor, epochs=1)
    for _ in range(2):
        going.partial_fit(X[TRAIN], y[TRAIN], static=table[TRAIN])
    assert going.predict(X[:2], static={}).shape == (2,)


def test_a_table_is_expected_where_there_was_one():
    X, table = some(slice(0, 20))
    y = np.arange(20) % 2
    with_one = LogSignatureClassifier(**QUICK).fit(X, y, static=table)
    without = LogSignatureClassifier(**QUICK).fit(X, y)
    for wrong in (lambda: with_one.predict(X), with_one.stream, lambda: with_one.streams().open("a")):
        with pytest.raises(ValueError, match=r"no static.*static=\{\}"):
            wrong()
    with pytest.raises(ValueError, match="fitted without"):
        without.predict(X, static=table)
    stream = with_one.stream(static={})
    with pytest.raises(ValueError, match="static and a state"):
        with_one.stream(stream.state(), static={})
    with pytest.raises(ValueError, match="constructor takes `static`"):
        neural("cubic-cde", windows=None).fit(X, y, static=table)


def test_scikit_learn_takes_the_rows_of_the_table():
    X, table = some(slice(0, 60))
    y = (table["sex"] == "m").to_numpy()
    with sklearn.config_context(enable_metadata_routing=True):
        estimator: Any = LogSignatureClassifier(**QUICK)
        estimator.set_fit_request(static=True).set_score_request(static=True)
        assert cross_val_score(estimator, X, y, cv=3, params={"static": table}).min() == 1.0
