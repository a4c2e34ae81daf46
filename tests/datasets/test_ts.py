"""The .ts reader: what is written is read again, and aeon agrees where it can read at all."""

import gzip
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde.datasets import ReadError, read, read_ts
from neuralrde.paths import checks

from .examples import as_ts, assert_same, datasets, labels, make_dataset

TIMED = "@timestamps true\n@classlabel true a b\n@data\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ts")


@given(
    data=datasets(),
    missing=st.sampled_from(["?", "NaN", "nan", "", " NA "]),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_what_was_written_is_read(folder, data, missing, newline):
    path = folder / "example.ts"
    path.write_bytes(as_ts(data, missing).replace("\n", newline).encode())
    assert_same(read(path), data)
    assert read(path).name == "example"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings_marks_and_gzip(tmp_path, encoding):
    data = make_dataset(0)
    text = "#Jürgen's données\n" + as_ts(data).replace("cat", "chaté").replace("Dog", "Hünd")
    for path, pack in ((tmp_path / "a.ts", bytes), (tmp_path / "a.ts.gz", gzip.compress)):
        path.write_bytes(pack(text.encode(encoding)))
        assert set(labels(read(path))) <= {"chaté", "Hünd", "nanny"}


def write(tmp_path, body, header="@timeStamps false\n@classLabel true a b\n@data\n"):
    path = tmp_path / "one.ts"
    path.write_text(header + body)
    return path


def test_channels_with_times_of_their_own_are_joined(tmp_path):
    path = write(
        tmp_path,
        "(0,1),(2,-3):(1,5),(2,7):a\n(5,1):():b\n",
        TIMED,
    )
    series = read(path).series
    assert series.times[0].tolist() == [0, 1, 2]
    np.testing.assert_array_equal(series.values[0], [[1, np.nan], [np.nan, 5], [-3, 7]])
    np.testing.assert_array_equal(series.values[1, :1], [[1, np.nan]])


def test_dates_become_seconds(tmp_path):
    body = "(2007-01-01 00:00:00,241.97),(2007-01-01 00:01:00,-241):a\n"
    body += "(2007-01-01T00:00:00Z,1),(2007-01-02T00:00:00+00:00,2):b\n"
    series = read(write(tmp_path, body, TIMED)).series
    assert np.diff(series.times, axis=1)[:, 0].tolist() == [60, 86400]
    assert series.times[0, 0] == np.datetime64("2007-01-01").astype("M8[s]").astype(float)
    assert series.values[0, :, 0].tolist() == [241.97, -241]


def test_headers_may_contradict_the_data_and_spell_classes_differently(tmp_path):
    header = "@univariate true\n@equalLength true\n@seriesLength 9\n@missing false\n"
    header += "@classLabel true 1 2 Run\n@data\n"
    data = read(write(tmp_path, "1,2,?:3,4,5:1.0\n# a remark\n\n1,2:3,4:run\n", header))
    assert data.series.lengths.tolist() == [3, 2]
    assert labels(data) == ["1", "Run"]
    assert data.classes == ("1", "2", "Run")


def test_gaps_at_the_end_are_padding_only_without_times(tmp_path):
    assert read(write(tmp_path, "1,?,3,?,NaN:?,?,?,?,?:a\n")).series.lengths.tolist() == [3]
    timed = write(tmp_path, "(0,1),(1,?):a\n", TIMED)
    assert read(timed).series.lengths.tolist() == [2]


def test_no_target_and_another_task(tmp_path):
    assert read(write(tmp_path, "1,2\n3,4\n", "@classLabel false\n@data\n")).target is None
    path = write(tmp_path, "1,2:3\n3,4:5\n", "@classLabel true 3 5\n@data\n")
    assert read(path, task="regression").target.tolist() == [3.0, 5.0]
    path = write(tmp_path, "1,2:3\n3,4:5\n", "@targetLabel true\n@data\n")
    assert read(path).target.tolist() == [3.0, 5.0]
    assert read(path, task="classification").classes == ("3", "5")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("1,2:a\n1,2:3,4:a\n", "line 5: Got 2 channels beside 1 in line 4"),
        ("1,2:a\n1,2\n", "line 5: Got 0 channels beside 1"),
        ("a\n", "line 4: Got a label without a series"),
        ("1,2:c\n", "line 4: Got the label 'c'; expected one of .'a', 'b'."),
        ("1,2:?\n", r"line 4: Got the label '\?'"),
        ("1,2:\n", "line 4: Got the label ''"),
        ("1,x:a\n", "line 4: Got 'x'; expected numbers"),
        ("1,2:1,2,3:a\n", r"line 4: Got channels of the lengths \[2, 3\]"),
        ("1,inf:a\n", "infinity"),
        ("", "no series"),
    ],
)
def test_wrong_lines_are_named(tmp_path, body, message):
    with pytest.raises(ReadError, match=message):
        read(write(tmp_path, body))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("(0,1),(0,2):a\n", "line 4: Got a time twice in channel 0"),
        ("0,1:a\n", "line 4: Got '01'; expected points"),
        ("(soon,1):a\n", "line 4: Got the time 'soon'"),
        ("(0,1),(2024-01-01,2):a\n", "line 4: Got the time '0'"),
        ("(2024-01-01,1),(2024-01-01T12:00Z,2):a\n", "line 4: Got dates with and without a time zone"),
        ("():a\n", "without points"),
    ],
)
def test_wrong_time_stamps_are_named(tmp_path, body, message):
    with pytest.raises(ReadError, match=message):
        read(write(tmp_path, body, TIMED))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@classLabel true a\n1,2:a\n", "line 2: Got '1,2:a'; expected a header"),
        ("@classLabel true a\n", "no line `@data`"),
        ("1,2:a\n", "expected a header"),
    ],
)
def test_wrong_headers_are_named(tmp_path, text, message):
    path = tmp_path / "one.ts"
    path.write_text(text)
    with pytest.raises(ReadError, match=message):
        read(path)


def test_targets_that_are_no_numbers(tmp_path):
    with pytest.raises(ReadError, match="line 3: Got the target 'high'"):
        read(write(tmp_path, "1,2:high\n", "@targetLabel true\n@data\n"))


@pytest.mark.parametrize("target", ["inf", "-inf", "1e999", "1" * 400])
def test_infinite_targets_name_the_file(tmp_path, target):
    with pytest.raises(ReadError, match=r"one\.ts.*infinite target"):
        read(write(tmp_path, f"1,2:{target}\n", "@targetLabel true\n@data\n"))


@pytest.mark.parametrize("label", ["1" * 400 + ".0", "1" * 5000 + ".0", "1e999"])
def test_labels_of_many_digits_are_labels(tmp_path, label):
    path = write(tmp_path, f"1,2:{label}\n3,4:2\n", "@targetLabel true\n@data\n")
    assert len(read(path, task="classification").classes) == 2


def test_series_that_padding_would_make_too_large_are_refused(tmp_path):
    # One of 600,000 points and 30,000 of one: 1.3 MB of text, 134 GiB with padding.
    path = write(tmp_path, ",".join("1" * 600_000) + ":a\n" + "1:b\n" * 30_000)
    with pytest.raises(ReadError, match=r"one\.ts: 30,001 series of 1 to 600,000 points .* GiB"):
        read(path)


def test_padding_is_checked_against_free_memory(tmp_path, monkeypatch):
    path = write(tmp_path, ",".join("1" * 1000) + ":a\n" + "1:b\n" * 1000)
    assert read(path).series.values.shape == (1001, 1000, 1)
    monkeypatch.setattr(checks, "free_memory", lambda: 10**7)
    monkeypatch.setattr(checks, "SMALL", 0)
    with pytest.raises(ReadError, match=r"one\.ts: 1,001 series of 1 to 1,000 points"):
        read(path)


@pytest.mark.long
def test_a_long_line_takes_no_more_than_a_few_times_its_numbers(tmp_path):
    points = 2_000_000
    path = write(tmp_path, "0.5," * (points - 1) + "?,1:a\n")
    tracemalloc.start()
    assert read(path).series.lengths.tolist() == [points + 1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A number has 8 bytes, and padding takes five times that at its peak. Lists of cells alone would take 108.
    assert peak < 64 * points


def test_a_small_gzip_file_of_gigabytes_is_refused(tmp_path):
    path = tmp_path / "bomb.ts.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"@classLabel true a\n@data\n")
        for _ in range(200):
            file.write(b"0," * (1 << 19))
        file.write(b"0:a\n")
    with pytest.raises(ReadError, match=r"bomb\.ts\.gz: Got .* bytes that unpack to more than .*Unpack it"):
        read(path)


def test_damaged_gzip_files_are_named(tmp_path):
    data = make_dataset(0, samples=200)
    whole = gzip.compress(as_ts(data).encode())
    path = tmp_path / "bad.ts.gz"
    places = [10, 12, 100, len(whole) // 2, len(whole) - 6, len(whole) - 1]
    changed = [bytes([*whole[:at], whole[at] ^ 255, *whole[at + 1 :]]) for at in places]
    cut = [whole[:at] for at in (3, 20, len(whole) // 2, len(whole) - 3)]
    for content in [*changed, *cut, whole + b"rubbish", whole + b"\x1f\x8b"]:
        path.write_bytes(content)
        for reader in (read, read_ts):
            with pytest.raises(ReadError, match=r"bad\.ts\.gz: Got a damaged"):
                reader(path)


@pytest.mark.parametrize("name", ["../../outside", "/etc/passwd", "..", "a/b/../", ". .", "x" * 5000])
def test_a_name_in_the_file_names_no_folder(tmp_path, name):
    data = read(write(tmp_path, "1,2:a\n", f"@problemName {name}\n@classLabel true a\n@data\n"))
    assert data.name in ("outside", "passwd", "one", "x" * 60)


def test_lines_of_many_colons_take_no_quadratic_time(tmp_path):
    path = write(tmp_path, ":" * 200_000 + "\n", TIMED)
    start = time.process_time()
    with pytest.raises(ReadError):
        read(path)
    assert time.process_time() - start < 10  # linear, it takes one second; quadratic, it took 26


def test_aeons_own_files_are_read_as_aeon_reads_them():
    aeon = pytest.importorskip("aeon.datasets", reason="aeon, the oracle, is not installed")
    for name in ("JapaneseVowels", "BasicMotions", "CardanoSentiment", "PickupGestureWiimoteZ"):
        path = Path(aeon.__file__).parent / "data" / name / f"{name}_TRAIN.ts"
        arrays, target = aeon.load_from_ts_file(str(path))
        ours = read(path)
        assert ours.series.lengths.tolist() == [array.shape[1] for array in arrays]
        for i, array in enumerate(arrays):
            np.testing.assert_array_equal(ours.series.values[i, : array.shape[1]], array.T)
        assert [str(label).lower() for label in labels(ours)] == [str(label) for label in target]


def test_aeon_reads_the_same(folder):
    aeon = pytest.importorskip("aeon.datasets", reason="aeon, the oracle, is not installed")
    for task in ("classification", "regression"):
        data = make_dataset(3, samples=20, length=30, timed=False, task=task, missing=0.1)
        path = folder / "oracle.ts"
        path.write_text(as_ts(data, "NaN").replace("@data", "@univariate false\n@equalLength false\n@data"))
        arrays, target = aeon.load_from_ts_file(str(path))
        ours = read_ts(path)
        for i, array in enumerate(arrays):
            np.testing.assert_array_equal(ours.series.values[i, : array.shape[1]], array.T)
        # aeon turns labels into small letters and "nan" in them into "NaN".
        assert [str(label).lower() for label in labels(ours)] == [str(label).lower() for label in target]
