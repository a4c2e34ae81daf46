"""One file, no pickle: the same predictions after a round trip, and a sentence for what is wrong with a file."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from neuralrde.estimators import LogSignatureTransformer, NeuralRDEClassifier, NeuralRDERegressor, load
from neuralrde.estimators.file import from_plain, to_plain
from neuralrde.training import FileRefused
from neuralrde.training.archive import read_archive, write_archive

SMALL = {"state": 4, "width": 6, "layers": 1, "epochs": 2, "step": 4}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 17, 2))
X[3, 4, 1] = np.nan
LABELS = np.array(["left", "right", "up"])[np.arange(30) % 3]


@pytest.fixture(scope="module")
def classifier():
    return NeuralRDEClassifier(**SMALL, class_weight={"left": 1.0, "right": 2.0, "up": 1.0}).fit(X, LABELS)


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
    regressor = NeuralRDERegressor(**SMALL).fit(X, X[:, 0, 0])
    regressor.save(tmp_path / "regressor")
    np.testing.assert_array_equal(NeuralRDERegressor.load(tmp_path / "regressor").predict(X), regressor.predict(X))
    transformer = LogSignatureTransformer(step=4).fit(X)
    transformer.save(tmp_path / "transformer")
    np.testing.assert_array_equal(load(tmp_path / "transformer").transform(X), transformer.transform(X))
    with pytest.raises(FileRefused, match="holds a 'NeuralRDERegressor'"):
        NeuralRDEClassifier.load(tmp_path / "regressor")
    with pytest.raises(NotFittedError):
        NeuralRDERegressor().save(tmp_path / "unfitted")


@pytest.mark.parametrize(
    "labels",
    [np.arange(3), np.array([False, True]), np.array(["a", "b"], object), np.array([0.5, 2.0]), np.array(["ä"])],
)
def test_labels_of_every_kind(labels):
    again = from_plain(json.loads(json.dumps(to_plain(labels))))
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


def test_a_file_from_elsewhere_can_do_no_harm(saved):
    """Whatever it says under a right checksum, it is a model of ours or refused; and nothing large is made."""
    header, arrays = read_archive(saved, "model", format=2)

    def forged(change, numbers=arrays):
        content = json.loads(json.dumps(header))
        change(content)
        plain = {key: value for key, value in content.items() if key not in ("kind", "format", "version")}
        write_archive(saved, "model", format=2, header=plain, arrays=numbers)
        with pytest.raises(FileRefused) as refusal:
            load(saved)
        return str(refusal.value)

    def setting(name, value):
        return lambda content: content["parameters"]["pairs"].append([name, value])  # the later of two pairs holds

    assert "expected one of" in forged(lambda h: h.update(estimator="os.system"))
    assert "nothing that" in forged(lambda h: h["learned"].update(__class__="str"))
    assert "Invalid parameter" in forged(setting("evil", 1))
    built = lambda name, value: lambda content: content["learned"]["kept_"]["pairs"].append([name, value])
    assert "of shape" in forged(built("width", 2**20))
    assert "readout" in forged(built("readout", "os.system"))
    assert "layers" in forged(built("layers", 10**9))
    assert "cuts" in forged(lambda h: h["learned"].update(cuts_=10**9))
    assert "layers" in forged(setting("layers", 10**9))
    assert "step" in forged(lambda h: h["learned"]["steps_"]["step"].update(step="Popen"))
    assert "without the array" in forged(lambda h: None, dict(list(arrays.items())[1:]))
    forged(lambda h: h.pop("parameters"))
    forged(lambda h: h["learned"].pop("depth_"))


def test_another_version_is_refused(saved, monkeypatch):
    monkeypatch.setattr("neuralrde.training.archive.__version__", "99.0.0")
    NeuralRDEClassifier.load(saved).save(saved)
    monkeypatch.undo()
    with pytest.raises(FileRefused, match=r"written by neuralrde 99\.0\.0"):
        load(saved)
