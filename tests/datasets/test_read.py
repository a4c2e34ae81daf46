"""One door for all files: the right reader, and for rubbish a sentence, never another error."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from neuralrde.datasets import Dataset, ReadError, column_names, read, write_npz

from .examples import as_arff, as_long, as_ts, assert_same, make_dataset

DATA = make_dataset(5, timed=False)


def as_npz():
    file = io.BytesIO()
    arrays = {"X": DATA.series.values, "y": DATA.target, "lengths": DATA.series.lengths}
    np.savez(file, **arrays, classes=DATA.classes)
    return file.getvalue()


WRITTEN = {
    "ts": as_ts(DATA).encode(),
    "ts with times": as_ts(make_dataset(5)).encode(),
    "arff": as_arff(DATA).encode(),
    "csv": as_long(DATA).encode(),
    "npz": as_npz(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("read")


def assert_read_or_named(path):
    try:
        outcome = read(path)
    except ReadError as error:
        outcome = error
    assert isinstance(outcome, Dataset) or str(path) in str(outcome)


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("ending", ["ts", "arff", "csv", "txt", "dat"])
def test_a_file_is_read_as_what_it_is(folder, kind, ending):
    if kind == "csv" and ending in ("ts", "arff"):
        return  # its ending may be right and its header lost
    path = folder / f"file.{ending}"
    path.write_bytes(WRITTEN[kind])
    data = read(path)
    if kind != "ts with times":
        assert_same(data, DATA)


@settings(max_examples=40)
@pytest.mark.parametrize("kind", WRITTEN)
@given(seed=st.integers(0, 2**32 - 1), changes=st.integers(1, 4))
def test_damaged_files_are_read_or_named(folder, kind, seed, changes):
    rng = np.random.default_rng(seed)
    content = bytearray(WRITTEN[kind])
    for _ in range(changes):
        at, length = int(rng.integers(len(content))), int(rng.integers(0, 6))
        pool = rng.choice([b"\n", b",", b":", b"@", b"'", b"?", b"-", b"(", b"1e999", rng.bytes(3)])
        content[at : at + length] = pool * int(rng.integers(0, 3))
    path = folder / f"damaged.{kind.split()[0]}"
    path.write_bytes(content)
    assert_read_or_named(path)


@settings(max_examples=60)
@given(content=st.binary(max_size=60), ending=st.sampled_from(["ts", "arff", "csv", "npz", "ts.gz", "txt", ""]))
def test_rubbish_is_read_or_named(folder, content, ending):
    assume(not content.startswith(b"PAR1"))  # which may need pyarrow
    path = folder / f"rubbish.{ending}"
    path.write_bytes(content)
    assert_read_or_named(path)


@pytest.mark.parametrize("ending", ["ts", "arff", "csv", "npz", "parquet", "txt"])
def test_empty_absent_and_binary_files(folder, ending):
    path = folder / f"none.{ending}"
    path.unlink(missing_ok=True)
    with pytest.raises(ReadError, match="no file of this name"):
        read(path)
    path.write_bytes(b"")
    with pytest.raises(ReadError, match="empty file"):
        read(path)
    path.write_bytes(np.random.default_rng(0).bytes(10_000))
    if ending != "parquet":
        with pytest.raises(ReadError, match=r"binary file|no .npz archive"):
            read(path)
    path.write_bytes(b"\x1f\x8b broken")
    if ending not in ("parquet", "npz"):
        with pytest.raises(ReadError, match="gzip"):
            read(path)


def test_options_of_tables_are_refused_elsewhere(folder):
    path = folder / "a.ts"
    path.write_bytes(WRITTEN["ts"])
    with pytest.raises(ReadError, match=r"Got target='y' for a .ts file"):
        read(path, target="y")
    with pytest.raises(ReadError, match=r"Got header=False for a .ts file"):
        read(path, header=False)


def test_an_error_travels_between_processes(folder):
    error = ReadError("a.csv", "Got nothing.", line=3)
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "a.csv, line 3: Got nothing."


def test_strange_endings_are_named(folder):
    path = folder / "a.xlsx"
    path.write_text("1,2\n")
    with pytest.raises(ReadError, match=r"ending '.xlsx'"):
        read(path)


def test_a_home_folder_and_names(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    write_npz(DATA, folder / "home.npz")
    assert len(read("~/home.npz")) == len(DATA)
    assert read("~/home.npz", name="mine").name == "mine"


def test_names_of_columns(tmp_path):
    (tmp_path / "parts" / "a").mkdir(parents=True)
    table = tmp_path / "parts" / "a" / "one.csv"
    table.write_text("# a note\nhour;pulse\n0;60\n1;70\n")
    (tmp_path / "parts" / "labels.csv").write_text("id,target\none,ill\n")
    assert column_names(table) == column_names(tmp_path / "parts") == ["hour", "pulse"]
    for stray in ("X.jpg", "A_description.txt"):
        (tmp_path / "parts" / "a" / stray).write_bytes(b"\xff\xd8, by whom it was measured")
    for part in ("TRAIN", "TEST"):
        (tmp_path / "parts" / "a" / f"X_{part}.csv").write_text("id,time,x,target\na,0,1,2\n")
    assert column_names(tmp_path / "parts" / "a") == ["id", "time", "x", "target"]
    (tmp_path / "words.csv").write_text("1.0,1.0,walk\n2.0,3.0,run\n")
    assert column_names(tmp_path / "words.csv", header=False) == ["0", "1", "2"]
    (tmp_path / "plain.csv").write_text("1,2\n3,4\n")
    assert column_names(tmp_path / "plain.csv") == ["0", "1"]
    write_npz(DATA, tmp_path / "x.npz")
    (tmp_path / "empty").mkdir()
    for nameless in ("x.npz", "empty", "absent"):
        assert column_names(tmp_path / nameless) == []


@pytest.mark.long
def test_importing_the_package_does_not_import_pandas():
    code = "import sys, neuralrde.datasets; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
