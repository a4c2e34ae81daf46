"""Columns of times as numbers: numbers, dates and clock times; and numbers as times that people can read."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np

from ..errors import setting
from .columns import Column, to_numbers
from .files import MISSING

# What the numbers are that stand for dates and clock times; see `Dataset.time_unit`.
SINCE_1970 = "seconds since 1970"
SINCE_MIDNIGHT = "seconds since midnight"
Times = tuple[np.ndarray, str | None, str]
"""A column of times as numbers, their unit (see `Dataset.time_unit`), and what they were, in words."""

_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\s*(?:[aApP][mM])?"
_ZONE = r"(?:Z|z|[+-]\d\d(?::?\d\d)?)$"
# A date of three numbers, and perhaps a clock time behind it.
_DATE = rf"(?P<day>\d{{1,4}}(?P<sign>[./-])\d{{1,2}}(?P=sign)\d{{1,4}})(?:,?\s+(?P<clock>{_CLOCK}))?"
_ORDERS = {"year-first": ("%Y", "%m", "%d"), "day-first": ("%d", "%m", "%Y"), "month-first": ("%m", "%d", "%Y")}
_FORMATS = ("day-first", "month-first", "clock", "number")


class WrongTime(ValueError):
    """A column of times that cannot be read; `row` says where, if it is one cell."""

    def __init__(self, message: str, row: int | None = None):
        super().__init__(message)
        self.row = row


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
        return _dates(column, "")
    numeric = column.dtype.kind in "fiub"
    if numeric and time_format is not None and time_format != "number":  # 20240131, with a format
        column = column.map(lambda number: f"{number:.0f}" if float(number).is_integer() else str(number))
    codes, distinct = pd.factorize(column)
    try:
        values, unit, what = _from_distinct(pd.Series(distinct), time_format)
    except WrongTime as error:
        row = None if error.row is None else int(np.argmax(codes == error.row))
        raise type(error)(str(error), row) from None
    return values[codes], unit, what


def _from_distinct(column: Column, time_format: str | None) -> Times:
    """Distinct times as numbers: each form is tried in turn, and must fit all of them."""
    import pandas as pd

    cells = column.astype(str).str.strip()
    if time_format in (None, "number"):
        numbers = to_numbers(column)
        if not numbers.isna().any():
            return _from_numbers(numbers, time_format)
        if time_format == "number":
            raise _wrong(cells, numbers.isna(), f"a number, because of {setting('time_format', 'number')}")
        _check_one_kind(cells, numbers.isna(), "the number {} and {}; expected one kind of times, numbers or dates")
    if time_format is not None and "%" in time_format:
        try:
            moments = pd.to_datetime(cells, format=time_format, errors="coerce", utc="%z" in time_format)
        except ValueError as error:
            got = f"{setting('time_format', time_format)} ({error})"
            raise WrongTime(f"Got {got}; expected a format of `strptime`.") from None
        if moments.isna().any():
            raise _wrong(cells, moments.isna(), f"a time in the format {time_format!r} of `time_format`")
        return _dates(moments, "") if re.search("%[YyjdmbBcxuUWGVDFeA]", time_format) else _clock_times(moments)
    if time_format == "clock" or (time_format is None and re.fullmatch(_CLOCK, cells[0])):
        clocks = _clocks(cells)
        if clocks.isna().any():
            raise _wrong(cells, clocks.isna(), "a clock time from 0:00 to 23:59:59, such as 08:00:00")
        return _clock_times(clocks)
    if time_format is None:
        moments = pd.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
        if not moments.isna().any():
            zoned = cells.str[10:].str.contains(_ZONE, case=False)
            _check_one_kind(cells, ~zoned, "dates with and without a time zone, {} and {}; expected one kind")
            return _dates(moments, "")
    return _from_dates(cells, time_format)


def _from_numbers(numbers: Column, time_format: str | None) -> Times:
    """Numbers as they are; 20240131 is a date if all numbers are such dates of the years 1900 to 2100."""
    import pandas as pd

    if time_format is None and numbers.between(19000101, 21001231).all() and (numbers % 1 == 0).all():
        dates = pd.to_datetime(numbers.astype(int).astype(str), format="%Y%m%d", errors="coerce")
        if not dates.isna().any():
            return _dates(dates, f"such as {numbers[0]:.0f}, ")
    return numbers.to_numpy(), None, "numbers"


def _from_dates(cells: Column, time_format: str | None) -> Times:
    """Dates written as three numbers, in the one order that fits all of them; dots stand between day, month, year."""
    import pandas as pd

    parts = cells.str.extract(rf"^{_DATE}$")
    if time_format is None and parts["day"].isna().any():
        advice = f"Write its form, such as {setting('time_format', '%d.%m.%y %H:%M')}, if it is another kind of date"
        expected = f"a number, or a date such as 2024-01-31 12:00:00. {advice}"
        raise _wrong(cells, parts["day"].isna(), expected)
    sign, clocked = parts["sign"].iloc[0], parts["clock"].notna()
    clock = _clocks(parts["clock"][clocked]).reindex(cells.index)
    within = (clock - clock.dt.normalize()).where(clocked, pd.Timedelta(0))  # NaT where the clock time is none
    orders = [time_format] if time_format else [name for name in _ORDERS if (name, sign) != ("month-first", ".")]
    tried = {}
    for order in orders:
        form = str(sign).join(_ORDERS[order])
        tried[order] = pd.to_datetime(parts["day"], format=form, errors="coerce") + within
    fitting = [order for order, moments in tried.items() if not moments.isna().any()]
    if len(fitting) > 1:
        raise DayOrMonth(
            f"Got dates such as {cells[0]!r}; expected to know whether the day or the month comes first. Write "
            f"{setting('time_format', 'day-first')} or {setting('time_format', 'month-first')}.",
            0,
        )
    if not fitting:
        order, moments = min(tried.items(), key=lambda one: one[1].isna().sum())
        form = setting("time_format", "%d.%m.%y %H:%M")
        raise _wrong(
            cells,
            moments.isna(),
            f"a date that exists, {order.replace('-', ' ')} as the others. Write its form, such as {form}, if it is "
            "another kind of date",
        )
    return _dates(tried[fitting[0]], f"{fitting[0].replace('-', ' ')}, ")


def _clocks(cells: Column) -> Column:
    """Clock times, with 12:00:00,5 beside 12:00:00.5, as moments of some day; NaT where a cell is none."""
    import pandas as pd

    cells = cells.where(cells.str.fullmatch(_CLOCK)).str.replace(",", ".", regex=False)
    return pd.to_datetime("2000-01-01 " + cells, format="mixed", errors="coerce")


def _dates(moments: Column, said: str) -> Times:
    return since_1970(moments), SINCE_1970, f"dates, {said}in seconds"


def _clock_times(moments: Column) -> Times:
    return since_1970(moments) % 86400, SINCE_MIDNIGHT, "clock times, in seconds since midnight"


def since_1970(moments: Column) -> np.ndarray:
    """Dates of pandas as seconds since 1970, those without a zone counted as UTC."""
    dates = moments.array
    return dates.asi8 / {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[dates.unit]


def _wrong(cells: Column, bad: Column, expected: str) -> WrongTime:
    row = int(np.argmax(bad))
    return WrongTime(f"Got {cells[row][:40]!r}; expected {expected}.", row)


def _check_one_kind(cells: Column, other: Column, got: str) -> None:
    if other.any() and not other.all():
        first, second = int(np.argmin(other)), int(np.argmax(other))
        raise WrongTime(f"Got {got.format(repr(cells[first]), repr(cells[second]))}.", max(first, second))


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
