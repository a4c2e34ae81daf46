"""JSON lines: a row or a series per line; what is wrong is named by its line."""

import gzip
import json

import numpy as np
import pytest

from neuralrde.datasets import ReadError, column_names, read

LONG = [
    {"id": "a", "time": 0, "x": 1.5, "label": "run"},
    {"id": "a", "time": 1, "x": None, "label": "run"},
    {"id": "b", "time": 0, "x": 2, "label": "walk"},
]
SERIES = [
    {"id": "a", "x": [1, 2.5, None], "y": [0, 1, 2], "label": "run"},
    {"id": "b", "x": [4, 5], "y": [7, 8], "label": "walk"},
]


def put(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_row_per_point(tmp_path):
    path = put(tmp_path / "points.jsonl", LONG)
    data = read(path)
    assert column_names(path) == ["id", "time", "x", "label"]
    assert data.series.ids.tolist() == ["a", "b"]
    assert data.series.lengths.tolist() == [2, 1]
    np.testing.assert_array_equal(data.series.values[0, :, 0], [1.5, np.nan])
    assert (data.classes, data.target.tolist()) == (("run", "walk"), [0, 1])
    assert data.reading.startswith("long table, 2 series by `id`, time from `time` (numbers), channels x")


def test_a_series_per_line(tmp_path):
    data = read(put(tmp_path / "series.jsonl", SERIES))
    assert data.series.channels == ("x", "y")
    np.testing.assert_array_equal(data.series.values[0], [[1, 0], [2.5, 1], [np.nan, 2]])
    np.testing.assert_array_equal(data.series.values[1, :2], [[4, 7], [5, 8]])
    assert data.target.tolist() == [0, 1]


def test_times_in_lists_may_be_dates(tmp_path):
    rows = [{"time": ["2024-01-01", "2024-01-01 00:01:00"], "x": [1, 2]}]
    data = read(put(tmp_path / "dates.jsonl", rows))
    assert data.series.times[0].tolist() == [1704067200, 1704067260]
    assert data.time_unit == "seconds since 1970"


def test_a_name_may_be_absent_from_a_line_and_the_file_gzipped(tmp_path):
    rows = [{"time": 0, "x": 1}, {"time": 1, "y": 2}, {"time": 2, "x": "3", "y": 4}]
    text = "\n\n".join(map(json.dumps, rows))
    path = tmp_path / "rows.ndjson.gz"
    path.write_bytes(gzip.compress(text.encode()))
    np.testing.assert_array_equal(read(path).series.values[0], [[1, np.nan], [np.nan, 2], [3, 4]])


def test_it_is_known_by_its_content_in_folders_and_as_labels(tmp_path):
    folder = tmp_path / "walks"
    folder.mkdir()
    for name in ("one", "two"):
        put(folder / f"{name}.txt", [{"time": t, "x": t} for t in range(3)])
    labels = put(tmp_path / "labels.jsonl", [{"id": "one", "target": 0.5}, {"id": "two", "target": 1.5}])
    data = read(folder, labels=labels)
    assert data.series.ids.tolist() == ["one", "two"]
    assert data.target.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"x": 1}\n{"x": 2', "line 2: Got no JSON"),
        ('{"x": 1}\n[1, 2]\n', r"line 2: Got '\[1, 2\]'; expected an object"),
        ("[" * 100_000, "line 1: Got no JSON"),
        ("\n \n", "Got no objects"),
        ('{"x": {"y": 1}}', "line 1: Got an object in 'x'"),
        ('{"id": ["a"], "x": [1]}', "line 1: Got a list in 'id'"),
        ('{"x": [1]}\n{"x": [1, "a"]}', "line 2: Got 'a' in column 'x'; expected a number"),
        ('{"time": ["soon"], "x": [1]}', "line 1: Got 'soon' in column 'time'; expected a number, or a date"),
        ('{"x": [1], "y": [1, 2]}', "no list as long as that of 'x'"),
        ('{"x": [1]}\n{"x": 2}', "line 2: Got for series 1 in column 'x' no list"),
        ('{"time": 0, "x": 1}\n{"time": 1, "x": "hot"}', "line 2: Got 'hot' in column 'x'; expected a number"),
        (f'{{"time": 0, "x": 1{"0" * 400}}}', "line 1: Got infinity in column 'x'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    with pytest.raises(ReadError, match=message):
        read(path)
