"""What is handed in by mistake is explained: transposed arrays, one series, long tables, values beyond float32."""

import pickle

import jax
import numpy as np
import pandas as pd
import pytest

import neuralrde
from neuralrde import Config, NeuralRDE
from neuralrde.estimators import LogSignatureFeatures, NeuralRDEClassifier, NeuralRDERegressor
from neuralrde.estimators.inputs import described_series
from neuralrde.paths import Series
from tests.estimators.options import options

SMALL = {"state": 4, "width": 6, "layers": 1, "epochs": 1, "step": 8, "random_state": 0, "verbose": False}
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 40, 3)), np.array(["a", "b"])[np.arange(20) % 2]


@pytest.fixture(scope="module")
def fitted():
    return NeuralRDEClassifier(**options(**SMALL)).fit(X, Y)


@pytest.mark.long
def test_transposed_arrays_are_refused():
    aeon = X.transpose(0, 2, 1)
    with pytest.raises(ValueError, match=r"\(20, 3, 40\).*3 points of 40 channels.*X.transpose\(0, 2, 1\).*from_array"):
        NeuralRDEClassifier(**options(**SMALL)).fit(aeon, Y)
    with pytest.raises(ValueError, match=r"\[x.T for x in X\]"):
        NeuralRDEClassifier(**options(**SMALL)).fit(list(aeon), Y)
    with pytest.raises(ValueError, match=r"\[x.T for x in X\]"):
        NeuralRDEClassifier(**options(**SMALL)).fit([x[:, : 9 + k] for k, x in enumerate(aeon)], Y)
    with pytest.raises(ValueError, match=r"X.transpose\(0, 2, 1\)"):
        LogSignatureFeatures().fit(aeon)
    meant = NeuralRDEClassifier(**options(**SMALL | {"depth": 1})).fit(Series.from_array(aeon), Y)
    assert meant.n_channels_in_ == 40
    # Many channels, but not many more than points: nothing is certain.
    assert (
        NeuralRDEClassifier(**options(**SMALL | {"depth": 1})).fit(RNG.normal(size=(20, 10, 28)), Y).n_channels_in_
        == 28
    )


def test_later_arrays_that_are_transposed(fitted):
    with pytest.raises(ValueError, match=r"40 channels; expected 3.*X.transpose\(0, 2, 1\)"):
        fitted.predict(X.transpose(0, 2, 1))


def test_one_series_is_explained(fitted):
    with pytest.raises(ValueError, match=r"40 series and 1 targets.*40 points and 3 channels write X\[None\]"):
        NeuralRDEClassifier(**options(**SMALL)).fit(X[0], ["a"])
    with pytest.raises(ValueError, match=r"write X\[None\]"):
        NeuralRDERegressor(**options(**SMALL)).fit(X[0], 1.0)
    with pytest.raises(ValueError, match=r"40 points and 3 channels write X\[None\]"):
        fitted.predict(X[0])
    assert fitted.predict(X[0][None]).shape == (1,)


def test_rows_of_a_table_are_points():
    arrays = [x[: 20 + k] for k, x in enumerate(X)]
    series, described = described_series([pd.DataFrame(array, columns=["a", "b", "c"]) for array in arrays])
    assert described.channels == series.channels == ("a", "b", "c")
    for array, values, length in zip(arrays, series.values, series.lengths, strict=True):
        np.testing.assert_array_equal(values[:length], array)


@pytest.mark.long
def test_a_list_of_dataframes():
    names = ["acc_x", "acc_y", "time"]
    tables = [pd.DataFrame(x[: 20 + k], columns=names) for k, x in enumerate(X)]
    arrays = [x[: 20 + k] for k, x in enumerate(X)]
    model = NeuralRDEClassifier(**options(**SMALL)).fit(tables, Y)
    expected = NeuralRDEClassifier(**options(**SMALL)).fit(arrays, Y)
    np.testing.assert_array_equal(model.predict_proba(tables), expected.predict_proba(arrays))
    with pytest.raises(ValueError, match=r"table 1 with the columns .* expected the same"):
        model.fit([tables[0], tables[1][["acc_y", "acc_x", "time"]], *tables[2:]], Y)
    with pytest.raises(ValueError, match=r"expected \['acc_x', 'acc_y', 'time'\], in this order"):
        model.predict([table[["acc_y", "acc_x", "time"]] for table in tables])
    with pytest.raises(ValueError, match="column 'time' of table 0 that does not hold numbers"):
        model.fit([table.assign(time="noon") for table in tables], Y)
    with pytest.raises(ValueError, match="column 'time' of table 0 that does not hold numbers"):
        model.fit([table.assign(time=pd.Timestamp("2024-03-01")) for table in tables], Y)
    gaps = [table.astype({"time": "Float64"}).mask(table > 2) for table in tables]  # missing as pandas has it
    assert np.isfinite(model.fit(gaps, Y).predict_proba(gaps)).all()


def test_a_long_table_is_explained():
    table = pd.DataFrame({"patient": ["p0", "p0", "p1", "p1"], "t": [0.0, 1.0, 0.0, 1.0], "hr": [60, 61, 80, 81]})
    with pytest.raises(ValueError, match=r"'patient' holds text.*Series.from_table\(table, id='patient'"):
        NeuralRDEClassifier(**options(**SMALL)).fit(table, ["a", "b", "a", "b"])
    with pytest.raises(ValueError, match=r"4 series and 2 targets.*Series.from_table"):
        NeuralRDEClassifier(**options(**SMALL)).fit(table.drop(columns="patient"), ["a", "b"])


def test_values_beyond_float32_are_no_prediction(fitted):
    wild = X.copy()
    wild[7, 3, 1] = 1e39
    with pytest.raises(ValueError, match=r"series 7, .* not a finite number.*'x1' reaches 1.*e\+39"):
        fitted.predict(wild)
    with pytest.raises(ValueError, match=r"series 7 \(s7\)"):
        fitted.predict_proba(Series(wild, ids=[f"s{k}" for k in range(20)]))
    model = NeuralRDERegressor(**options(**SMALL)).fit(X, X[:, -1, 0])
    with pytest.raises(ValueError, match=r"series 7, .* not a finite number"):
        model.predict(wild)
    wild[7, 3, 1] = np.nan
    assert set(fitted.predict(wild)) <= {"a", "b"}


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, "1"])
def test_class_weights_are_numbers_from_zero(weight):
    with pytest.raises(ValueError, match=r"class_weight\['b'\]=.*expected a number from 0"):
        NeuralRDEClassifier(**options(**SMALL, class_weight={"b": weight})).fit(X, Y)


def test_a_class_without_weight_is_left_out():
    labels = np.where(np.arange(20) % 5 == 0, "c", Y)
    wild = np.where((labels == "c")[:, None, None], 1e6 * X, X)  # which would have changed every scale
    model = NeuralRDEClassifier(**options(**SMALL, class_weight={"c": 0.0})).fit(wild, labels)
    assert model.classes_.tolist() == ["a", "b", "c"]
    others = labels != "c"
    alone = NeuralRDEClassifier(**options(**SMALL)).fit(X[others], labels[others])
    assert model.transform_.state() == alone.transform_.state()
    with pytest.raises(ValueError, match="class_weight that is zero for all series"):
        NeuralRDEClassifier(**options(**SMALL, class_weight=dict.fromkeys("abc", 0))).fit(X, labels)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"every": 0, "step": None}, "every=0; expected a finite number above 0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0; expected a number above 0"),
        ({"clip": 0}, "clip=0"),
        ({"time_budget": 0}, "time_budget=0"),
        ({"shuffle": "no"}, "shuffle='no'; expected True or False"),
    ],
)
def test_numbers_that_mean_nothing(changes, words):
    with pytest.raises(ValueError, match=words):
        NeuralRDEClassifier(**options(**SMALL | changes)).fit(X, Y)


def test_labels_that_cannot_be_classes():
    with pytest.raises(ValueError, match="Got only one class, 'a'; expected"):
        NeuralRDEClassifier(**options(**SMALL)).fit(X, np.array(["a"] * 20))
    with pytest.raises(ValueError, match=r"types .*expected one type"):
        NeuralRDEClassifier(**options(**SMALL)).fit(X, np.array(["a", 1] * 10, dtype=object))


@pytest.mark.filterwarnings("ignore:The 169 million weights")
def test_a_model_that_would_be_too_large_is_refused_before_anything_is_made():
    wide = RNG.normal(size=(4, 30, 61))
    paper = {"model": Config(NeuralRDE, layers=2)}
    words = "depth 3 of 62 channels.*81,375 log-signature channels.*169 million weights.*depth=2 .1,953"
    with pytest.raises(ValueError, match=words):
        NeuralRDEClassifier(**{**options(depth=3, verbose=False), **paper}).fit(wide, ["a", "b", "a", "b"])
    with pytest.raises(ValueError, match="million weights"):
        NeuralRDEClassifier(**{**options(depth=12, verbose=False), **paper}).fit(wide, ["a", "b", "a", "b"])


def test_a_channel_called_time():
    timed = Series.from_array(X, channels=["time", "a", "b"])
    plain = NeuralRDEClassifier(**options(**SMALL)).fit(X, Y).predict_proba(X)
    model = NeuralRDEClassifier(**options(**SMALL)).fit(timed, Y)
    np.testing.assert_array_equal(model.predict_proba(timed), plain)
    assert model.transform_(timed).channels == ("time_2", "time", "a", "b")


def test_a_mesh_is_passed_on(monkeypatch, fitted):
    """To training and to predictions; and it stays behind where the estimator is copied to another process."""
    seen = []
    real = {name: getattr(__import__(f"neuralrde.estimators.{name[0]}", fromlist="x"), name[1]) for name in PLACES}

    def spy(place):
        def call(*args, mesh=None, **small):
            seen.append((place[1], mesh))
            return real[place](*args, **small)

        return call

    for place in PLACES:
        monkeypatch.setattr(f"neuralrde.estimators.{place[0]}.{place[1]}", spy(place))
    mesh = neuralrde.devices.device_mesh(jax.devices()[:1])
    model = NeuralRDEClassifier(**options(**SMALL)).fit(X, Y, mesh=mesh)
    model.predict(X)
    assert seen == [("fit", mesh), ("predict", mesh)]
    pickle.loads(pickle.dumps(model)).predict(X)
    assert seen[-1] == ("predict", None)


PLACES = (("trainer", "fit"), ("fitted", "predict"))


def test_the_package_lists_its_estimators():
    names = dir(neuralrde)
    assert {"NeuralRDEClassifier", "NeuralRDERegressor", "LogSignatureClassifier", "Series"} <= set(names)
    assert not {"Any", "TYPE_CHECKING"} & set(names)
    assert all(hasattr(neuralrde, name) for name in names)
    # More than a newcomer can look through would hide what is needed first.
    assert len(neuralrde.__all__) <= 35
    assert neuralrde.__all__.index("LogSignatureClassifier") < neuralrde.__all__.index("NeuralRDEClassifier")
