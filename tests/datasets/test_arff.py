"""The .arff reader: flat and relational files, padded as the archives do."""

import gzip

import numpy as np
import pytest
from hypothesis import given

from neuralrde.datasets import ReadError, read, read_arff
from neuralrde.paths import checks

from .examples import as_arff, assert_same, datasets, labels, make_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("arff")


@given(data=datasets(timed=False))
def test_what_was_written_is_read(folder, data):
    path = folder / "example.arff"
    path.write_text(as_arff(data))
    assert_same(read(path), data)


FLAT = (
    "@relation 'two words'\n\n@ATTRIBUTE att0 REAL\n@attribute 'att 1' numeric\n@attribute target {'a b', c}\n@data\n"
)


def test_flat_files(tmp_path):
    path = tmp_path / "flat.arff"
    path.write_text(FLAT + "1,2,'a b'\n% a remark\n3,?,c\n")
    data = read(path)
    assert data.name == "two_words"
    assert labels(data) == ["a b", "c"]
    assert data.series.lengths.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FLAT, "no series"),
        (FLAT + "1,2,d\n", "line 7: Got the label 'd'"),
        (FLAT + "1,2,3,c\n", "line 7: Got 4 values for 3 attributes"),
        (FLAT + "1,x,c\n", "line 7: Got 'x'"),
        ("@relation r\n@attribute a numeric\n@data\n1\n", "Got 1 attributes"),
        ("@relation r\n1,2\n", "line 2: Got '1,2'"),
        ("@relation r\n@attribute a\n@data\n", "line 2"),
        ("@relation r\n", "no line `@data`"),
        (FLAT.replace("{'a b', c}", "numeric") + "1,2,?\n", "line 7: Got the target"),
    ],
)
def test_wrong_lines_are_named(tmp_path, text, message):
    path = tmp_path / "wrong.arff"
    path.write_text(text)
    with pytest.raises(ReadError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("'1,2\\n3',cat", r"lengths \[2, 1\]"),
        ("1,2,cat", "Got '1,2,cat'"),
        ("'1,2',cat\n'1,2\\n3,4',cat", "Got 2 channels beside 1"),
    ],
)
def test_wrong_relational_lines_are_named(tmp_path, line, message):
    header = as_arff(make_dataset(0, length=2)).split("@data")[0]
    header = header[: header.index("@attribute target")] + "@attribute target {cat}\n@data\n"
    path = tmp_path / "wrong.arff"
    path.write_text(header + line + "\n")
    with pytest.raises(ReadError, match=message):
        read(path)


@pytest.mark.parametrize("target", ["inf", "1e999", "1" * 400])
def test_infinite_targets_name_the_file(tmp_path, target):
    path = tmp_path / "one.arff"
    path.write_text(FLAT.replace("{'a b', c}", "numeric") + f"1,2,{target}\n")
    with pytest.raises(ReadError, match=r"one\.arff.*infinite target"):
        read(path)


def test_damaged_gzip_files_are_named(tmp_path):
    whole = gzip.compress(as_arff(make_dataset(0, samples=200)).encode())
    path = tmp_path / "bad.arff.gz"
    for content in (whole[: len(whole) // 2], whole[:-1], whole[:500] + b"\xff\xff" + whole[502:]):
        path.write_bytes(content)
        for reader in (read, read_arff):
            with pytest.raises(ReadError, match=r"bad\.arff\.gz: Got a damaged"):
                reader(path)


def test_series_that_padding_would_make_too_large_are_refused(tmp_path, monkeypatch):
    header = "@relation r\n@attribute bag relational\n@attribute t numeric\n@end bag\n@attribute c {a}\n@data\n"
    path = tmp_path / "ragged.arff"
    path.write_text(header + f"'{','.join('1' * 1000)}',a\n" + "'1',a\n" * 1000)
    assert read(path).series.values.shape == (1001, 1000, 1)
    monkeypatch.setattr(checks, "free_memory", lambda: 10**7)
    monkeypatch.setattr(checks, "SMALL", 0)
    with pytest.raises(ReadError, match=r"ragged\.arff: 1,001 series of 1 to 1,000 points"):
        read(path)


@pytest.mark.parametrize("name", ["../../outside", "'/etc/passwd'", "..", "'a/b/..'", "''"])
def test_a_name_in_the_file_names_no_folder(tmp_path, name):
    path = tmp_path / "one.arff"
    path.write_text(FLAT.replace("'two words'", name) + "1,2,c\n")
    assert read(path).name in ("outside", "passwd", "one")


def test_aeon_reads_the_same(folder):
    aeon = pytest.importorskip("aeon.datasets", reason="aeon, the oracle, is not installed")
    path = folder / "oracle.arff"
    path.write_text(as_arff(make_dataset(1, samples=6, length=9, missing=0.0)))
    arrays, target = aeon.load_from_arff_file(str(path))
    ours = read_arff(path)
    assert labels(ours) == target.tolist()
    for i, length in enumerate(ours.series.lengths):
        np.testing.assert_array_equal(ours.series.values[i, :length], arrays[i].T[:length])
        assert np.isnan(arrays[i].T[length:]).all()
