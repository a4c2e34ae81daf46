"""Columns of times as numbers: numbers, dates and clock times; and numbers as times that people can read."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np

from ..errors import setting
from .files import MISSING

# What the numbers are that stand for dates and clock times; see `Dataset.time_unit`.
SINCE_1970 = "seconds since 1970"
SINCE_MIDNIGHT = "seconds since midnight"
Column: TypeAlias = Any  # a Series of pandas
Times = tuple[np.ndarray, str | None, str]
"""A column of times as numbers, their unit (see `Dataset.time_unit`), and what they were, in words."""

_ZONE = r"(?:Z|z|[+-]\d\d(?::?\d\d)?)$"
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?\s*([ap]m)?", re.IGNORECASE)
_DATE = re.compile(r"(\d{4}|\d{1,2})([./-])\d{1,2}[./-](\d{4}|\d{1,2})\b.*")
# What may follow a date; clock times are the same without a date.
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M:%S.%f %p", "%I:%M%p", "%I:%M:%S%p")
_FORMATS = ("day-first", "month-first", "clock", "number")


class WrongTime(ValueError):
    """A column of times that cannot be read; `row` says where, if it is one cell."""

    def __init__(self, message: str, row: int | None = None):
        super().__init__(message, row)
        self.message, self.row = message, row

    def __str__(self) -> str:
        return self.message


class DayOrMonth(WrongTime):
    """Dates of which nobody can tell whether the day or the month comes first."""


def are_times(column: Column) -> bool:
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


def as_times(column: Column, *, time_format: str | None = None) -> Times:
    """A whole column of times, a pandas column of numbers, dates or text, as numbers; `read` explains the format."""
    import pandas as pd

    if time_format is not None and time_format not in _FORMATS and "%" not in time_format:
        got = setting("time_format", time_format)
        raise WrongTime(f'Got {got}; expected one of {list(_FORMATS)}, or a format such as "%d.%m.%Y %H:%M:%S".')
    absent = np.asarray(column.isna())
    if column.dtype.kind == "O":
        absent = absent | np.asarray(column.astype(str).str.strip().str.lower().isin(MISSING), bool)
    if absent.any():
        more = f" (and {int(absent.sum()) - 1} more rows without one)" if absent.sum() > 1 else ""
        raise WrongTime(
            f"Got no time{more}; expected one in every row, because a point without a time has no place on the path. "
            "Leave such rows out.",
            int(np.argmax(absent)),
        )
    if column.dtype.kind == "M":
        return since_1970(column), SINCE_1970, "dates, in seconds"
    if column.dtype.kind in "fiub":
        if time_format in (None, "number"):
            return _from_numbers(column.to_numpy(np.float64), time_format)
        column = column.map(lambda number: f"{number:.0f}" if float(number).is_integer() else str(number))
    codes, distinct = pd.factorize(column)
    try:
        values, unit, what = _from_text(pd.Series(distinct).astype(str).str.strip(), time_format)
    except WrongTime as error:
        row = None if error.row is None else int(np.argmax(codes == error.row))
        raise type(error)(str(error), row) from None
    return values[codes], unit, what


def _from_numbers(values: np.ndarray, time_format: str | None) -> Times:
    """Numbers as they are; 20240131 is a date if all numbers are such dates of the years 1900 to 2100."""
    import pandas as pd

    whole = (values >= 19000101) & (values <= 21001231) & (values == np.floor(values))
    if time_format is None and len(values) and whole.all():
        distinct, places = np.unique(values.astype(np.int64), return_inverse=True)
        dates = pd.Series(pd.to_datetime(distinct.astype(str), format="%Y%m%d", errors="coerce"))
        if not dates.isna().any():
            return since_1970(dates)[places], SINCE_1970, f"dates such as {values[0]:.0f}, in seconds"
    return values, None, "numbers"


def _from_text(cells: Column, time_format: str | None) -> Times:
    """Distinct cells of text as times: each form is tried in turn, and the first cell decides among the last."""
    import pandas as pd

    if time_format in (None, "number"):
        numbers = np.asarray(pd.to_numeric(cells, errors="coerce"), np.float64)
        words = np.isnan(numbers)
        if not words.any():
            return _from_numbers(numbers, time_format)
        if time_format == "number":
            raise _wrong(cells, words, f"a number, because of {setting('time_format', 'number')}")
        if not words.all():
            raise _two_kinds(cells, words, "the number {} and {}; expected one kind of times, numbers or dates")
    if time_format is not None and "%" in time_format:
        try:
            moments = pd.to_datetime(cells, format=time_format, errors="coerce", utc="%z" in time_format)
        except ValueError as error:
            got = f"{setting('time_format', time_format)} ({error})"
            raise WrongTime(f"Got {got}; expected a format of `strptime`.") from None
        if moments.isna().any():
            raise _wrong(cells, moments.isna(), f"a time in the format {time_format!r} of `time_format`")
        return _dates(moments) if re.search("%[YyjdmbBcxuUWGVDFeA]", time_format) else _clock_times(moments)
    if time_format is None:
        moments = pd.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
        if not moments.isna().any():
            zoned = cells.str[10:].str.contains(_ZONE, case=False).to_numpy(bool)
            if zoned.any() and not zoned.all():
                raise _two_kinds(cells, ~zoned, "dates with and without a time zone, {} and {}; expected one kind")
            return _dates(moments)
    plain, first = cells, _DATE.fullmatch(cells[0])
    if cells.str.contains(",", regex=False).any():  # 12:00:00,5 and 28.2.2024, 12:00
        plain = cells.str.replace(r"(:\d\d),(\d)", r"\1.\2", regex=True).str.replace(r",\s*", " ", regex=True)
    if time_format == "clock" or (time_format is None and _CLOCK.fullmatch(cells[0])):
        clocks = _parsed(plain, _CLOCKS)
        if clocks.isna().any():
            raise _wrong(cells, clocks.isna(), "a clock time from 0:00 to 23:59:59, such as 08:00:00")
        return _clock_times(clocks)
    if first is None or (time_format is None and len(first[1]) < 4 and len(first[3]) < 4):
        advice = f"Write its form, such as {setting('time_format', '%d.%m.%y %H:%M')}, if it is another kind of date"
        bad = [True] if time_format else moments.isna()
        raise _wrong(cells, bad, f"a number, or a date such as 2024-01-31 12:00:00. {advice}")
    order = time_format or ("year-first" if len(first[1]) == 4 else _day_or_month(cells, first[2]))
    parts = {"year-first": ("%Y", "%m", "%d"), "day-first": ("%d", "%m", "%Y")}.get(order, ("%m", "%d", "%Y"))
    day, said = first[2].join(parts), order.replace("-", " ")
    moments = _parsed(plain, [day, *(f"{day} {clock}" for clock in _CLOCKS)])
    if moments.isna().any():
        raise _wrong(cells, moments.isna(), f"a date that exists, {said}, written as {cells[0]!r}")
    return _dates(moments, f"{said}, ")


def _dates(moments: Column, said: str = "") -> Times:
    return since_1970(moments), SINCE_1970, f"dates, {said}in seconds"


def _clock_times(moments: Column) -> Times:
    return since_1970(moments) % 86400, SINCE_MIDNIGHT, "clock times, in seconds since midnight"


def _parsed(cells: Column, formats: Iterable[str]) -> Column:
    """Cells in any of these formats; NaT where none fits."""
    import pandas as pd

    moments = pd.Series(pd.NaT, index=cells.index, dtype="datetime64[us]")
    for form in formats:
        if (left := moments.isna()).any():
            moments = moments.fillna(pd.to_datetime(cells[left], format=form, errors="coerce").astype(moments.dtype))
    return moments


def _day_or_month(cells: Column, sign: str) -> str:
    """Which of the first two numbers of dates is the day: the one that exceeds 12 somewhere, or stands before a dot."""
    import pandas as pd

    if sign == ".":
        return "day-first"
    parts = cells.str.split(sign, n=2, expand=True)
    first, second = (np.asarray(pd.to_numeric(parts[i], errors="coerce")) > 12 for i in (0, 1))
    if first.any() and second.any():
        raise WrongTime(
            f"Got {cells[int(np.argmax(first))]!r} and {cells[int(np.argmax(second))]!r}; expected the day first, or "
            "the month first, in all dates.",
            int(np.argmax(second)),
        )
    if first.any() or second.any():
        return "day-first" if first.any() else "month-first"
    raise DayOrMonth(
        f"Got dates such as {cells[0]!r}; expected to know whether the day or the month comes first, because no number "
        f"is above 12. Write {setting('time_format', 'day-first')} or {setting('time_format', 'month-first')}.",
        0,
    )


def since_1970(moments: Column) -> np.ndarray:
    """Dates of pandas as seconds since 1970, those without a zone counted as UTC."""
    dates = moments.array
    return dates.asi8 / {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[dates.unit]  # type: ignore


def _wrong(cells: Column, bad: Any, expected: str) -> WrongTime:
    row = int(np.argmax(bad))
    return WrongTime(f"Got {cells[row][:40]!r}; expected {expected}.", row)


def _two_kinds(cells: Column, other: np.ndarray, got: str) -> WrongTime:
    first, second = int(np.argmin(other)), int(np.argmax(other))
    return WrongTime(f"Got {got.format(repr(cells[first]), repr(cells[second]))}.", max(first, second))


def seconds(cells: Iterable[str]) -> np.ndarray:
    """Times as numbers: as they are if they are numbers, else dates in ISO 8601 as seconds since 1970, in UTC.

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
    if len({date.tzinfo is None for date in dates}) > 1:
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
