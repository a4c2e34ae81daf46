"""The .npz reader and writer: nothing is lost, nothing is unpickled."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from neuralrde.datasets import Dataset, ReadError, read, write_npz
from neuralrde.paths import Series

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
        ({"x": np.zeros((2, 3))}, "expected one called X"),
        ({"X": np.zeros(3)}, "shape"),
        ({"X": np.zeros((2, 3, 1, 1))}, "shape"),
        ({"X": np.zeros((0, 3, 1))}, "empty"),
        ({"X": np.array([["a", "b"]])}, "real numbers"),
        ({"X": np.array([[None, 1]])}, "pickled objects"),
        ({"X": np.zeros((2, 3)), "y": np.array([{}, 1])}, "pickled objects"),
        ({"X": np.zeros((2, 3)), "y": [1]}, "Got 1 in target for 2 samples"),
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
