"""Columns of times as numbers: numbers, dates and clock times; and numbers as times that people can read."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from ..text import is_missing
from .table import each_distinct

# What the numbers are that stand for dates and clock times; see `Dataset.time_unit`.
SINCE_1970 = "seconds since 1970"
SINCE_MIDNIGHT = "seconds since midnight"

_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$", re.IGNORECASE)
_CLOCK = r"(\d{1,2}):(\d\d)(?::(\d\d(?:[.,]\d+)?))?\s*([ap]m)?"
_CLOCK_ONLY = re.compile(_CLOCK, re.IGNORECASE)
_DAY_OR_MONTH = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})[./-](\d{{4}})(?:[T,\s]+{_CLOCK})?", re.IGNORECASE)
_YEAR_FIRST = re.compile(rf"(\d{{4}})[./](\d{{1,2}})[./](\d{{1,2}})(?:[T,\s]+{_CLOCK})?", re.IGNORECASE)
_FORMATS = ("day-first", "month-first", "clock", "number")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class WrongTime(ValueError):
    """A column of times that cannot be read; `row` says where, if it is one cell."""

    def __init__(self, message: str, row: int | None = None):
        super().__init__(message, row)
        self.message, self.row = message, row

    def __str__(self) -> str:
        return self.message


class DayOrMonth(WrongTime):
    """Dates of which nobody can tell whether the day or the month comes first."""


def are_times(column: Any) -> bool:
    """Whether these are times, be it that their form has to be given.

    >>> import pandas as pd
    >>> are_times(pd.Series(["31.1.2024", "1.2.2024"])), are_times(pd.Series(["1/2/2024"])), are_times(pd.Series(["a"]))
    (True, True, False)
    """
    try:
        as_times(column)
    except WrongTime as error:
        return isinstance(error, DayOrMonth)
    return True


def as_times(column: Any, *, time_format: str | None = None) -> tuple:
    """A whole column of times as numbers `(rows,)`, their unit (see `Dataset.time_unit`), and what they were.

    Args:
        column: a pandas column: numbers, dates, or text.
        time_format: None tells numbers, dates in ISO 8601, dates such as 31.1.2024, 1/31/2024 or 20240131,
            and clock times apart; "day-first" or "month-first" says what 1/2/2024 is, "clock" and "number"
            what the cells are, and anything else is a format of `datetime.strptime`.
    """
    import pandas as pd

    if time_format is not None and time_format not in _FORMATS and "%" not in time_format:
        raise WrongTime(
            f"Got `time_format={time_format!r}`; expected one of {list(_FORMATS)}, or a format such as "
            '"%d.%m.%Y %H:%M:%S".'
        )
    if column.dtype.kind == "M":
        _check_there(column)
        return since_1970(column), SINCE_1970, "dates, in seconds"
    if column.dtype.kind in "fiub" and time_format in (None, "number"):
        return _from_numbers(column, time_format)
    text = pd.Series(each_distinct(column, _as_text), dtype=object)
    _check_there(text)
    codes, distinct = pd.factorize(text)
    cells = pd.Series(distinct, dtype=object)
    try:
        values, unit, what = _from_text(cells, time_format)
    except WrongTime as error:
        row = None if error.row is None else int(np.argmax(codes == error.row))
        raise type(error)(str(error), row) from None
    return values[codes], unit, what


def seconds(cells: Iterable[str]) -> np.ndarray:
    """Times as numbers: as they are if they are numbers, else dates in ISO 8601 as seconds since 1970.

    Dates without a time zone count as UTC; dates with and without one must not be mixed, because their
    distance is not known.

    >>> seconds(["2024-01-01", "2024-01-01 00:01:00.5"]) - 1704067200
    array([ 0. , 60.5])
    """
    cells = list(cells)
    try:
        return np.array(list(map(float, cells)))
    except ValueError:
        pass
    dates = []
    for cell in cells:
        try:
            dates.append(datetime.fromisoformat(cell.strip()))
        except ValueError:
            raise ValueError(f"the time {cell.strip()!r}") from None
    zoned = {date.tzinfo is not None for date in dates}
    if len(zoned) > 1:
        raise ValueError("dates with and without a time zone")
    return np.array([date.timestamp() if date.tzinfo else date.replace(tzinfo=UTC).timestamp() for date in dates])


def time_text(value: float, unit: str | None) -> str:
    """A time as people write it: a date, a time of the day, or a number.

    >>> time_text(1709121600.0, "seconds since 1970"), time_text(28800.5, "seconds since midnight")
    ('2024-02-28 12:00:00', '08:00:00.5')
    """
    if unit is None or not np.isfinite(value):
        return f"{value:g}"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=round(float(value), 6))
    except OverflowError:
        return f"{value:g}"
    text = moment.strftime("%Y-%m-%d %H:%M:%S" if unit == SINCE_1970 else "%H:%M:%S")
    return f"{text}.{moment.microsecond:06d}".rstrip("0") if moment.microsecond else text


def _from_numbers(column, time_format: str | None) -> tuple:
    values = column.to_numpy(np.float64)
    _check_there(column)
    if time_format is None and len(values) and (dates := _eight_digits(values)) is not None:
        return dates, SINCE_1970, f"dates such as {values[0]:.0f}, in seconds"
    return values, None, "numbers"


def _eight_digits(values: np.ndarray) -> np.ndarray | None:
    """20240131 as a date, if all numbers are such dates of the years 1900 to 2100; None otherwise."""
    import pandas as pd

    if not ((values >= 19000101) & (values <= 21001231) & (values == np.floor(values))).all():
        return None
    distinct, places = np.unique(values.astype(np.int64), return_inverse=True)
    dates = pd.Series(pd.to_datetime(distinct.astype(str), format="%Y%m%d", errors="coerce"))
    return None if dates.isna().any() else since_1970(dates)[places]


def _from_text(cells, time_format: str | None) -> tuple:
    """Distinct cells of text as times."""
    import pandas as pd

    if time_format in (None, "number"):
        numbers = np.asarray(pd.to_numeric(cells, errors="coerce"), np.float64)
        if not np.isnan(numbers).any():
            return _from_numbers(pd.Series(numbers), time_format)
        if time_format == "number":
            raise _wrong(cells, np.isnan(numbers), 'a number, because of `time_format="number"`')
        if not np.isnan(numbers).all():
            some, other = int(np.argmax(~np.isnan(numbers))), int(np.argmax(np.isnan(numbers)))
            raise WrongTime(
                f"Got the number {cells[some]!r} and {cells[other]!r}; expected one kind of times, numbers or dates.",
                max(some, other),
            )
        return _from_iso(cells)
    if time_format == "clock":
        return _from_clocks(cells)
    if time_format in ("day-first", "month-first"):
        return _from_days(cells, time_format)
    try:
        moments = pd.to_datetime(cells, format=time_format, errors="coerce", utc="%z" in time_format)
    except ValueError as error:
        raise WrongTime(f"Got `time_format={time_format!r}` ({error}); expected a format of `strptime`.") from None
    if moments.isna().any():
        raise _wrong(cells, moments.isna().to_numpy(), f"a time in the format {time_format!r} of `time_format`")
    if not re.search("%[YyjdmbBcxuUWGVDFeA]", time_format):  # no date in it
        return since_1970(moments) % 86400, SINCE_MIDNIGHT, "clock times, in seconds since midnight"
    return since_1970(moments), SINCE_1970, "dates, in seconds"


def _from_iso(cells) -> tuple:
    import pandas as pd

    moments = pd.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
    bad = moments.isna().to_numpy()
    if not bad.any():
        zoned = np.array([bool(_ZONE.search(cell[10:])) for cell in cells])
        if zoned.any() and not zoned.all():
            with_zone, without = cells[int(np.argmax(zoned))], cells[int(np.argmin(zoned))]
            raise WrongTime(
                f"Got dates with and without a time zone, {with_zone!r} and {without!r}; expected one kind of "
                "them, because their distance is not known.",
                max(int(np.argmax(zoned)), int(np.argmin(zoned))),
            )
        return since_1970(moments), SINCE_1970, "dates, in seconds"
    if _all(_CLOCK_ONLY, cells):
        return _from_clocks(cells)
    found = [_YEAR_FIRST.fullmatch(cell) for cell in cells]
    if all(found):
        return _from_parts(cells, [match.groups() for match in found if match])
    if _all(_DAY_OR_MONTH, cells):
        return _from_days(cells, None)
    raise _wrong(
        cells,
        bad,
        "a number, or a date such as 2024-01-31 12:00:00",
        'Write its form, such as `time_format="%d.%m.%y %H:%M"`, if it is another kind of date.',
    )


def _from_clocks(cells) -> tuple:
    found = [_CLOCK_ONLY.fullmatch(cell) for cell in cells]
    bad = np.array([match is None for match in found])
    if bad.any():
        raise _wrong(cells, bad, "a clock time such as 08:00:00")
    values = np.array([_clock(match.groups()) for match in found if match])
    if np.isnan(values).any():
        raise _wrong(cells, np.isnan(values), "a clock time from 0:00 to 23:59:59")
    return values, SINCE_MIDNIGHT, "clock times, in seconds since midnight"


def _from_days(cells, order: str | None) -> tuple:
    found = [_DAY_OR_MONTH.fullmatch(cell) for cell in cells]
    bad = np.array([match is None for match in found])
    if bad.any():
        raise _wrong(cells, bad, "a date such as 31/1/2024 12:00:00 or 1/31/2024, because of `time_format`")
    parts = [match.groups() for match in found if match]  # first, separator, second, year, clock
    if order is None:
        first, second = (np.array([int(part[i]) for part in parts]) for i in (0, 2))
        if (first > 12).any() and (second > 12).any():
            raise WrongTime(
                f"Got {cells[int(np.argmax(first > 12))]!r} and {cells[int(np.argmax(second > 12))]!r}; expected the "
                "day first, or the month first, in all dates.",
                int(np.argmax(second > 12)),
            )
        if (first > 12).any() or all(part[1] == "." for part in parts):
            order = "day-first"
        elif (second > 12).any():
            order = "month-first"
        else:
            raise DayOrMonth(
                f"Got dates such as {cells[0]!r}; expected to know whether the day or the month "
                "comes first, because "
                'no number in them is above 12. Write `time_format="day-first"` or `time_format="month-first"`.',
                0,
            )
    places = (3, 2, 0) if order == "day-first" else (3, 0, 2)
    return _from_parts(cells, [(*(part[i] for i in places), *part[4:]) for part in parts], order)


def _from_parts(cells, parts: list, order: str = "year first") -> tuple:
    """Year, month, day and the four parts of a clock time."""
    import pandas as pd

    days = pd.Series([f"{int(year):04d}-{int(month):02d}-{int(day):02d}" for year, month, day, *_ in parts])
    moments = pd.to_datetime(days, format="%Y-%m-%d", errors="coerce")
    clocks = np.array([0.0 if part[3] is None else _clock(part[3:]) for part in parts])
    bad = moments.isna().to_numpy() | np.isnan(clocks)
    if bad.any():
        raise _wrong(cells, bad, f"a date that exists, {order.replace('-', ' ')}")
    return since_1970(moments) + clocks, SINCE_1970, f"dates, {order.replace('-', ' ')}, in seconds"


def _clock(parts) -> float:
    """Hours, minutes, seconds, am or pm as seconds since midnight; NaN if there is no such time."""
    hours, minutes, seconds = int(parts[0]), int(parts[1]), float((parts[2] or "0").replace(",", "."))
    if parts[3]:
        if not 1 <= hours <= 12:
            return np.nan
        hours = hours % 12 + (12 if parts[3].lower() == "pm" else 0)
    return 3600 * hours + 60 * minutes + seconds if hours < 24 and minutes < 60 and seconds < 60 else np.nan


def since_1970(moments) -> np.ndarray:
    """Dates of pandas as seconds since 1970, those without a zone counted as UTC."""
    values = moments.array
    return values.asi8 / _PER_SECOND[values.unit]


def _as_text(cell: object) -> str:
    if cell is None or cell != cell:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _all(pattern: re.Pattern, cells) -> bool:
    return all(pattern.fullmatch(cell) for cell in cells)


def _check_there(column) -> None:
    """A point without a time has no place on the path."""
    absent = column.isna().to_numpy()
    if column.dtype.kind == "O":
        absent = absent | np.array([is_missing(str(cell)) or str(cell) == "NaT" for cell in column])
    if absent.any():
        more = int(absent.sum()) - 1
        raise WrongTime(
            f"Got no time{f' (and {more} more rows without one)' if more else ''}; expected one in every row, because "
            "a point without a time has no place on the path. Leave such rows out.",
            int(np.argmax(absent)),
        )


def _wrong(cells, bad: np.ndarray, expected: str, advice: str = "") -> WrongTime:
    row = int(np.argmax(bad))
    return WrongTime(f"Got {cells[row][:40]!r}; expected {expected}. {advice}".rstrip(), row)
