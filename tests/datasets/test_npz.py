"""The .npz reader and writer: nothing is lost, nothing is unpickled."""

import io
import random
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from neuralrde.datasets import Dataset, ReadError, read, write_npz
from neuralrde.paths import Series, checks

from .examples import assert_same, datasets


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("npz")


@given(data=datasets())
def test_what_was_written_is_read(folder, data):
    groups = np.arange(len(data)) // 2
    data = replace(data, groups=groups, split=np.where(groups == 0, "train", "test"), name="n", source="s")
    write_npz(data, folder / "example.npz")
    again = read(folder / "example.npz")
    assert_same(again, data)
    assert (again.classes, again.name, again.source) == (data.classes, "n", "s")
    np.testing.assert_array_equal(again.groups, groups)
    np.testing.assert_array_equal(again.split, data.split)
    assert [path.name for path in folder.iterdir()] == ["example.npz"]


def test_static_columns_are_written_and_read_in_their_order_with_their_gaps(tmp_path):
    static = pd.DataFrame({"unit": ["icu", None], "age": [70, np.nan], "X": [1, 2], "old": [True, False]})
    write_npz(Dataset(Series.from_array([[1.0], [2.0]]), static=static), tmp_path / "a.npz")
    pd.testing.assert_frame_equal(read(tmp_path / "a.npz").static, static)


def save(tmp_path, **arrays):
    np.savez(tmp_path / "one.npz", **arrays)
    return tmp_path / "one.npz"


def test_plain_arrays(tmp_path):
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    data = read(save(tmp_path, X=x, y=np.array(["b", "a"]), is_train=np.array([1, 0]), other=np.zeros(9)))
    assert data.series.values[..., 0].tolist() == x.tolist()
    assert data.target.tolist() == [1, 0]
    assert data.split.tolist() == ["train", "test"]
    assert read(save(tmp_path, X=x, times=np.arange(3.0))).series.times.shape == (2, 3)


def test_gaps_at_the_end_are_padding_unless_lengths_or_times_say_otherwise(tmp_path):
    x = np.array([[1.0, np.nan, np.nan], [1.0, np.nan, 3.0]])
    assert read(save(tmp_path, X=x)).series.lengths.tolist() == [1, 3]
    assert read(save(tmp_path, X=x, lengths=[2, 3])).series.lengths.tolist() == [2, 3]
    assert read(save(tmp_path, X=x, times=np.arange(3.0))).series.lengths.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 3))}, "expected also X"),
        ({"X": np.zeros(3)}, "shape"),
        ({"X": np.zeros((2, 3, 1, 1))}, "shape"),
        ({"X": np.zeros((0, 3, 1))}, "empty"),
        ({"X": np.array([["a", "b"]])}, "real numbers"),
        ({"X": np.array([[None, 1]])}, "pickled objects"),
        ({"X": np.zeros((2, 3)), "y": np.array([{}, 1])}, "pickled objects"),
        ({"X": np.zeros((2, 3)), "y": [1]}, "Got 1 in target for 2 samples"),
        ({"X": np.zeros((2, 3)), "static age": [1]}, "Got 1 in static for 2 samples"),
        ({"X": np.zeros((2, 3)), "lengths": [3, 4]}, "length 4 for sample 1"),
        ({"X": np.zeros((2, 3)), "times": np.zeros(3)}, "increas"),
        ({"X": np.zeros((2, 3)), "y": [0, 2], "classes": ["a", "b"]}, "does not number"),
    ],
)
def test_wrong_arrays_are_named(tmp_path, arrays, message):
    with pytest.raises(ReadError, match=message):
        read(save(tmp_path, **arrays))


def test_rubbish_is_named(tmp_path):
    whole = save(tmp_path, X=np.random.default_rng(0).normal(size=(20, 30))).read_bytes()
    for content in (b"text", b"PK\x03\x04", whole[: len(whole) // 2], whole[:99] + b"xyz" + whole[102:]):
        path = tmp_path / "bad.npz"
        path.write_bytes(content)
        with pytest.raises(ReadError, match=r"no .npz archive|damaged archive"):
            read(path)


def test_mixed_objects_are_not_written(tmp_path):
    data = Dataset(Series.from_array([[1.0], [2.0]]), groups=np.array([1, "a"], dtype=object))
    with pytest.raises(TypeError, match="groups"):
        write_npz(data, tmp_path / "a.npz")
    assert not list(tmp_path.glob("*.npz*"))


def header(text, version=1):
    """A member of a .npz file with this header, and no data."""
    text = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text


def packed(tmp_path, **members):
    path = tmp_path / "made.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10000, 1000000, 1000), }",
        "{'descr': '<U400000000', 'fortran_order': False, 'shape': (9,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 5, 1), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000, 5), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10" + 60 * "0" + "), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (5.5,), }",
        "{'descr': [('', 5)], 'fortran_order': False, 'shape': (5,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (5,), ",
        "{'descr': '<f8' 'fortran_order': False, 'shape': 5, }",
        "{}",
        "(" * 118,
        3 * "'",
    ],
)
def test_headers_that_lie_are_named(tmp_path, text):
    path = packed(tmp_path, X=header(text))
    with pytest.raises(ReadError, match=r"made\.npz: Got a damaged"):
        read(path)


def test_arrays_that_do_not_fit_are_refused_before_they_are_read(tmp_path, monkeypatch):
    x = np.zeros((20, 5000), np.int8)  # 100 kB, which float64 and its copies make a few MB
    path = save(tmp_path, X=x, other=np.zeros(10**6))
    assert len(read(path)) == 20
    monkeypatch.setattr(checks, "free_memory", lambda: 10**6)
    monkeypatch.setattr(checks, "SMALL", 0)
    with pytest.raises(ReadError, match=r"one.npz: .* need .* GiB; this machine has .* GiB free"):
        read(path)
    # An array that nobody asks for is not read.
    path = save(tmp_path, X=np.ones((2, 3)), other=np.zeros(10**6))
    assert len(read(path)) == 2


def test_encrypted_and_strange_members_are_named(tmp_path):
    path = packed(tmp_path, X=header("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 5), }"))
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(mark) + place] |= 1
    path.write_bytes(content)
    with pytest.raises(ReadError, match="Got an encrypted archive"):
        read(path)
    path = packed(tmp_path, X=b"no array")
    with pytest.raises(ReadError, match="damaged"):
        read(path)


def test_a_file_changed_anywhere_is_read_or_named(tmp_path):
    """The compressed form and the stored one; nothing but ReadError comes out."""
    rng = random.Random(0)
    for write_arrays in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        write_arrays(file, X=np.arange(6.0).reshape(2, 3), y=np.array(["a", "b"]), name=np.array("n"), ids=[3, 4])
        whole, path = file.getvalue(), tmp_path / "changed.npz"
        refused = 0
        for _ in range(300):
            content = bytearray(whole)
            for _ in range(rng.randint(1, 3)):
                content[rng.randrange(4, len(content))] = rng.randrange(256)
            path.write_bytes(content if rng.random() < 0.8 else content[: rng.randrange(5, len(content))])
            try:
                read(path)
            except ReadError:
                refused += 1
        assert refused > 100


@pytest.mark.parametrize("name", ["../../outside", "/etc/passwd", "..", "", "a\\b\n\0c"])
def test_a_name_in_the_file_names_no_folder(tmp_path, name):
    data = read(save(tmp_path, X=np.ones((2, 3)), name=np.array(name)))
    assert data.name in ("outside", "passwd", "one", "b_c")


def test_an_array_whose_name_is_damaged_does_not_go_missing(tmp_path):
    """A flipped bit in the archive's list of names: the array was passed over, and the series had no lengths."""
    path = tmp_path / "short.npz"
    np.savez(path, X=np.zeros((2, 5, 1)), lengths=np.array([3, 5]))
    content = bytearray(path.read_bytes())
    content[content.rindex(b"lengths.npy")] ^= 1
    path.write_bytes(content)
    with pytest.raises(ReadError, match="damaged archive"):
        read(path)


def test_letters_that_do_not_exist(tmp_path):
    path = tmp_path / "letters.npz"
    labels = np.array(["a", "b"])
    labels.view(np.uint32)[0] = 0x110000
    np.savez(path, X=np.zeros((2, 5, 1)), y=labels)
    with pytest.raises(ReadError, match="letters that do not exist"):
        read(path)


def test_dates_stay_dates(tmp_path):
    (tmp_path / "a.csv").write_text("id,time,x\na,2024-01-01,1\na,2024-01-02,2\nb,2024-01-01,3\n")
    data = read(tmp_path / "a.csv")
    write_npz(data, tmp_path / "a.npz")
    assert read(tmp_path / "a.npz").time_unit == data.time_unit == "seconds since 1970"
