"""Labels in a second file, by any names, for a table or a folder."""

import pytest

from neuralrde.datasets import ReadError, read

from .examples import as_ts, labels, make_dataset

LONG = "rec,t,x\nP1,0,1\nP2,0,2\nP1,1,3\nP3,0,4\n"


def put(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return folder / "data.csv"


def test_labels_for_a_long_table(tmp_path):
    path = put(tmp_path, data=LONG, who="name;outcome;ward\nP2;ill;a\nP1;well;b\nP3;ill;a\nP9;well;c\n")
    told = {"labels": tmp_path / "who.csv", "labels_id": "name", "id": "rec", "target": "outcome"}
    data = read(path, group="ward", **told)
    assert labels(data) == ["well", "ill", "ill"]
    assert data.groups.tolist() == ["b", "a", "a"]
    assert "target `outcome` (2 classes) from who.csv; 1 of its rows are of no series here" in data.reading
    put(tmp_path, who="rec,outcome\nP1,well\nP2,ill\nP3,ill\n")
    assert labels(read(path, id="rec", labels=tmp_path / "who.csv")) == ["well", "ill", "ill"]  # the only other column


def test_several_targets_in_a_second_file(tmp_path):
    path = put(tmp_path, data=LONG, who="id,hr,age\nP1,60,40\nP2,70.5,50\nP3,80,60\n")
    data = read(path, id="rec", labels=tmp_path / "who.csv", target=["age", "hr"])
    assert data.target.tolist() == [[40, 60], [50, 70.5], [60, 80]]


def test_series_without_a_label(tmp_path):
    path = put(tmp_path, data=LONG, who="id,target\nP1,well\nP2\n")
    told = {"id": "rec", "labels": tmp_path / "who.csv"}
    with pytest.raises(ReadError, match=r"Got no row for \['P2', 'P3'\].*drop_unlabelled=True"):
        read(path, **told)
    data = read(path, drop_unlabelled=True, **told)
    assert data.series.ids.tolist() == ["P1"]
    assert "2 series without a target left out" in data.reading


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,target\nP1,a\nP2,b\nP3,b\nP1,b\n", "line 5: Got for id P1 both 'a' and 'b' in column 'target'"),
        ("id,target\nX1,a\n", r"Got no row for \['P1', 'P2', 'P3'\], nor for any other series"),
        ("who,target\nP1,a\n", "labels_id="),
        ("id,outcome,ward\nP1,a,b\n", "or target="),
        ("id,target\nP1,a,b\n", "line 2: Got 3 cells in a row; expected 2"),
        ("", "empty file"),
    ],
)
def test_wrong_labels_are_named(tmp_path, text, message):
    path = put(tmp_path, data=LONG, who=text)
    with pytest.raises(ReadError, match=message):
        read(path, id="rec", labels=tmp_path / "who.csv")


def test_an_id_twice_with_one_label_is_no_contradiction(tmp_path):
    path = put(tmp_path, data=LONG, who="id,target\nP1,a\nP2,b\nP3,b\nP1,a\n")
    assert labels(read(path, id="rec", labels=tmp_path / "who.csv")) == ["a", "b", "b"]


def test_labels_need_ids(tmp_path):
    path = put(tmp_path, data="t,x\n0,1\n1,2\n", who="id,target\nP1,a\n")
    with pytest.raises(ReadError, match="series that have no ids"):
        read(path, labels=tmp_path / "who.csv")


def test_labels_for_a_folder_by_any_name(tmp_path):
    folder = tmp_path / "recordings"
    folder.mkdir()
    put(folder, b="time,x\n0,1\n", a="time,x\n0,2\n")
    put(tmp_path, who="file;outcome\na.csv;ill\nb.csv;well\n")
    data = read(folder, labels=tmp_path / "who.csv", labels_id="file", target="outcome")
    assert (data.series.ids.tolist(), labels(data)) == (["a", "b"], ["ill", "well"])


def test_labels_for_files_of_another_format(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.ts").write_text(as_ts(make_dataset(3, samples=1)))
    put(tmp_path, labels="id,target\na,ill\nb,well\n")
    assert labels(read(tmp_path)) == ["ill", "well"]
