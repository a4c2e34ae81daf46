"""One file, no pickle: the same predictions after a round trip, and a sentence for what is wrong with a file."""

import json
import pickle
import re
import subprocess
import sys
import tracemalloc

import jax
import numpy as np
import pandas
import pytest
from sklearn.exceptions import NotFittedError

from neuralrde.estimators import LogSignatureFeatures, NeuralRDEClassifier, NeuralRDERegressor, load
from neuralrde.estimators.saving import FORMAT, from_parts, to_parts
from neuralrde.estimators.targets import TargetCoding
from neuralrde.paths import Series
from neuralrde.training import FileRefused
from neuralrde.training.archive import read_archive, write_archive
from tests.estimators.options import options

SMALL = {"state": 4, "width": 6, "layers": 1, "epochs": 2, "step": 4}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 17, 2))
X[::3, 4, 1] = np.nan  # in training and validation part alike
LABELS = np.array(["left", "right", "up"])[np.arange(30) % 3]


@pytest.fixture(scope="module")
def classifier():
    return NeuralRDEClassifier(**options(**SMALL, class_weight={"left": 1.0, "right": 2.0, "up": 1.0})).fit(X, LABELS)


@pytest.fixture
def saved(classifier, tmp_path):
    classifier.save(tmp_path / "model")
    return tmp_path / "model"


def test_round_trip(classifier, saved):
    again = NeuralRDEClassifier.load(saved)
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    assert again.get_params() == classifier.get_params()
    assert again.predict(X).tolist() == classifier.predict(X).tolist()
    assert again.history_ == classifier.history_
    again.save(saved)  # and once more
    np.testing.assert_array_equal(load(saved).predict_proba(X), classifier.predict_proba(X))


@pytest.mark.long
def test_round_trip_in_another_process(classifier, saved, tmp_path):
    np.save(tmp_path / "X.npy", X)
    program = (
        "import sys, numpy as np; from neuralrde.estimators import load;"
        "np.save(sys.argv[3], load(sys.argv[1]).predict_proba(np.load(sys.argv[2])))"
    )
    files = [str(saved), str(tmp_path / "X.npy"), str(tmp_path / "out.npy")]
    subprocess.run([sys.executable, "-c", program, *files], check=True)
    # The other process may have another number of devices, and so other shapes and orders of sums.
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), classifier.predict_proba(X), atol=1e-6)


def test_others(tmp_path):
    regressor = NeuralRDERegressor(**options(**SMALL)).fit(X, X[:, 0, 0])
    regressor.save(tmp_path / "regressor")
    np.testing.assert_array_equal(NeuralRDERegressor.load(tmp_path / "regressor").predict(X), regressor.predict(X))
    transformer = LogSignatureFeatures(draws=2).fit(X)
    transformer.save(tmp_path / "transformer")
    np.testing.assert_array_equal(load(tmp_path / "transformer").transform(X), transformer.transform(X))
    with pytest.raises(FileRefused, match="holds a 'NeuralRDERegressor'"):
        NeuralRDEClassifier.load(tmp_path / "regressor")
    with pytest.raises(NotFittedError):
        NeuralRDERegressor().save(tmp_path / "unfitted")


@pytest.mark.parametrize(
    "labels",
    [np.arange(3), np.array([False, True]), np.array(["a", "b"], object), np.array([0.5, 2.0]), np.array(["Z", "ä"])],
)
def test_labels_of_every_kind(labels):
    plain, _ = to_parts(TargetCoding(len(labels), classes=labels))
    again = from_parts(TargetCoding, json.loads(json.dumps(plain)), {}).classes
    assert again.dtype == labels.dtype
    assert again.tolist() == labels.tolist()


def test_pickle_for_parallel_work(classifier):
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))


def test_damaged_files_are_refused(saved):
    content = saved.read_bytes()
    for size in (0, 5, 200, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:size])
        with pytest.raises(FileRefused, match="truncated"):
            load(saved)
    for place in range(300, len(content), len(content) // 7):
        altered = bytearray(content)
        altered[place] ^= 4
        saved.write_bytes(altered)
        with pytest.raises(FileRefused):
            load(saved)
    saved.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FileRefused, match="cannot be read"):
        load(saved)


def reseal(file, change, *, numbers=lambda arrays: arrays):
    """Write a file again with other content, under a right checksum, as anyone can."""
    header, arrays = read_archive(file, "model", format=FORMAT)
    change(header)
    plain = {key: value for key, value in header.items() if key not in ("kind", "format", "version")}
    write_archive(file, "model", format=FORMAT, header=plain, arrays=numbers(arrays))


def refusal_of(file) -> str:
    """Why a file is refused, at once and without a large array (the test's own model takes some 20 KB)."""
    tracemalloc.start()
    try:
        with pytest.raises(FileRefused) as refusal:
            load(file)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert len(str(refusal.value)) < 1000
    return str(refusal.value)


def header(**values):
    return lambda header: header.update(values)


def learned(**values):
    return lambda header: header["fitted"].update(values)


def inputs(**values):
    return lambda header: header["fitted"]["inputs"].update(values)


def targets(**values):
    return lambda header: header["fitted"]["targets"].update(values)


def parameter(name, value):
    return lambda header: header["parameters"].update({name: value})


def config(**options):
    return lambda header: header["fitted"]["config"].update(options)


def windows(**values):
    return lambda header: header["fitted"]["windows"].update(values)


def transform(number, **values):
    return lambda header: header["fitted"]["transform"]["transforms"][number].update(values)


def composed(*transforms):
    return {"transform": "compose", "transforms": list(transforms)}


SPECTROGRAM = {"transform": "spectrogram", "frame": 2 * 10**9, "channels_": ["x0", "x1"], "floors_": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (header(estimator="os.system"), "expected one of"),
        (header(estimator=[]), "expected one of"),
        (header(estimator=None), "expected one of"),
        (header(parameters=[]), "make no"),
        (header(parameters={"pairs": [[[], 1]]}), "make no"),
        (header(fitted=[]), "make no"),
        (lambda h: h.pop("parameters"), "make no"),
        (lambda h: h.pop("fitted"), "make no"),
        (lambda h: h["fitted"].pop("windows"), "'windows'.*missing"),
        (lambda h: h["fitted"]["targets"].pop("classes"), "'classes'.*missing"),
        (lambda h: h["fitted"].pop("config"), "'config'.*missing"),
        (learned(__class__="str"), "nothing that"),
        (parameter("evil", 1), "Invalid parameter"),
        (parameter("model", {"part": {"name": "os.system"}}), "'os.system'; expected one of"),
        (parameter("model", {"part": {"name": "neural-rde", "evil": 1}}), "evil="),
        (parameter("transform", {"part": {"name": "standard", "time": "evil"}}), "time='evil'.*True or False"),
        (config(width=2**20), "weights; expected many more"),
        (config(state=2**20), "expected many more"),
        (config(width=7), "of shape"),
        (config(readout="os.system"), "readout"),
        (config(solver="os.system"), "solver"),
        (config(name="evil.Model"), "must be imported first"),
        (config(name="linear-rde", solver="exponential"), "expected one of"),
        (config(layers=10**9), "layers|expected many more"),
        (config(layers=100), "without the array|expected many more"),
        (config(depth=3), "of shape|without|expected"),
        (config(evil=1), "evil="),
        (learned(config={"name": "neural-rde"}), "expected many more|of shape|without the array"),
        (learned(config="neural-rde"), "config"),
        (learned(loss={"name": "histogram", "bins": 10**9, "start": 0.0, "width": 1.0}), "with a histogram"),
        (learned(loss={"name": "evil"}), "'evil'; expected one of"),
        (learned(loss=3), "loss=3"),
        # Sizes.
        (learned(n_path_channels=10**4), "path_channels=10000; expected 4"),
        (learned(n_path_channels=10**12), "path_channels"),
        (learned(n_path_channels=["time", "x0", "x1", "x1 count"]), "path_channels"),
        (targets(outputs=10**9), "3 classes and 1000000000"),
        (targets(outputs=10**30), "outputs"),
        (targets(outputs=4), "3 classes and 4"),
        (targets(outputs=True), "outputs=True"),
        (windows(depth=20000), "depth=20000; expected a whole number from 1 to 12"),
        (windows(depth=10**6), "depth=1000000"),
        (windows(depth=12), "expected many more"),
        (windows(depth="auto"), "depth='auto'"),
        (windows(step=0), "step=0; expected a whole number"),
        (windows(step=4.0), "step=4.0; expected a whole number"),
        (windows(step=None), "windows"),
        (windows(step=10**30), "step="),
        (windows(every=2.0), "at most one"),
        (windows(shifts=10**9), "shifts="),
        (lambda h: [windows(shifts=2)(h), targets(per_time=True)(h)], "shifts=1"),
        (learned(windows="evil"), "windows="),
        (targets(per_time=1), "per_time=1; expected bool"),
        (inputs(channels=["x0", "x1", "x2"], columns=3), "channels"),
        (inputs(channels=["x0"], columns=1), "channels"),
        (inputs(columns=5), "2 channels and 5 columns"),
        (inputs(flat=True), "flat"),
        (inputs(column_names="evil"), "column_names"),
        # Labels.
        (targets(classes={"array": ["left"], "type": "<U5"}), "at least two"),
        (targets(classes={"array": ["a", "b"], "type": "<U5"}), "2 classes and 3 outputs"),
        (targets(classes={"array": ["a", "a", "b"], "type": "<U5"}), "different labels"),
        (targets(classes={"array": [1, 2, 3], "type": "<U5"}), "items are something else"),
        (targets(classes={"array": ["a", "b", "c"], "type": "V400000000"}), "of the type 'V4"),
        (targets(classes={"array": ["a", "b", "c"], "type": "<M8[s]"}), "of the type '<M8"),
        (targets(classes={"array": [1, 2, 300], "type": "|u1"}), "make no"),
        (targets(classes={"array": [1, 2, 3], "type": ["<i8"]}), "of the type"),
        (targets(classes={"array": [[1], [2], [3]], "type": "<i8"}), "something else than a list"),
        (targets(classes={"array": 10**9, "type": "<i8"}), "something else than a list"),
        (targets(classes=["left", "right", "up"]), "classes"),
        # Transforms.
        (learned(transform="evil"), "transform='evil'; expected Transform"),
        (learned(transform={"transform": "scale"}), "path_channels=4; expected 2"),
        (learned(transform=SPECTROGRAM), "frame=2000000000"),
        (learned(transform=composed(*[{"transform": "products"}] * 9)), "path_channels=4"),
        (lambda h: h["fitted"]["transform"].update(transform="Popen"), "'Popen'; expected one of"),
        (transform(2, deviations_=[1.0, 1.0]), "3 channels and 2 deviations_"),
        (transform(2, deviations_=[1.0, 0.0, 1.0]), "above 0"),
        (transform(2, means_=[0.0, float("inf"), 0.0]), "finite"),
        (transform(0, channels_=[]), "channels"),
        (transform(3, duration_="evil"), "duration_"),
        # Records.
        (learned(history="evil"), "history"),
        (learned(history=[1]), "history"),
        (learned(history=[{"loss": {}}]), "history"),
        (learned(best_epoch="evil"), "best_epoch"),
        (learned(validation_loss=None), "validation_loss"),
    ],
)
def test_a_file_from_elsewhere_can_do_no_harm(saved, change, words):
    """Whatever it says under a right checksum, it is a model of ours or refused; and nothing large is made."""
    reseal(saved, change)
    assert re.search(words, refusal_of(saved))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: dict(list(arrays.items())[1:]), "without the array"),
        (lambda arrays: arrays | {"model.evil": np.zeros(3)}, "'model.evil', which these settings do not need"),
        (lambda arrays: {name: array.astype("f2") for name, array in arrays.items()}, "of shape .* and type float16"),
        (lambda arrays: arrays | {"model.encoder.bias": np.full(4, 1e39)}, "'model.encoder.bias'.*finite"),
        (lambda arrays: {name: array * np.float32(np.nan) for name, array in arrays.items()}, "type float|not finite"),
        (
            lambda arrays: arrays | {"model.encoder.bias": np.full(4, np.inf, np.float32)},
            "'model.encoder.bias'.*finite",
        ),
        (lambda arrays: arrays | {"model.decoder.labels.mean.array": np.full(3, np.nan, np.float32)}, "not finite"),
        (lambda arrays: {}, "expected many more"),
    ],
)
def test_weights_from_elsewhere(saved, change, words):
    reseal(saved, lambda header: None, numbers=change)
    assert re.search(words, refusal_of(saved))


def test_what_fits_the_sizes_loads_and_is_refused_by_predictions(saved):
    """A file may hold a bad model: wrong parameters are found by the next `fit`, wrong numbers by predictions."""
    changes = [
        transform(0, channels_=["pulse"]),
        transform(2, channels_=["a", "b", "c"]),
        transform(2, deviations_=[1e-320, 1e-320, 1e-320]),
        transform(3, duration_=1e-320),
        transform(2, channels_=None, means_=None, deviations_=None),
    ]
    content = saved.read_bytes()
    for change in changes:
        saved.write_bytes(content)
        reseal(saved, change)
        with pytest.raises(ValueError, match=r"channels|infinity|not finite|fitted"), np.errstate(all="ignore"):
            load(saved).predict(X)
    saved.write_bytes(content)
    reseal(saved, parameter("shuffle", "evil"))
    with pytest.raises(ValueError, match="shuffle='evil'"):
        load(saved).fit(X, LABELS)


def test_a_regressor_from_elsewhere(tmp_path):
    NeuralRDERegressor(**options(**SMALL)).fit(X, X[:, 0]).save(tmp_path / "regressor")
    reseal(tmp_path / "regressor", targets(one_dimensional=True))
    assert "2 outputs; expected one" in refusal_of(tmp_path / "regressor")


def test_a_file_cannot_make_long_strings_of_short_ones(saved):
    """A type of 1.6 GB per label, which the labels themselves do not need."""
    reseal(saved, targets(classes={"array": ["left", "right", "up"], "type": "<U400000000"}))
    tracemalloc.start()
    assert load(saved).classes_.tolist() == ["left", "right", "up"]
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


TIMED = Series(np.nan_to_num(X), times=np.cumsum(RNG.uniform(0.5, 1.5, (30, 17)), axis=1), channels=["pulse", "breath"])
TABLE = pandas.DataFrame(X[:, :, 0]).rename(columns=str)
FEW = SMALL | {"epochs": 1}
OBJECTS = LABELS.astype(object)


@pytest.mark.parametrize(
    "fitted",
    [
        lambda: NeuralRDEClassifier(**options(**FEW, fill=None, time=False)).fit(np.nan_to_num(X), LABELS == "left"),
        lambda: NeuralRDEClassifier(**options(**FEW | {"step": None}, every=4.0, fill="linear")).fit(
            TIMED, LABELS.astype(object)
        ),
        lambda: NeuralRDERegressor(**options(**FEW, shifts=3, readout="final")).fit(TABLE, X[:, :2, 0]),
        lambda: NeuralRDERegressor(**options(**FEW | {"step": 1})).fit(np.nan_to_num(X), np.nan_to_num(X)),
    ],
)
def test_what_was_fitted_in_any_way_loads(tmp_path, fitted):
    """The checks refuse nothing that `fit` can leave."""
    estimator = fitted()
    estimator.save(tmp_path / "model")
    again = load(tmp_path / "model")
    (plain, arrays), (expected, others) = (to_parts(model.fitted_) for model in (again, estimator))
    assert plain == expected
    assert all(np.array_equal(array, others[name]) for name, array in arrays.items())


def test_a_program_in_float64_reads_the_same_model(classifier, saved):
    """`jax_enable_x64` once made a sound file damaged, and its streams those of another model."""
    expected, stream = classifier.predict_proba(X), classifier.stream()
    stream.push(X[0])
    with jax.enable_x64(True):
        again = load(saved)
        np.testing.assert_allclose(again.predict_proba(X), expected, rtol=1e-5)  # float32 then
        np.testing.assert_allclose(pickle.loads(pickle.dumps(classifier)).predict_proba(X), expected, rtol=1e-5)
        assert again.model_.encoder.weight.dtype == np.float64
        going_on = again.stream(stream.state())
        np.testing.assert_allclose(going_on.predict_proba(), stream.predict_proba(), rtol=1e-5)
        again.save(saved)
    np.testing.assert_array_equal(load(saved).predict_proba(X), expected)
    assert load(saved).stream(going_on.state()).points == 17


def test_another_version_is_refused(saved, monkeypatch):
    monkeypatch.setattr("neuralrde.training.archive.__version__", "99.0.0")
    NeuralRDEClassifier.load(saved).save(saved)
    monkeypatch.undo()
    with pytest.raises(FileRefused, match=r"written by neuralrde 99\.0\.0"):
        load(saved)
