"""Columns of times: numbers, dates and clock times, converted as a whole, and shown as dates again."""

import numpy as np
import pytest

from neuralrde.datasets import ReadError, read


def times(tmp_path, cells, **options):
    rows = "".join(f'a,"{cell}",{i}\n' for i, cell in enumerate(cells))
    (tmp_path / "one.csv").write_text(f"id,time,x\n{rows}")
    return read(tmp_path / "one.csv", **options)


@pytest.mark.parametrize(
    ("cells", "options", "gap", "unit"),
    [
        (["28.02.2024 12:00", "29.02.2024 12:00:00.5"], {}, 86400.5, "seconds since 1970"),
        (["13/02/2024", "01/03/2024"], {}, 17 * 86400, "seconds since 1970"),
        (["02/28/2024 11:30 PM", "03/01/2024 00:30"], {}, 86400 + 3600, "seconds since 1970"),
        (["01/02/2024", "02/02/2024"], {"time_format": "day-first"}, 86400, "seconds since 1970"),
        (["01/02/2024", "02/02/2024"], {"time_format": "month-first"}, 31 * 86400, "seconds since 1970"),
        (["2024/2/28 12:00", "2024/3/1 12:00"], {}, 2 * 86400, "seconds since 1970"),
        (["20240131", "20240201"], {}, 86400, "seconds since 1970"),
        (["20240131", "20240201"], {"time_format": "number"}, 70, None),
        (["20240131", "20240199"], {}, 68, None),  # no date, so none is
        (["202402281200", "202403011200"], {"time_format": "%Y%m%d%H%M"}, 2 * 86400, "seconds since 1970"),
        (["28.02.24 12h", "01.03.24 12h"], {"time_format": "%d.%m.%y %Hh"}, 2 * 86400, "seconds since 1970"),
        (["08:00:00", "08:00:01.5"], {}, 1.5, "seconds since midnight"),
        (["8:00 AM", "1:00 PM"], {}, 5 * 3600, "seconds since midnight"),
        (["08-00", "09-30"], {"time_format": "%H-%M"}, 5400, "seconds since midnight"),
        (["2024-02-28T12:00:00+05:00", "2024-02-28T12:00:00Z"], {}, 5 * 3600, "seconds since 1970"),
        (["3024-02-28", "3024-02-29"], {}, 86400, "seconds since 1970"),  # beyond nanoseconds
        (["0.5", "2"], {}, 1.5, None),
    ],
)
def test_times_of_every_kind(tmp_path, cells, options, gap, unit):
    data = times(tmp_path, cells, **options)
    assert np.diff(data.series.times[0]).tolist() == [gap]
    assert data.time_unit == unit


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (["01/02/2024", "02/02/2024"], {}, "time_format='day-first' or time_format='month-first'"),
        (["13/02/2024", "02/13/2024"], {}, "line 3: Got '02/13/2024'.*a date that exists, day first"),
        (["30.02.2024"], {}, "a date that exists"),
        (["13/13/2024"], {"time_format": "day-first"}, "a date that exists"),
        (["25:00", "26:00"], {}, "a clock time from"),
        (["23:59", "00:01"], {}, "past midnight"),
        (["2024-02-28"], {"time_format": "%d.%m.%Y"}, "in the format '%d.%m.%Y'"),
        (["1"], {"time_format": "dayfirst"}, "time_format='dayfirst'"),
        (["1"], {"time_format": "%Q"}, "time_format='%Q'"),
        (["28.02.24"], {}, "Write its form, such as time_format="),
        (["0", "1", ""], {}, "line 4: Got no time in column 'time'; .* no place on the path"),
    ],
)
def test_times_that_cannot_be_read(tmp_path, cells, options, message):
    with pytest.raises(ReadError, match=message):
        times(tmp_path, cells, **options)


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (lambda i: i, lambda i: f"2024-01-01 {i % 24:02d}:00:00", "numbers or dates"),
        (
            lambda i: f"2024-01-01T00:00:00.{i:06d}+05:00",
            lambda i: f"2024-01-02T00:00:00.{i:06d}",
            "with and without a time zone",
        ),
    ],
)
def test_times_of_two_kinds_are_refused_however_far_apart(tmp_path, first, then, message):
    cells = [first(i) for i in range(20_000)] + [then(i) for i in range(5)]
    with pytest.raises(ReadError, match=rf"line 20002: .*{message}"):
        times(tmp_path, cells)


def test_dates_are_shown_as_dates(tmp_path):
    data = times(tmp_path, ["2024-02-28 12:00:00", "2024-02-28 12:00:01.5"])
    assert data.time_text(data.series.times[0, 1]) == "2024-02-28 12:00:01.5"
    for text in (repr(data), data.summary()):
        assert "times 2024-02-28 12:00:00 to 2024-02-28 12:00:01.5" in text
    assert "time from `time` (dates, in seconds)" in data.reading
    assert data[:1].time_unit == data.time_unit
