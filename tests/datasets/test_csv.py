"""Tables in text: long and wide, with dates, gaps, and columns that are known or named."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde.datasets import ReadError, read

from .examples import as_long, assert_same, datasets, labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("csv")


@given(
    data=datasets(),
    delimiter=st.sampled_from(",;\t|"),
    missing=st.sampled_from(["", "?", "NaN", "NA", "null", "#N/A", " n/A "]),
    mark=st.booleans(),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_long_tables_are_read_as_written(folder, data, delimiter, missing, mark, newline):
    path = folder / "long.csv"
    text = as_long(data, delimiter, missing).replace("\n", newline)
    path.write_bytes(text.encode("utf-8-sig" if mark else "utf-8"))
    again = read(path, wide=False)
    assert_same(again, data)
    assert again.series.ids.tolist() == [f"sample {i}" for i in range(len(data))]


def write(tmp_path, text, name="one.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_rows_in_any_order_and_columns_by_their_names(tmp_path):
    path = write(tmp_path, "who,when,hr,ward,ill\n2,1.5,70,a,yes\n1,0,60,b,no\n2,0.5,?,a,yes\n1,2,61,b,\n")
    data = read(path, id="who", time="when", columns=["hr"], target="ill", group="ward")
    assert data.series.ids.tolist() == ["2", "1"]
    np.testing.assert_array_equal(data.series.values[..., 0], [[np.nan, 70], [60, 61]])
    assert labels(data) == ["yes", "no"]
    assert data.groups.tolist() == ["a", "b"]


def test_dates_are_seconds(tmp_path):
    path = write(tmp_path, "id,time,x\na,2024-03-01T00:00:00.5,1\na,2024-02-28,2\n")
    series = read(path).series
    assert np.diff(series.times[0]).tolist() == [2 * 86400 + 0.5]  # a leap year
    assert series.values[0, :, 0].tolist() == [2, 1]


def test_a_target_at_each_point_is_asked_for(tmp_path):
    path = write(tmp_path, "id,time,x,label\na,1,5,on\na,0,6,off\na,2,7,\nb,0,8,on\n")
    with pytest.raises(ReadError, match=r"for id a both .* Write per_time=True"):
        read(path)
    data = read(path, per_time=True)
    assert data.classes == ("off", "on")
    assert data.target.tolist() == [[0, 1, -1], [1, -1, -1]]
    numbers = write(tmp_path, "id,time,x,y\na,1,5,0.5\na,0,6,-1\nb,0,8,2\n")
    target = read(numbers, target="y", per_time=True).target
    np.testing.assert_array_equal(target, [[[-1], [0.5]], [[2], [np.nan]]])


def test_wide_tables_with_a_header(tmp_path):
    path = write(tmp_path, "label,patient,split,0,1,2\nup,p1,train,1,2,3\ndown,p2,test,4,,\nup,p1,test,?,6\n")
    data = read(path)
    assert data.series.lengths.tolist() == [3, 1, 2]
    assert labels(data) == ["up", "down", "up"]
    assert data.groups.tolist() == ["p1", "p2", "p1"]
    assert data.split.tolist() == ["train", "test", "test"]
    np.testing.assert_array_equal(data.series.values[2, :2, 0], [np.nan, 6])


def test_wide_tables_without_a_header_as_the_archives_have_them(tmp_path):
    path = write(tmp_path, "1\t0.5\t0.6\n-1\t0.7\t0.8\t0.9\n", "ArrowHead_TRAIN.tsv")
    data = read(path, target=0)
    assert data.classes == ("-1", "1")
    assert data.series.lengths.tolist() == [2, 3]
    assert data.series.values[1, :, 0].tolist() == [0.7, 0.8, 0.9]
    assert read(path, wide=True).target is None


def test_a_table_without_ids_is_one_series_if_it_has_times_or_is_said_to_be(tmp_path):
    assert len(read(write(tmp_path, "time,x,y\n0,1,2\n1,3,4\n"))) == 1
    path = write(tmp_path, "x,y\n1,2\n3,4\n")
    assert read(path).series.values.shape == (1, 2, 2)
    assert read(path, wide=True).series.values.shape == (2, 2, 1)


def test_none_may_be_a_class(tmp_path):
    assert labels(read(write(tmp_path, "label,0,1\nnone,1,2\nNA,3,4\n-,5,6\n"))) == ["none", "NA", "-"]


def test_the_row_numbers_of_pandas_are_no_channel(tmp_path):
    data = read(write(tmp_path, ",id,time,x\n0,a,0,1\n1,a,1,2\n"))
    assert data.series.channels == ("x",)


def test_remarks_empty_lines_quotes_and_gzip(tmp_path):
    path = tmp_path / "one.csv.gz"
    path.write_bytes(gzip.compress(b'# remark\n\nid,time,"x, y"\n"a, b",0,1\n\n"a, b",1,2\n,,\n'))
    data = read(path)
    assert data.series.ids.tolist() == ["a, b"]
    assert data.series.channels == ("x, y",)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,time,x\na,0,1\na,1,high\n", {}, "line 3: Got 'high' in column 'x'; expected a number"),
        ("id,time,x\na,soon,1\n", {}, "line 2: Got 'soon' in column 'time'; expected a number, or a date"),
        ("id,time,x\na,,1\n", {}, "line 2: Got no time in column 'time'; expected one in every row"),
        ("id,time,x\na,0,1\na,0,2\n", {}, "line 3: Got the time 0 twice for id a"),
        ("id,time,x\na,0,1\na,1\n", {}, "line 3: Got 2 cells in a row; expected 3"),
        ("id,time,x\na,0,1\na,1,2,3\n", {}, "line 3: Got 4 cells in a row; expected 3"),
        ("id,time,x\na,0\n", {}, "line 2: Got 2 cells in a row; expected 3"),
        ("x,y\nup,1\ndown\n", {"one_hot": True}, "line 3: Got 1 cells in a row; expected 2"),
        ("id,time,x,x\na,0,1,2\n", {}, "line 1: Got the column 'x' twice"),
        ("id,time,x,\na,0,1,2\n", {}, "line 2: Got 4 cells in a row; expected 3"),
        ("id,time,,x\na,0,1,2\n", {}, "line 1: Got no name for column 2"),
        ("id,time\na,0\n", {}, "expected a channel"),
        ("id,time,x\n", {}, "no rows"),
        ("#\n\n", {}, "only comments"),
        ("id,time,x\na,0,1\n,1,2\n", {}, "row without 'id'"),
        ("id,time,x,label\na,0,1,up\nb,0,1,\n", {}, "nothing for id b in column 'label'"),
        ("id,time,x,label\na,0,1,up\n", {"task": "regression"}, "'up' in a regression"),
        ("id,time,x\na,0,1\n", {"target": "ill"}, "target='ill' and the columns"),
        ("id,time,x\na,0,1\n", {"columns": ["z"]}, "Got no column .'z'."),
        ("id,time,x\na,0,1\n", {"target": "x", "time": "x"}, "one column for two"),
        ("id,time,x\na,0,1\n", {"wide": True}, "wide=False"),
        ("id,time,x\na,0,1\n", {"per_time": True}, "without a target"),
        ("0,1\n1,2\n", {"per_time": True, "wide": True}, "row per point"),
        ("id,time,x\na,0,1e999\n", {}, "infinity"),
        ("id,time,x\na,2024-01-01,1\na,2024-01-02T00:00Z,1\n", {}, "with and without a time zone"),
        ('id,time,x\n"a,0,1\n', {}, "line 2: Got a quote in .* that does not end"),
    ],
)
def test_wrong_tables_are_named(tmp_path, text, options, message):
    with pytest.raises(ReadError, match=message):
        read(write(tmp_path, text), **options)


def test_many_rows(tmp_path):
    rng = np.random.default_rng(0)
    rows = 50_000
    values = rng.normal(size=rows)
    lines = [f"{i // 1000},{i % 1000},{value!r}" for i, value in enumerate(values.tolist())]
    series = read(write(tmp_path, "id,t,x\n" + "\n".join(lines))).series
    assert series.lengths.tolist() == [1000] * 50
    np.testing.assert_array_equal(series.values.ravel(), values)
    lines[43_210] = "43,210,oops"
    with pytest.raises(ReadError, match="line 43212: Got 'oops'"):
        read(write(tmp_path, "id,t,x\n" + "\n".join(lines)))


def test_a_sign_that_looks_like_a_comment(tmp_path):
    """Comments come before the table; in it, # is a character as any other."""
    path = tmp_path / "x.csv"
    for quoted in ("#2", '"#2"'):
        path.write_text(f"# a; remark\nid,x\n#1,1\n#1,2\n{quoted},3\n{quoted},4\n")
        assert read(path).series.ids.tolist() == ["#1", "#2"]


def test_whole_numbers_are_the_same_class_however_they_are_spelled(tmp_path):
    (tmp_path / "x.csv").write_text("id,time,x,label\na,0,1,1\nb,0,1,1.0\nc,0,1,0.0\n")
    assert read(tmp_path / "x.csv", task="classification").classes == ("0", "1")
    (tmp_path / "x.csv").write_text("id,time,x,label\na,0,1,01\nb,0,1,02\n")
    assert read(tmp_path / "x.csv").classes == ("01", "02")
    (tmp_path / "x.csv").write_text("id,time,x,label\na,0,1,1.0\nb,0,1,0.5\n")
    assert read(tmp_path / "x.csv", task="classification").classes == ("0.5", "1")  # whatever else is there


@given(
    cells=st.lists(
        st.text(st.sampled_from('ab1,;"\n\r #?'), min_size=1, max_size=6).filter(
            lambda text: text.strip().lower() not in ("", "?", "nan")
        ),
        min_size=2,
        max_size=5,
        unique_by=str.strip,
    ),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_quoted_cells_of_any_content_are_read_as_written(folder, cells, newline):
    """Line breaks, delimiters and quotes within quotes, also lines such as `,,` that look empty."""
    path = folder / "quoted.csv"
    quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
    path.write_bytes(newline.join(["id,time,x", *(f"{cell},{i},{i}.5" for i, cell in enumerate(quoted))]).encode())
    data = read(path)
    assert data.series.ids.tolist() == [cell.strip() for cell in cells]
    assert data.series.values[:, 0, 0].tolist() == [i + 0.5 for i in range(len(cells))]


def test_lines_are_counted_through_quoted_cells(tmp_path):
    path = write(tmp_path, '# by "hand\nid,time,x\n"a\n\n,,\nb",0,1\n\nc,0,oops\n')
    with pytest.raises(ReadError, match="line 8: Got 'oops'"):
        read(path)


def test_empty_columns_of_spreadsheets(tmp_path):
    data = read(write(tmp_path, "id;time;x;;\na;0;1;;\na;1;2\na;2;3;;;;\n"))
    assert data.series.channels == ("x",)
    assert data.series.lengths.tolist() == [3]


def test_a_header_without_names_and_dates_is_none(tmp_path):
    data = read(write(tmp_path, "2024-01-01,1.5\n2024-01-02,2.5\n"), time=0)
    assert data.series.values[0, :, 0].tolist() == [1.5, 2.5]


def test_a_gzip_file_that_breaks_off_or_is_altered_is_named(tmp_path):
    packed = gzip.compress(b"id,time,x\n" + b"".join(b"a,%d,%d\n" % (i, i * i % 977) for i in range(20_000)))
    path = tmp_path / "one.csv.gz"
    rng = np.random.default_rng(0)
    broken = [packed[: len(packed) // 2], packed[:-4]]
    for _ in range(20):
        altered = bytearray(packed)
        altered[int(rng.integers(20, len(packed)))] ^= 1 << int(rng.integers(8))
        broken.append(bytes(altered))
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(ReadError, match="damaged"):
            read(path)


def test_old_encodings_in_any_row(tmp_path):
    path = tmp_path / "one.csv"
    path.write_bytes("id,time,größe\nMüller,0,1\n".encode("latin-1") + b"x,0,2\n" * 1)
    data = read(path)
    assert data.series.channels == ("größe",)
    assert data.series.ids.tolist() == ["Müller", "x"]


def test_a_trailing_zero_byte_tells_ids_apart(tmp_path):
    filler = "".join(f"f{i},0,1\n" for i in range(2000))  # beyond the 8 kB in which binary files are noticed
    data = read(write(tmp_path, f"id,time,x\n{filler}a,0,1\na\0,0,2\n"))
    assert len(data) == 2002


@pytest.mark.parametrize("text", ['a,b\n1,2\n\n"', 'a,b\n"', '""\n', '"\n"\n'])
def test_quotes_and_nothing_else(tmp_path, text):
    """Found by the fuzzer: a raw IndexError and a StopIteration."""
    path = tmp_path / "quotes.csv"
    path.write_text(text)
    with pytest.raises(ReadError):
        read(path)
