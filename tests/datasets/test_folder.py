"""Folders: pairs, parts, classes, and a file a series."""

import gzip

import numpy as np
import pytest

from neuralrde.datasets import ReadError, read

from .examples import as_ts, labels, make_dataset


def put(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


ONE, TWO = "time,x,y\n0,1,2\n1,3,4\n", "time,x,y\n0,5,6\n"


def test_a_training_and_a_test_file(tmp_path):
    train, test = make_dataset(0), make_dataset(1)
    put(
        tmp_path,
        {"Ex_TRAIN.ts": as_ts(train), "Ex_TEST.ts": as_ts(test), "Ex_eq_TRAIN.ts": "", "Ex_eq_TEST.ts": ""},
    )
    put(tmp_path, {"Ex.txt": "about", "SOURCE.txt": "a lab", "Ex_TRAIN.arff": "", "Ex_TEST.arff": ""})
    data = read(tmp_path)
    assert data.name == "Ex"
    assert labels(data) == labels(train) + labels(test)
    assert data.split.tolist() == ["train"] * len(train) + ["test"] * len(test)
    np.testing.assert_array_equal(data.series.lengths, [*train.series.lengths, *test.series.lengths])


def test_tables_in_pairs(tmp_path):
    put(tmp_path, {"a_train.csv": "ill,0,1\nyes,1,2\nno,3,4\n", "a_test.csv": "ill,0,1\nno,1,2\n"})
    data = read(tmp_path, target="ill")
    assert labels(data) == ["yes", "no", "no"]
    assert data.split.tolist() == ["train", "train", "test"]


def test_classes_in_sub_folders_and_parts_above_them(tmp_path):
    put(
        tmp_path / "a",
        {"run/1.csv": ONE, "run/2.csv": TWO, "walk/1.csv": ONE, ".git/x": "", "README.md": "hello"},
    )
    data = read(tmp_path / "a")
    assert labels(data) == ["run", "run", "walk"]
    assert data.series.ids.tolist() == ["1", "2", "1"]
    assert data.series.lengths.tolist() == [2, 1, 2]
    put(tmp_path / "b", {"train/run/1.csv": ONE, "test/walk/1.csv": ONE, "val/walk/2.csv": ONE})
    data = read(tmp_path / "b")
    assert sorted(zip(data.split.tolist(), labels(data), strict=True)) == [
        ("test", "walk"),
        ("train", "run"),
        ("validation", "walk"),
    ]


def test_a_file_a_series_with_labels_beside_them(tmp_path):
    put(tmp_path, {"b.csv": ONE, "a.csv": TWO})
    assert read(tmp_path).target is None
    put(tmp_path, {"labels.csv": "id, label, patient\nb, 1.5, p\na, 2.5, q\nc, 3, r\n"})
    data = read(tmp_path)
    assert data.series.ids.tolist() == ["a", "b"]
    assert data.target.tolist() == [2.5, 1.5]
    assert data.groups.tolist() == ["q", "p"]
    (tmp_path / "a.csv").unlink()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TWO.encode()))
    assert read(tmp_path).target.tolist() == [2.5, 1.5]


def test_the_task_is_that_of_the_whole_folder(tmp_path):
    put(tmp_path, {"a.csv": "time,x,y\n0,1,3\n1,2,3\n", "b.csv": "time,x,y\n0,1,2.5\n1,2,2.5\n"})
    data = read(tmp_path, target="y", task="regression")
    assert (data.task, data.target.tolist()) == ("regression", [3.0, 2.5])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "without files"),
        ({"a/1.csv": ONE, "2.csv": ONE}, "sub-folders .* beside the files"),
        ({"a.csv": ONE, "b.csv": "time,x\n0,1\n"}, "channels"),
        ({"a.csv": ONE, "b.csv": ""}, "empty file"),
        ({"a.ts": as_ts(make_dataset(0)), "b.csv": ONE}, "Got 4 series; expected one"),
        ({"a.csv": ONE, "a.tsv": ONE}, "expected different names"),
        ({"a.csv": ONE, "labels.csv": "id,target\nb,1\n"}, "no row for .'a'."),
        (
            {"a.csv": ONE, "b.csv": ONE, "labels.csv": "id,target\na,1.5\nb,\n"},
            "Got nothing in column 'target' for .'b'.",
        ),
        ({"a.csv": ONE, "labels.csv": "name,target\na,1\n"}, "expected `id`"),
        ({"a.csv": ONE, "notes.docx": "hello"}, "ending '.docx'"),
        (
            {"a_TRAIN.ts": as_ts(make_dataset(0)), "a_TEST.ts": as_ts(make_dataset(0, task="regression"))},
            "same task",
        ),
        ({"a_TRAIN.ts": as_ts(make_dataset(0)), "a_TEST.ts": as_ts(make_dataset(0, channels=1))}, "channels"),
    ],
)
def test_wrong_folders_are_named(tmp_path, files, message):
    with pytest.raises(ReadError, match=message):
        read(put(tmp_path, files))


def test_a_folder_of_long_tables(tmp_path):
    put(tmp_path, {"p1.csv": "id,t,x,label\na,0,1,u\na,1,2,u\nb,0,3,v\n", "p2.csv": "id,t,label,x\nc,0,v,4\n"})
    data = read(tmp_path)
    assert data.series.ids.tolist() == ["a", "b", "c"]
    assert labels(data) == ["u", "v", "v"]
    assert data.series.values[2, 0].tolist() == [4]
    put(tmp_path, {"p2.csv": "id,t,label,x\na,0,v,4\n"})
    data = read(tmp_path)
    assert data.series.ids.tolist() == ["p1/a", "p1/b", "p2/a"]
    assert "ids begin with the file's name, because a is in two files" in data.reading


def test_labels_for_a_folder_of_long_tables(tmp_path):
    put(
        tmp_path,
        {"p1.csv": "id,t,x\na,0,1\nb,0,3\n", "p2.csv": "id,t,x\na,0,4\n", "labels.csv": "id,target\na,u\nb,v\n"},
    )
    data = read(tmp_path)
    assert (data.series.ids.tolist(), labels(data)) == (["p1/a", "p1/b", "p2/a"], ["u", "v", "u"])


def test_a_label_file_that_contradicts_itself(tmp_path):
    put(tmp_path, {"a.csv": ONE, "b.csv": TWO, "labels.csv": "id,target\na,yes\nb,no\na,no\n"})
    with pytest.raises(ReadError, match=r"labels.csv, line 4: Got for id a both 'yes' and 'no'"):
        read(tmp_path)


def test_labels_by_semicolons_and_short_rows(tmp_path):
    put(tmp_path, {"a.csv": ONE, "b.csv": TWO, "labels.csv": "id;target\na;yes\nb;no\n"})
    assert labels(read(tmp_path)) == ["yes", "no"]
    put(tmp_path, {"labels.csv": "id,target\na,yes\nb\n"})
    with pytest.raises(ReadError, match=r"nothing in column 'target' for .'b'."):
        read(tmp_path)


def test_the_task_of_a_pair_is_that_of_both_files(tmp_path):
    """The few samples of a test set alone would look like classes."""
    train = "".join(f"{60 + i},1,2\n" for i in range(30))
    put(tmp_path, {"a_train.csv": f"rate,0,1\n{train}", "a_test.csv": "rate,0,1\n60,1,2\n61,3,4\n"})
    data = read(tmp_path, target="rate")
    assert data.task == "regression"
    assert data.split.tolist() == ["train"] * 30 + ["test"] * 2


def test_an_error_names_the_file_and_line_within_a_folder(tmp_path):
    put(tmp_path, {"a.csv": ONE, "b.csv": "time,x,y\n0,5,6\n1,5,oops\n"})
    with pytest.raises(ReadError, match=r"b\.csv, line 3: Got 'oops' in column 'y'"):
        read(tmp_path)
