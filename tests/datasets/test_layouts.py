"""Tables as people have them: what a row is, which columns are channels, and what is said of it in one line."""

import tracemalloc

import numpy as np
import pytest

from neuralrde.datasets import ReadError, read

from .examples import labels


def write(tmp_path, text, name="one.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_recording_with_named_channels_is_one_series(tmp_path):
    rows = "\n".join(f"{i},{2 * i},{3 * i}" for i in range(1000))
    data = read(write(tmp_path, f"ax,ay,az\n{rows}\n"))
    assert data.series.values.shape == (1, 1000, 3)
    assert data.reading == "long table, one series, channels ax, ay, az"
    assert f"  read as {data.reading}" in data.summary()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x1,x2,x3\n" + "1,2,3\n" * 50, r"wide=True.*wide=False"),
        ("1,2,3\n" * 50, r"wide=True.*wide=False"),
        ("id,mon,tue,wed\na,1,2,3\nb,4,5,6\n", r"wide=True.*wide=False"),
        ("ax,ay,label\n1,2,on\n3,4,off\n", r"per_time=True.*wide=True"),
        ("time,x,subject\n0,1,a\n0,2,b\n", r"Write id='subject'"),
    ],
)
def test_what_nobody_can_tell_is_refused(tmp_path, text, message):
    with pytest.raises(ReadError, match=message):
        read(write(tmp_path, text))


@pytest.mark.parametrize(
    "names",
    [
        [f"{axis}_{i}" for axis in ("acc_x", "acc_y", "gyro") for i in range(12)],
        [f"{axis}_{i}" for i in range(1, 13) for axis in ("acc_x", "acc_y", "gyro")],  # from 1, point by point
        [f"{i}_{axis}" for axis in ("acc_x", "acc_y", "gyro") for i in range(12)],
        [f"{axis}[{i}]" for axis in ("acc_x", "acc_y", "gyro") for i in sorted(range(12), key=str)],  # 0, 1, 10, 11, 2
    ],
)
def test_wide_tables_of_several_channels(tmp_path, names):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 12, 3))
    axes = ["acc_x", "acc_y", "gyro"]
    first = 1 if "acc_x_12" in names else 0

    def cell(row, name):
        axis = next(axis for axis in axes if axis in name)
        number = int("".join(filter(str.isdigit, name)))
        return repr(float(values[row, number - first, axes.index(axis)]))

    lines = [",".join(["id", *names, "label"])]
    lines += [",".join([f"s{i}", *(cell(i, name) for name in names), "ab"[i % 2]]) for i in range(4)]
    data = read(write(tmp_path, "\n".join(lines)))
    assert data.series.channels == tuple(axes)
    np.testing.assert_array_equal(data.series.values, values)
    assert data.reading.startswith("wide table, 4 series, one per row, by `id`, channels acc_x, acc_y, gyro, 12 points")


def test_channels_of_wide_tables_are_as_long_as_each_other(tmp_path):
    path = write(tmp_path, "x_0,x_1,x_2,y_0,y_1\n1,2,3,4,5\n")
    with pytest.raises(ReadError, match="3 of 'x', 2 of 'y'; expected as many"):
        read(path, wide=True)


def test_columns_beside_numbered_ones_are_refused(tmp_path):
    names = ",".join(f"t{i}" for i in range(20))
    path = write(
        tmp_path, f"id,age,{names}\n" + "".join(f"{i},{40 + i}," + ",".join("1" * 20) + "\n" for i in range(3))
    )
    with pytest.raises(ReadError, match=r"Got the columns 20 of 't', and \['age'\].*static=.*columns="):
        read(path, wide=True)
    assert read(path, static=["age"]).series.values.shape == (3, 20, 1)


@pytest.mark.parametrize("name", ["Unnamed: 0", ""])
def test_row_numbers_are_left_out_with_a_word(tmp_path, name):
    data = read(write(tmp_path, f"{name},id,time,x\n7,a,0,1\n3,a,1,2\n"))
    assert data.series.channels == ("x",)
    assert "`Unnamed: 0` left out (row numbers)" in data.reading
    kept = read(write(tmp_path, f"{name or 'n'},id,time,x\n7,a,0,1\n3,a,1,2\n"), columns=[name or "n", "x"])
    assert kept.series.channels == (name or "n", "x")


def test_dates_without_a_name_are_the_times(tmp_path):
    """As pandas writes a frame whose index is dates."""
    data = read(write(tmp_path, ",x\n2024-01-01 00:00:00,1\n2024-01-01 00:00:05,2\n"))
    assert np.diff(data.series.times[0]).tolist() == [5.0]
    with pytest.raises(ReadError, match=r"first column without a name, and 'P1' in it.*id='Unnamed: 0'"):
        read(write(tmp_path, ",x\nP1,1\nP2,2\n"))
    assert len(read(write(tmp_path, ",x\nP1,1\nP2,2\n"), id="Unnamed: 0", wide=False)) == 2


def test_what_never_changes_within_a_series_is_said(tmp_path):
    data = read(write(tmp_path, "id,t,x,age,z\na,0,1,40,1\na,1,2,40,\na,2,3,,\nb,0,3,50,2\nb,1,4,50,\n"))
    assert data.series.channels == ("x", "age", "z")
    assert "constant within each series: age (columns=[...] leaves columns out)" in data.reading


def test_a_column_taken_for_the_time_is_said(tmp_path):
    assert "time from `T` (numbers)" in read(write(tmp_path, "id,T,x\na,0,1\na,1,2\n")).reading
    path = write(tmp_path, "T,x\n21.5,1\n20,2\n21.5,3\n")
    with pytest.raises(ReadError, match="The column 'T' was taken for the time by its name"):
        read(path)
    assert read(path, columns=["T", "x"]).series.values[0, :, 0].tolist() == [21.5, 20, 21.5]


def test_duplicated_times(tmp_path):
    path = write(
        tmp_path,
        "id,time,x,y\nP1,2024-02-28 12:00:00,1,\nP2,2024-02-28 12:00:00,5,6\nP1,2024-02-28 13:00:00,7,8\n"
        "P1,2024-02-28 12:00:00,2,4\n",
    )
    with pytest.raises(
        ReadError, match=r"line 5: Got the time 2024-02-28 12:00:00 twice for id P1; .*duplicates='mean'"
    ):
        read(path)
    for how, x, y in (("mean", 1.5, 4), ("first", 1, np.nan), ("last", 2, 4)):
        data = read(path, duplicates=how)
        np.testing.assert_array_equal(data.series.values[0], [[x, y], [7, 8]])
        assert f"1 rows of duplicated times merged ({how})" in data.reading
    with pytest.raises(ReadError, match="duplicates='median'"):
        read(path, duplicates="median")


def test_melted_tables(tmp_path):
    path = write(
        tmp_path,
        "who,when,sensor,value,ill\na,0,hr,60,no\na,0,bp,120,no\na,1,hr,61,no\nb,5,bp,110,yes\nb,4,hr,80,yes\n",
    )
    data = read(path, id="who", time="when", sensor="sensor", target="ill")
    assert data.series.channels == ("hr", "bp")
    np.testing.assert_array_equal(data.series.values, [[[60, 120], [61, np.nan]], [[80, np.nan], [np.nan, 110]]])
    assert data.series.times.tolist() == [[0, 1], [4, 5]]
    assert labels(data) == ["no", "yes"]
    assert data.reading.startswith("melted table, 2 series by `who`, time from `when`")
    assert read(path, id="who", time="when", sensor="sensor", value="value", columns=["hr"]).series.channels == ("hr",)
    with pytest.raises(ReadError, match=r"Got no sensor .'spo2'."):
        read(path, id="who", time="when", sensor="sensor", columns=["spo2"])
    with pytest.raises(ReadError, match="expected time="):
        read(path, id="who", sensor="sensor", columns=["hr"])
    with pytest.raises(ReadError, match=r"Got 'hr' in column 'sensor'.*the table is melted \(sensor="):
        read(path, id="who", time="when", target="ill")
    again = write(tmp_path, "id,time,sensor,value\na,0,hr,60\na,0,hr,62\n")
    with pytest.raises(ReadError, match="Got the time 0 twice for id a, sensor hr"):
        read(again, sensor="sensor")
    assert read(again, sensor="sensor", duplicates="mean").series.values.tolist() == [[[61]]]


def test_words_become_a_channel_each(tmp_path):
    path = write(tmp_path, "id,time,x,posture\na,0,1,sit\na,1,2,walk\nb,0,3,\n")
    with pytest.raises(
        ReadError, match=r"line 2: Got 'sit' in column 'posture'.*columns=\[...\].*one_hot=\['posture'\]"
    ):
        read(path)
    for asked in (["posture"], True):
        data = read(path, one_hot=asked)
        assert data.series.channels == ("x", "posture=sit", "posture=walk")
        np.testing.assert_array_equal(data.series.values[0], [[1, 1, 0], [2, 0, 1]])
        np.testing.assert_array_equal(data.series.values[1, 0], [3, np.nan, np.nan])
    # Another file, with the channels of the first.
    new = write(tmp_path, "id,time,x,posture\nc,0,1,walk\n")
    data = read(new, columns=["x", "posture=sit", "posture=walk"])
    assert data.series.values.tolist() == [[[1, 0, 1]]]
    data = read(new, columns=["posture=walk", "x", "posture=sit"])  # in the order asked for
    assert data.series.channels == ("posture=walk", "x", "posture=sit")
    assert data.series.values.tolist() == [[[1, 1, 0]]]
    with pytest.raises(ReadError, match=r"Got 'fall' in column 'posture'; expected one of .'sit', 'walk'."):
        read(write(tmp_path, "id,time,x,posture\nc,0,1,fall\n"), columns=["x", "posture=sit", "posture=walk"])


def test_several_targets(tmp_path):
    path = write(tmp_path, "id,time,x,hr,age\na,0,1,60,40\na,1,2,60,40\nb,0,3,70.5,50\n")
    data = read(path, target=["hr", "age"])
    assert data.task == "regression"
    assert data.target.tolist() == [[60, 40], [70.5, 50]]
    assert data.series.channels == ("x",)
    assert "targets `hr`, `age` (real numbers)" in data.reading
    points = write(tmp_path, "id,time,x,hr,age\na,0,1,60,40\na,1,2,61,\n", "two.csv")
    np.testing.assert_array_equal(read(points, target=["hr", "age"], per_time=True).target, [[[60, 40], [61, np.nan]]])
    with pytest.raises(ReadError, match="expected one, or task='regression'"):
        read(path, target=["hr", "age"], task="classification")


def test_series_without_a_label(tmp_path):
    path = write(tmp_path, "id,time,x,label\na,0,1,up\nb,0,2,\nc,0,3,down\nd,0,4,\n")
    with pytest.raises(ReadError, match=r"nothing for id b \(and 1 more\) in column 'label'.*drop_unlabelled=True"):
        read(path)
    data = read(path, drop_unlabelled=True)
    assert data.series.ids.tolist() == ["a", "c"]
    assert labels(data) == ["up", "down"]
    assert "2 series without a target left out" in data.reading
    # Nobody is labelled yet: data to predict.
    assert read(write(tmp_path, "id,time,x,label\na,0,1,\nb,0,2,\n")).target is None


def test_points_without_a_class_are_taken(tmp_path):
    data = read(write(tmp_path, "id,time,x,label\na,0,1,\na,1,2,on\nb,0,3,\n"), per_time=True)
    assert data.target.tolist() == [[-1, 0], [-1, -1]]
    assert len(read(tmp_path / "one.csv", per_time=True, drop_unlabelled=True)) == 1


@pytest.mark.parametrize(
    ("cells", "task", "said"),
    [
        (["1.0", "2.0", "3.0"] * 5, "classification", "3 classes: 3 distinct whole numbers"),
        (["1", "2", "3"] * 5, "classification", "task='regression' to change"),
        ([str(age) for age in range(30, 71)], "regression", "real numbers: 41 distinct whole numbers"),
        ([str(60 + i % 30) for i in range(200)], "regression", "task='classification' to change"),
        ([str(i % 39 + 1) for i in range(214)], "classification", "39 classes"),  # as UCR's Phoneme
        (["10", "20", "30"] * 5, "classification", "3 classes"),
        (["0.5", "1.0", "2"], "regression", "(real numbers)"),
        (["01", "02", "13", "44"], "classification", "4 classes: codes such as 01"),
        (["yes", "no"], "classification", "(2 classes)"),
    ],
)
def test_distinct_values_are_counted_before_the_task_is_chosen(tmp_path, cells, task, said):
    rows = "".join(f"s{i},0,1,{cell}\n" for i, cell in enumerate(cells))
    data = read(write(tmp_path, f"id,time,x,label\n{rows}"))
    assert data.task == task
    assert said in data.reading
    other = "regression" if task == "classification" else "classification"
    if cells[0].replace(".", "").isdigit():
        assert read(tmp_path / "one.csv", task=other).task == other


def test_an_endless_label_is_a_class(tmp_path):
    label = "1" * 400
    data = read(write(tmp_path, f"id,time,x,label\na,0,1,{label}.0\nb,0,1,2.0\n"))
    assert data.classes == ("2", label)


@pytest.mark.long
def test_one_long_id_does_not_make_all_ids_long(tmp_path):
    lines = [f"{'a' * 50_000},0,1"] + [f"s{i},0,1" for i in range(40_000)]
    path = write(tmp_path, "id,time,x\n" + "\n".join(lines) + "\n")
    tracemalloc.start()
    data = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(data) == 40_001
    assert len(data.series.ids[0]) == 50_000
    assert peak < 2**28  # 8 GB if all ids were as wide as the widest; measured: some 30 MB


@pytest.mark.long
def test_a_table_that_is_nearly_all_padding_is_refused(tmp_path):
    path = write(tmp_path, ",".join(["1"] * 200_001) + "\n" + "1\n" * 800)
    tracemalloc.start()
    with pytest.raises(ReadError, match=r"nearly all of their cells missing.*long table"):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**27  # the table would take 1.3 GB


def test_what_does_not_fit_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("neuralrde.paths.checks.free_memory", lambda: 2**20)
    text = "id,time,x\n" + "".join(f"a,{i},1\n" for i in range(5000)) + "".join(f"b{i},0,1\n" for i in range(5000))
    with pytest.raises(ReadError, match=r"5,001 series of 1 to 5,000 points .* need .* GiB; this machine has"):
        read(write(tmp_path, text))


def test_what_does_not_go_together_is_refused(tmp_path):
    path = write(tmp_path, "id,time,x\na,0,1\n")
    for options, message in (
        ({"value": "x"}, "sensor="),
        ({"labels_id": "x"}, "labels="),
        ({"decimal": ";"}, "decimal"),
        ({"thousands": ",,"}, "thousands"),
        ({"thousands": ",", "decimal": ","}, "different signs"),
        ({"columns": "x"}, "a list of names"),
        ({"one_hot": ["z"]}, "one_hot"),
        ({"sensor": "x"}, "value="),
    ):
        with pytest.raises(ReadError, match=message):
            read(path, **options)


STAYS = "id,t,x,age,sex,ill\na,0,1,40,f,no\na,1,2,40,f,no\nb,0,3,50,m,yes\nb,1,4,50,m,yes\nb,2,4,,,yes\n"
STAYS += "c,0,5,,,no\nc,1,6,,,no\n"


def test_columns_about_a_series_as_a_whole_are_found(tmp_path):
    file = write(tmp_path, STAYS)
    data = read(file, static=True, target="ill")
    assert data.series.channels == ("x",)
    assert "static, because constant within each series: age, sex" in data.reading
    np.testing.assert_array_equal(data.static["age"], [40, 50, np.nan])
    assert data.static["sex"].fillna("?").tolist() == ["f", "m", "?"]
    named = read(file, static=["sex"], target="ill")
    assert (named.series.channels, list(named.static)) == (("x", "age"), ["sex"])
    assert read(file, static=True, columns=["x", "age"], target="ill").static is None  # they are channels, as asked for
    assert read(file, columns=["x"], target="ill").static is None


def test_what_changes_is_not_about_the_series_as_a_whole(tmp_path):
    file = write(tmp_path, STAYS)
    with pytest.raises(ReadError, match="both '1' and '2' in column 'x'; expected one for all its rows"):
        read(file, static=["x"], columns=["age"])
    with pytest.raises(ReadError, match=r"'old'.*expected the name of one"):
        read(file, static=["old"])
    with pytest.raises(ReadError, match="Got one column for two of"):
        read(file, static=["ill"], target="ill")
    with pytest.raises(ReadError, match="'age' as static and as a channel"):
        read(file, static=["age"], columns=["x", "age"])


def test_rows_without_a_target_leave_with_what_is_known_of_them(tmp_path):
    file = write(tmp_path, STAYS.replace(",yes", ","))
    data = read(file, static=True, drop_unlabelled=True, target="ill")
    assert data.static["sex"].fillna("?").tolist() == ["f", "?"]
