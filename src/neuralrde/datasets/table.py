"""A table as a DataFrame: its numbers, where its rows stand in files, and how it becomes a data set.

A row is a point (long), a value (melted), or a series (wide, or lists in its cells).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from neuralrde.paths import Series

from ..errors import setting
from .dataset import Dataset
from .files import MISSING, NO_LABEL, ReadError, check_room, lengths_without_gaps
from .roles import Roles, TableOptions, few
from .targets import Task, classes_or_numbers, describe_target
from .times import SINCE_MIDNIGHT, WrongTime, are_times, as_times, time_text

# A DataFrame and a Series of pandas, which is imported where a table is read and not with the package. (Its own types
# are unions of all that a method may return: with them, pyright has 113 complaints and none of a mistake.)
Frame: TypeAlias = Any
Column: TypeAlias = Any

_ROW_NUMBERS = re.compile(r"Unnamed: \d+|__index_level_\d+__")
_NUMBER_LAST = re.compile(r"(?P<stem>.*?)[ _.-]?[\[(]?(?P<number>\d+)[\])]?")
_NUMBER_FIRST = re.compile(r"(?P<number>\d+)[ _.-](?P<stem>.*\D.*)")
# This many points per channel are a series; fewer numbered columns may be channels.
_SERIES = 10
_MOST_WORDS = 100
# Names that no column of a file has: the number of a row's series, its time, and its target at a point.
_OWNER, _TIME, _TARGET = "\0owner", "\0time", "\0target"


@dataclass(frozen=True)
class Table:
    """Columns, as a DataFrame of pandas, and which of them is what."""

    file: str | Path
    frame: Frame  # its index holds each row's number in the file
    roles: Roles
    line: Callable[[int], int | None] = lambda row: None  # of a row of the file
    check_rows: Callable[[], None] = lambda: None  # refuses rows that lack cells
    named: bool = True  # whether the file names its columns
    numerals: tuple[str, str | None] = (".", None)  # the signs before decimals and between thousands
    time_unit: str | None = None  # of lists of dates
    notes: tuple[str, ...] = ()  # how the table was read, beyond its layout
    parts: tuple["Table", ...] = ()  # the tables whose rows these are, one after the other

    def noting(self, *notes: str, **changes: Any) -> "Table":
        """This table with changes and with what was noted about them."""
        return replace(self, notes=(*self.notes, *notes), **changes)

    def error(self, message: str, row: int | None = None) -> ReadError:
        """An error about a row (its place in the frame), with its file and line or the id that stands there."""
        if row is None:
            return ReadError(self.file, message)
        for part in self.parts:
            if row < len(part.frame):
                return part.error(message, row)
            row -= len(part.frame)
        line = self.line(int(self.frame.index[row]))
        if line is None and self.roles.id is not None and (id := self.frame[self.roles.id].iloc[row]):
            message = f"{message} That is in a row of id {id}."
        return ReadError(self.file, message, line=line)


def join_tables(tables: Sequence[Table], file: Path) -> Table:
    """Rows of several tables with the same columns, one after the other."""
    import pandas as pd

    first = tables[0]
    for table in tables[1:]:
        # Tables without names may be of different widths, and others have their columns in another order.
        meanings = {
            repr(
                (
                    t.named,
                    t.time_unit,
                    t.named and (replace(t.roles, channels=(), guessed=()), sorted(t.roles.channels)),
                )
            )
            for t in (first, table)
        }
        if len(meanings) > 1:
            raise ReadError(
                file,
                f"Got the channels {few(table.roles.channels)} in {table.file} and {few(first.roles.channels)} in "
                f"{first.file}; expected the same columns with the same meaning in every table.",
            )

    def check_rows() -> None:
        for table in tables:
            table.check_rows()

    return Table(
        file,
        pd.concat([table.frame for table in tables], ignore_index=True),
        max((table.roles for table in tables), key=lambda roles: len(roles.channels)),
        check_rows=check_rows,
        named=first.named,
        numerals=first.numerals,
        time_unit=first.time_unit,
        notes=tuple(dict.fromkeys(note for table in tables for note in table.notes)),
        parts=tuple(tables),
    )


# What a column of numbers is written with, whatever its decimals and thousands are divided by.
_NUMERIC = re.compile(r"[-+\d.,'eE\s]*\d[-+\d.,'eE\s]*")
_WITH_COMMA = re.compile(
    r"(?P<thousands>[-+]?[1-9]\d{0,2}(?:,\d{3})+\.\d*|[-+]?[1-9]\d{0,2}(?:,\d{3}){2,})"  # 35,000.00 or 1,234,567
    r"|(?P<either>[-+]?[1-9]\d{0,2},\d{3})"  # 35,000
    r"|(?P<decimal>[-+]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d*(?:[eE][-+]?\d+)?)"  # 0,5 or 1.234,5
)
_SAMPLE = 20_000  # distinct cells of a column decide how it writes numbers; others are then refused


def find_numerals(columns: Iterable[Column], options: TableOptions, file: str | Path) -> tuple[str, str | None]:
    """The decimal and the thousands sign of columns of text: as given, or else as their cells show."""
    if options.decimal is not None or options.thousands is not None:
        return options.decimal or ".", options.thousands
    found: dict[str, str] = {}
    for column in columns:
        cells = column.drop_duplicates().iloc[:_SAMPLE].astype(object).dropna().map(str.strip)
        cells = [cell for cell in cells if cell.lower() not in MISSING]
        if all(map(_NUMERIC.fullmatch, cells)):
            for cell in cells:
                match = _WITH_COMMA.fullmatch(cell)
                if match and match.lastgroup and "." not in found.get(match.lastgroup, ""):
                    found[match.lastgroup] = cell
    thousands, decimal, either = (found.get(kind) for kind in ("thousands", "decimal", "either"))
    if thousands and decimal:
        raise ReadError(
            file,
            f"Got {thousands!r} and {decimal!r}; expected one way to write numbers. Write the commas' "
            f"meaning, {setting('decimal', ',')} or {setting('thousands', ',')}.",
        )
    if either and not thousands and not decimal:
        raise ReadError(
            file,
            f"Got {either!r}, which may be {either.replace(',', '.')} or {either.replace(',', '')}; "
            f"expected to know which. Write {setting('decimal', ',')} or "
            f"{setting('thousands', ',')}.",
        )
    if decimal:
        return ",", "." if "." in decimal else None
    return ".", "," if thousands else None


def to_numbers(column: Column, decimal: str = ".", thousands: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A column of text as numbers, NaN where there is none, and which of its cells are neither numbers nor missing.

    >>> import pandas as pd
    >>> to_numbers(pd.Series(["1.234,5", "?", "x"]), ",", ".")
    (array([1234.5,    nan,    nan]), array([False, False,  True]))
    """
    import pandas as pd

    codes, distinct = pd.factorize(column)
    cells = pd.Series(distinct).astype(str).str.strip()
    missing = cells.str.lower().isin(MISSING)
    if thousands is not None:
        marks = " \u00a0\u202f" if thousands == " " else thousands  # spaces that do not break a line, too
        whole = rf"[-+]?\d{{1,3}}(?:[{re.escape(marks)}]\d{{3}})+(?:{re.escape(decimal)}.*)?"
        grouped = cells.str.fullmatch(whole)
        cells = cells.where(~grouped, cells.str.replace(rf"[{re.escape(marks)}]", "", regex=True))
    if decimal != ".":
        cells = cells.str.replace(".", "_", regex=False).str.replace(decimal, ".", regex=False)
    plain = cells.where(cells.str.fullmatch(r"[-+.\deEinfty]+", case=False) & ~missing)  # 0x10 and True are words
    numbers = np.asarray(pd.to_numeric(plain, errors="coerce"), np.float64)
    wrong = np.isnan(numbers) & ~missing.to_numpy(bool)
    # Cells that pandas calls missing have the code -1, which looks up the last.
    return np.append(numbers, np.nan)[codes], np.append(wrong, False)[codes]


def with_numbers(frame: Frame, roles: Roles, options: TableOptions, decimal: str, thousands: str | None) -> Frame:
    """The columns of channels and times as numbers, where all cells are; targets stay text, spelled as Python does."""
    times = [roles.time] if roles.time is not None and options.time_format is None else []
    changed = {}
    for name in {*roles.numeric, *times} - {*roles.labels}:
        if is_text(frame[name]):
            numbers, wrong = to_numbers(frame[name], decimal, thousands)
            if not wrong.any():
                changed[name] = numbers
    if (decimal, thousands) != (".", None):
        for name in roles.target:
            numbers, wrong = to_numbers(frame[name], decimal, thousands)
            if not wrong.any():
                changed[name] = np.array(["" if np.isnan(value) else repr(float(value)) for value in numbers], object)
    return with_columns(frame, changed)


def with_columns(frame: Frame, columns: dict[str, Any]) -> Frame:
    """A frame with columns replaced or added; the frame itself stays as it is."""
    frame = frame.copy(deep=False)
    for name, column in columns.items():
        frame[name] = column
    return frame


def text_columns(frame: Frame, roles: Roles) -> list[Column]:
    """The columns of text that may hold numbers."""
    names = dict.fromkeys([*roles.numeric, *([] if roles.time is None else [roles.time]), *roles.target])
    return [frame[name] for name in names if is_text(frame[name])]


def is_text(column: Column) -> bool:
    """Whether a column holds text, and neither numbers, nor dates, nor lists."""
    from pandas.api.types import infer_dtype, is_string_dtype

    return column.dtype.kind == "O" and (is_string_dtype(column) or infer_dtype(column, skipna=True) == "string")


@runtime_checkable
class Load(Protocol):
    """What reads a file as a table."""

    def __call__(self, path: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Table: ...


def read_table(load: Load, path: str | Path, task: Task | None, name: str | None, options: dict[str, Any]) -> Dataset:
    """Read a table of series from a file; the options are those of `read`."""
    known = TableOptions.of(options)
    known.check(path)
    return from_table(load(path, known), known, task=task, name=name or Path(path).name.split(".")[0])


class Layout(NamedTuple):
    """The series of a table, how they were found in it, and their times' unit."""

    series: Series
    reading: str
    time_unit: str | None = None
    notes: tuple[str, ...] = ()


def from_table(table: Table, options: TableOptions, *, task: Task | None = None, name: str = "data") -> Dataset:
    """The series of a table, and in one sentence how it was understood (`Dataset.reading`)."""
    try:
        return _from_table(table, options, task, name)
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, ReadError) else table.error(str(error)) from None


def _from_table(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
    if len(table.frame) == 0:
        raise table.error("Got column names and no rows; expected series.")
    table = _without_row_numbers(table, options)
    if table.roles.id is not None and (absent := is_no_label(table.frame[table.roles.id])).any():
        raise table.error(
            f"Got a row without {table.roles.id!r}; expected one in each, because it belongs to no series without.",
            int(np.argmax(absent)),
        )
    if any(_has_lists(table.frame[channel]) for channel in table.roles.numeric):
        lay, row_is_series = _from_lists, True
    else:
        table = _with_one_hot(table, options)
        _check_numbers(table)
        if table.roles.sensor is not None:
            lay, row_is_series = _from_melted, False
        else:
            row_is_series = is_wide(table, options)
            lay = _from_wide if row_is_series else _from_long
    channels = table.roles.channels
    if options.per_time:
        if lay is not _from_long:
            raise ValueError(
                f"Got {setting('per_time', True)} for a table with a row per series or value; expected a row per point."
            )
        table, classes, described = _with_point_targets(table, task)
    if not row_is_series:
        table.check_rows()
    owner, ids = owners(table, row_is_series=row_is_series)
    labels = labels_of_series(table, options, owner, ids)
    series, reading, time_unit, notes = lay(table, options, owner, ids)
    groups, split, labelled = labels.groups, labels.split, labels.labelled
    if options.per_time:
        last = np.where(series.valid[..., None], series.values[..., len(channels) :], np.nan)
        series = replace(series, values=series.values[..., : len(channels)], channels=channels)
        target = np.nan_to_num(last[..., 0], nan=-1).astype(np.int64) if classes else last
        fields: dict[str, Any] = {"target": target, "classes": classes}
        labelled = (target >= 0).any(axis=1) if classes else ~np.isnan(target).all(axis=(1, 2))
        described = f"target {listed(table.roles.target, quoted=True)} at each point ({described})"
    else:
        fields, described = describe_target(labels.targets, labelled, task)
    notes = (*table.notes, *labels.notes, *notes)
    if options.drop_unlabelled and labelled is not None and not labelled.all():
        if not labelled.any():
            raise ValueError("Got no series with a target; expected some. Leave `drop_unlabelled` out.")
        notes += (f"{int((~labelled).sum())} series without a target left out",)
        series = series[labelled]
        groups, split = (None if array is None else array[labelled] for array in (groups, split))
        if options.per_time:  # otherwise only targets that are there have been described
            fields["target"] = fields["target"][labelled]
    reading = "; ".join([", ".join(filter(None, [reading, described])), *notes])
    return Dataset(series, **fields, groups=groups, split=split, name=name, time_unit=time_unit, reading=reading)


def _without_row_numbers(table: Table, options: TableOptions) -> Table:
    """Row numbers, which pandas and R write in a column without a name, are no channel; dates there are times."""
    roles, notes = table.roles, []
    for name in [name for name in roles.channels if _ROW_NUMBERS.fullmatch(name) and options.columns is None]:
        column = table.frame[name]
        others = tuple(channel for channel in roles.channels if channel != name)
        if column.dtype.kind in "fiu":
            # They begin anew in each file of a folder.
            parts = [part.frame[name] for part in table.parts if name in part.frame] or [column]
            whole = all(part.is_unique and (part == np.floor(part)).all() for part in parts)
            if whole or column.isna().all():
                roles = replace(roles, channels=others)
                notes.append(f"`{name}` left out (row numbers)")
        elif name == "Unnamed: 0" and roles.time is None and are_times(column):
            roles = replace(roles, channels=others, time=name)
        elif name == "Unnamed: 0":
            raise table.error(
                f"Got the first column without a name, and {column.iloc[0]!r} in it; expected a name, "
                f"or row numbers. Write {setting('id', 'Unnamed: 0')}, "
                f"{setting('target', 'Unnamed: 0')} or the like to say what it is."
            )
    if not roles.channels and roles.sensor is None:
        raise table.error("Got no channel; expected a column of numbers beside ids, times and targets.")
    return table.noting(*notes, roles=roles)


def _with_one_hot(table: Table, options: TableOptions) -> Table:
    """A channel per word: `sex` with the words f and m becomes `sex=f` and `sex=m`, NaN where the cell is empty."""
    roles, asked = table.roles, options.one_hot or ()
    if asked is True:
        asked = [name for name in roles.channels if is_text(table.frame[name])]
    if any(name not in (*roles.channels, *roles.words) for name in asked):
        raise table.error(
            f"Got {setting('one_hot', list(asked))} and the channels {few(roles.channels)}; expected some of these."
        )
    channels, all_words, columns, notes = list(roles.channels), {}, {}, []
    for name in dict.fromkeys([*asked, *roles.words]):
        column = table.frame[name]
        if column.dtype.kind in "fiu":  # 1.0 is the word 1, as it was before a gap made floats of it
            column = column.map(lambda x: "" if x != x else str(int(x)) if float(x).is_integer() else str(x))
        cells = column.astype(object).fillna("").astype(str).str.strip().to_numpy(object)
        absent = np.array([cell.lower() in MISSING for cell in cells], bool)
        words = roles.words.get(name) or sorted(set(cells[~absent]))
        if (strange := ~absent & ~np.isin(cells.astype(str), words)).any():
            row = int(np.argmax(strange))
            raise table.error(
                f"Got {cells[row][:40]!r} in column {name!r}; expected one of {few(words)}, which you gave.", row
            )
        if len(words) > _MOST_WORDS:
            raise table.error(
                f"Got {len(words)} different words in column {name!r}; expected at most {_MOST_WORDS} for a channel "
                "each. Is it an id, or a note?"
            )
        all_words[name] = words
        columns |= {f"{name}={word}": np.where(absent, np.nan, cells == word) for word in words}
        place = channels.index(name) if name in channels else len(channels)
        channels[place : place + 1] = [f"{name}={word}" for word in words]
        notes.append(f"a channel per word of `{name}`")
    if options.columns is not None and roles.words:  # in the order asked for
        channels = list(map(str, options.columns))
    roles = replace(roles, channels=tuple(channels), words=all_words)
    return table.noting(*notes, frame=with_columns(table.frame, columns), roles=roles)


def _check_numbers(table: Table) -> None:
    """Refuse channels that are not finite numbers."""
    roles = table.roles
    for name in roles.numeric:
        column = table.frame[name]
        if column.dtype.kind not in "fiub":
            words = column.where(column.map(lambda cell: isinstance(cell, str)))  # numbers come from other files
            row = int(np.argmax(to_numbers(words, *table.numerals)[1]))
            melted = (
                f" or the table is melted ({setting('sensor', 'column of names')}, "
                f"{setting('value', 'column of numbers')})"
            )
            if roles.time is None and are_times(column):
                advice = (
                    f"Write {setting('time', name)} if it holds the times of the points, or "
                    f"{setting('columns', [...])} without it."
                )
            else:
                advice = (
                    f"Write {setting('columns', [...])} without it to leave it out, or "
                    f"{setting('one_hot', [name])} for a channel per word, if it holds "
                    f"words{melted if 'value' in map(str.lower, roles.channels) else ''}."
                )
            cell = str(column.iloc[row])[:40]
            raise table.error(f"Got {cell!r} in column {name!r}; expected a number. {advice}", row)
        if column.dtype.kind == "f" and (infinite := np.isinf(column.to_numpy())).any():
            raise table.error(
                f"Got infinity in column {name!r}; expected finite numbers, or an empty cell where there is none.",
                int(np.argmax(infinite)),
            )


def _from_long(table: Table, options: TableOptions, owner: np.ndarray, ids: np.ndarray | None) -> Layout:
    """A row is a point."""
    roles = table.roles
    times, unit, kind = _times(table, options, owner, ids)
    points = with_columns(table.frame, {_OWNER: owner} | ({} if times is None else {_TIME: times}))
    points, notes = _merge_duplicates(table, options, points, ids, unit)
    channels = [name for name in roles.channels if not name.startswith(_TARGET)]
    samples = 1 if ids is None else len(ids)
    if 1 < samples < len(points):
        groups = points.groupby(_OWNER)[channels]
        low, high, counts = groups.min(), groups.max(), groups.count()
        still = ((low == high) | low.isna()).all() & ((counts > 1).sum() > 1)
        if still.any():
            constant = listed(still.index[still].tolist())
            notes += (f"constant within each series: {constant} ({setting('columns', [...])} leaves columns out)",)
    said = [_whose(table, ids), _time_said(table, kind), f"channels {listed(channels)}"]
    return Layout(_packed(table, points, roles.channels, ids), _sentence("long table", *said), unit, notes)


def _from_melted(table: Table, options: TableOptions, owner: np.ndarray, ids: np.ndarray | None) -> Layout:
    """A row is a value of one channel, which the column `sensor` names."""
    roles, frame = table.roles, table.frame
    if roles.time is None:
        raise ValueError(
            f"Got {setting('sensor', roles.sensor)} and no column of times; expected "
            f"{setting('time')}, to know which values belong together."
        )
    if (absent := is_no_label(frame[roles.sensor])).any():
        raise table.error(f"Got no name in column {roles.sensor!r}; expected one.", int(np.argmax(absent)))
    times, unit, kind = _times(table, options, owner, ids)
    names = [str(sensor) for sensor in frame[roles.sensor].unique()]
    points = with_columns(frame, {_OWNER: owner, _TIME: times})
    if options.columns is not None:
        wanted = list(map(str, options.columns))
        if lost := [sensor for sensor in wanted if sensor not in names]:
            raise ValueError(f"Got no sensor {few(lost)}; expected one of {few(names)}.")
        names, points = wanted, points[points[roles.sensor].isin(wanted)]
    points, notes = _merge_duplicates(table, options, points, ids, unit)
    moments = points.groupby([_OWNER, _TIME]).ngroups
    check_room(3 * 8 * float(moments) * len(names), table.file, f"{moments} points of {len(names)} sensors")
    points = points.pivot(index=[_OWNER, _TIME], columns=roles.sensor, values=roles.value)[names].reset_index()
    if ids is not None and len(lost := np.setdiff1d(np.arange(len(ids)), points[_OWNER])):
        raise ValueError(f"Got none of the sensors {few(names)} for id {ids[lost[0]]}; expected values of one of them.")
    said = [_whose(table, ids), _time_said(table, kind), f"channels {listed(names)} from `{roles.sensor}`"]
    return Layout(_packed(table, points, names, ids), _sentence("melted table", *said), unit, notes)


def _times(
    table: Table, options: TableOptions, owner: np.ndarray, ids: np.ndarray | None
) -> tuple[np.ndarray | None, str | None, str]:
    import pandas as pd

    if table.roles.time is None:
        if options.time_format is not None:
            raise ValueError(
                f"Got {setting('time_format', options.time_format)} and no column of times; expected {setting('time')}."
            )
        return None, None, ""
    try:
        times, unit, kind = as_times(table.frame[table.roles.time], time_format=options.time_format)
    except WrongTime as error:
        got, divided, rest = str(error).partition(";")
        raise table.error(f"{got} in column {table.roles.time!r}{divided}{rest}", error.row) from None
    if unit == SINCE_MIDNIGHT:  # clock times that start again would be sorted into the wrong order
        back = pd.Series(times).groupby(owner).diff().to_numpy() < -43200
        if back.any():
            row = int(np.argmax(back))
            raise table.error(
                f"Got the clock time {time_text(times[row], unit)} after a later one{_of(ids, owner[row])}, as past "
                "midnight; expected clock times within one day. Write dates with them.",
                row,
            )
    return times, unit, kind


def _merge_duplicates(
    table: Table, options: TableOptions, points: Frame, ids: np.ndarray | None, unit: str | None
) -> tuple[Frame, tuple[str, ...]]:
    """Points whose times differ within each series, and sensor, and what was done for that."""
    roles = table.roles
    keys = [_OWNER, _TIME, *([] if roles.sensor is None else [roles.sensor])]
    if _TIME not in points or not (again := points.duplicated(keys).to_numpy()).any():
        return points, ()
    count, first = int(again.sum()), points.iloc[int(np.argmax(again))]
    if options.duplicates == "error":
        sensor = "" if roles.sensor is None else f"{',' if ids is not None else ' for'} sensor {first[roles.sensor]}"
        by_name = f" The column {roles.time!r} was taken for the time by its name." if "time" in roles.guessed else ""
        raise table.error(
            f"Got the time {time_text(first[_TIME], unit)} "
            f"twice{_of(ids, first[_OWNER])}{sensor}{f' (and {count - 1} more such rows)' if count > 1 else ''}; "
            "expected times that differ, because a path has one value at a time. Write "
            f"{setting('duplicates', 'mean')}, {setting('duplicates', 'first')} or "
            f"{setting('duplicates', 'last')} to merge such rows.{by_name}",
            table.frame.index.get_loc(points.index[int(np.argmax(again))]),
        )
    notes = (f"{count} rows of duplicated times merged ({options.duplicates})",)
    if options.duplicates != "mean":
        points = points.drop_duplicates(keys, keep=options.duplicates)  # type: ignore
        return points.sort_values(_OWNER, kind="stable"), notes
    groups = points.groupby(keys)[list(roles.numeric)]
    if (_TARGET in points) and (groups[_TARGET].nunique() > 1).any():
        raise ValueError(f"Got different classes at one time; expected one. Write {setting('duplicates', 'first')}.")
    return groups.mean().reset_index(), notes


def _packed(table: Table, points: Frame, channels: Sequence[str], ids: np.ndarray | None) -> Series:
    lengths = np.bincount(points[_OWNER])
    size = 3 * 8 * float(len(lengths)) * lengths.max() * (1 + len(channels))
    check_room(size, table.file, f"{len(lengths)} series, padded to {lengths.max()} points,", "Cut the longest ones.")
    time = _TIME if _TIME in points else None
    columns = {name: points[name].to_numpy() for name in (_OWNER, *([time] if time else []), *channels)}
    series = Series.from_table(columns, id=_OWNER, time=time, columns=list(channels))
    return replace(series, ids=None if ids is None else text_array(ids))


def is_wide(table: Table, options: TableOptions) -> bool:
    """Whether a row is a series, and not a point: only if the columns' names say so; ReadError if nobody can tell."""
    roles, rows = table.roles, len(table.frame)
    if options.wide is not None:
        return options.wide
    if roles.time is not None or options.per_time or roles.words:
        return False
    unique = roles.id is not None and table.frame[roles.id].is_unique
    if roles.id is not None and not unique:
        return False
    grid = numbered(roles.channels)
    if grid is None:
        if not unique or rows == 1:
            return False
        raise table.error(
            f"Got one row per {roles.id!r} and the columns {few(roles.channels)}; expected several "
            "rows per series, or numbered columns, to know what a row is. Write "
            f"{setting('wide', True)} if a row is a series and its columns are points, or "
            f"{setting('wide', False)} if a row is a point."
        )
    points = len(next(iter(grid[0].values())))
    sure = unique or points >= _SERIES or rows <= _SERIES * points
    said = all(map(_is_plain_number, roles.channels)) if table.named else bool(roles.target)
    if not sure and not said:
        raise table.error(
            f"Got {rows} rows of the columns {few(roles.channels)} and no ids; expected to know "
            f"whether a row is a series of {points} points ({setting('wide', True)}), or a point of "
            f"one long series ({setting('wide', False)})."
        )
    return True


def _from_wide(table: Table, options: TableOptions, owner: np.ndarray, ids: np.ndarray | None) -> Layout:
    """A row is a series, its points in numbered columns."""
    roles, frame = table.roles, table.frame
    if roles.time is not None:
        raise ValueError(
            f"Got the time column {roles.time!r} in a wide table; expected none, because its rows are "
            f"whole series. Write {setting('wide', False)} for a row per point."
        )
    grid, others = numbered(roles.channels, strict=True) or ({"x0": list(roles.channels)}, [])
    notes = (f"left out, because they are not numbered as the others are: {listed(others)}",) if others else ()
    channels = list(grid) if len(grid) > 1 else ["x0"]
    first, last = grid[next(iter(grid))], grid[list(grid)[-1]]
    points = len(first)
    check_room(4 * 8 * float(len(frame)) * points * len(grid), table.file, f"{len(frame)} series of {points} points")
    values = np.stack([frame[names].to_numpy() for names in grid.values()], axis=2)
    values = values.astype(values.dtype if values.dtype.kind == "f" else np.float64, copy=False)
    lengths = lengths_without_gaps(values)
    series = Series(
        values[:, : lengths.max()],
        lengths=lengths,
        channels=channels,
        ids=None if ids is None else text_array(ids),
    )
    whose = f"{len(frame)} series, one per row" + (f", by `{roles.id}`" if roles.id else "")
    shape = f"{points} points" if lengths.min() == points else f"{lengths.min()} to {lengths.max()} points"
    named = f"channels {listed(channels)}" if len(channels) > 1 else "one channel"
    return Layout(series, _sentence("wide table", whose, named, f"{shape} ({first[0]} to {last[-1]})"), None, notes)


def _is_plain_number(name: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", name) is not None


def numbered(names: Sequence[str], *, strict: bool = False) -> tuple[dict[str, list[str]], list[str]] | None:
    """The columns of each channel in the order of their numbers, and those without a number; None if not numbered.

    >>> numbered(["x_0", "x_1", "y_0", "y_1"])
    ({'x': ['x_0', 'x_1'], 'y': ['y_0', 'y_1']}, [])
    >>> numbered(["pm2", "pm10", "no2"])
    """
    if all(map(_is_plain_number, names)):
        return {"x0": list(names)}, []
    for form in (_NUMBER_LAST, _NUMBER_FIRST):
        matches = {name: match for name in names if (match := form.fullmatch(name))}
        others = [name for name in names if name not in matches]
        if len(matches) < 2 or (others and (len(matches) < _SERIES or len(others) > 0.2 * len(names))):
            continue
        grid: dict[str, dict[int, str]] = {}
        for name, match in matches.items():
            grid.setdefault(match["stem"], {})[int(match["number"])] = name
        counts = {stem: sorted(row) for stem, row in grid.items()}
        first = next(iter(counts.values()))
        run = all(row == list(range(row[0], row[0] + len(row))) and len(row) > 1 for row in counts.values())
        if run and all(row == first for row in counts.values()) and sum(map(len, grid.values())) == len(matches):
            return {stem: [row[i] for i in sorted(row)] for stem, row in grid.items()}, others
        if strict and run and len(grid) > 1:
            sizes = ", ".join(f"{len(row)} of {stem!r}" for stem, row in list(grid.items())[:5])
            raise ValueError(f"Got {sizes}; expected as many columns, numbered alike, for each channel.")
    return None


def _is_list(cell: object) -> bool:
    return isinstance(cell, np.ndarray | list)


def _has_lists(column: Column) -> bool:
    return column.dtype == object and any(map(_is_list, column))


def _from_lists(table: Table, options: TableOptions, owner: np.ndarray, ids: np.ndarray | None) -> Layout:
    """A row is a series, with a list of numbers for each channel."""
    roles, frame = table.roles, table.frame
    if roles.sensor is not None:
        raise ValueError("Got lists in the cells; expected a row per series then, without `sensor`.")
    columns = [frame[channel].to_numpy(object) for channel in roles.channels]
    for channel, column in zip(roles.channels, columns, strict=True):
        for i, (cell, other) in enumerate(zip(column, columns[0], strict=True)):
            if not (_is_list(cell) and _is_list(other) and len(cell) == len(other) > 0):
                who = f"row {i}" if ids is None else f"id {ids[i]}"
                raise ValueError(
                    f"Got for {who} in column {channel!r} no list as long as that of {roles.channels[0]!r}; expected "
                    "lists of numbers, one for each channel of the series."
                )
    longest = max(map(len, columns[0]))
    check_room(24.0 * len(frame) * longest * (1 + len(columns)), table.file, f"{len(frame)} series")
    series = Series.from_arrays(
        [np.stack([np.asarray(cell) for cell in row], axis=1) for row in zip(*columns, strict=True)],
        times=None if roles.time is None else [np.asarray(clock, np.float64) for clock in frame[roles.time]],
        channels=roles.channels,
        ids=None if ids is None else text_array(ids),
    )
    said = [f"{len(frame)} series, one per row", _time_said(table, "lists"), f"channels {listed(roles.channels)}"]
    return Layout(series, _sentence("table of lists", *said), table.time_unit)


class Labels(NamedTuple):
    """What a table says once for a series, though perhaps in each of its rows: text, "" where there is none."""

    targets: dict[str, np.ndarray]  # by the names of their columns
    groups: np.ndarray | None
    split: np.ndarray | None
    notes: tuple[str, ...] = ()

    @property
    def labelled(self) -> np.ndarray | None:
        """Whether a series has all its targets; None if there is no target at all."""
        return np.all([column != "" for column in self.targets.values()], axis=0) if self.targets else None


def labels_of_series(table: Table, options: TableOptions, owner: np.ndarray, ids: np.ndarray | None) -> Labels:
    """The labels of each series; ReadError if its rows contradict each other, or say nothing."""
    roles = table.roles
    names = () if options.per_time else roles.target
    targets, notes = {name: _one_each(table, name, "target", owner, ids) for name in names}, ()
    if targets and all((column == "").all() for column in targets.values()):
        targets, notes = {}, (f"no target: {listed(roles.target, quoted=True)} is empty",)
    others = {}
    for role, name in (("group", roles.group), ("split", roles.split)):
        others[role] = None if name is None else _one_each(table, name, role, owner, ids)
        if name is not None and (empty := others[role] == "").any():
            who = _who(ids, int(np.argmax(empty)))
            raise table.error(f"Got nothing for {who} in column {name!r}; expected a {role}.")
    labels = Labels(targets, others["group"], others["split"], notes)
    labelled = labels.labelled
    if labelled is not None and not labelled.all() and not options.drop_unlabelled:
        i, more = int(np.argmin(labelled)), int((~labelled).sum()) - 1
        raise table.error(
            f"Got nothing for {_who(ids, i)}{f' (and {more} more)' if more else ''} in column "
            f"{roles.target[0]!r}; expected a target for each series. Write "
            f"{setting('drop_unlabelled', True)} to leave such series out."
        )
    return labels


def _one_each(table: Table, name: str, role: str, owner: np.ndarray, ids: np.ndarray | None) -> np.ndarray:
    """The one label that the rows of each series have in a column."""
    import pandas as pd

    codes, distinct = pd.factorize(table.frame[name])
    labels = pd.Series(codes, dtype=float).where(~is_no_label(table.frame[name]))
    first = labels.groupby(owner).first().to_numpy()  # that is there; -1 is none
    texts = np.append(np.asarray(distinct, object), "")
    differs = labels.notna().to_numpy() & (labels.to_numpy() != first[owner])
    if differs.any():
        row = int(np.argmax(differs))
        if role == "target":
            hint = f" Write {setting('per_time', True)} for a target at each point"
            hint += f", or {setting('wide', True)} if a row is a series." if ids is None else "."
        else:
            hint = f" Write {setting('id', name)} if it says which series a row belongs to." if ids is None else ""
        both = texts[int(first[owner[row]])], texts[codes[row]]
        raise table.error(
            f"Got for {_who(ids, owner[row])} both {both[0]!r} and {both[1]!r} in column {name!r}; expected one for "
            f"all its rows.{hint}",
            row,
        )
    return text_array(texts[np.nan_to_num(first, nan=-1).astype(int)])


def _with_point_targets(table: Table, task: Task | None) -> tuple[Table, tuple[str, ...] | None, str]:
    """The targets at the points of a long table as channels behind the others, their classes, and what they are."""
    names = table.roles.target
    if not names:
        raise ValueError(
            f"Got {setting('per_time', True)} without a target; expected one, {setting('target', 'column')}."
        )
    if len(names) > 1 and task == "classification":
        raise ValueError(f"Got the targets {list(names)} for a classification; expected one.")
    columns, classes, described = {}, None, ""
    for i, name in enumerate(names):
        labels, there = table.frame[name].to_numpy(object), ~is_no_label(table.frame[name])
        target, asked = np.full(len(labels), np.nan), task if len(names) == 1 else "regression"
        target[there], classes, described = classes_or_numbers(labels[there].astype(str), name, asked)
        columns[_TARGET if classes else f"{_TARGET} {i}"] = target
    roles = replace(table.roles, channels=(*table.roles.channels, *columns))
    return replace(table, frame=with_columns(table.frame, columns), roles=roles), classes, described


def owners(table: Table, *, row_is_series: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """For each row the number of its series, and the series' ids in the order in which they appear."""
    import pandas as pd

    id = table.roles.id
    if row_is_series:
        return np.arange(len(table.frame)), None if id is None else table.frame[id].to_numpy(object)
    if id is None:
        return np.zeros(len(table.frame), np.int64), None
    owner, ids = pd.factorize(table.frame[id])
    return owner, np.asarray(ids, object)


def is_no_label(column: Column) -> np.ndarray:
    """Which cells name no class, group or series."""
    import pandas as pd

    codes, distinct = pd.factorize(column)
    absent = [str(label).strip().lower() in NO_LABEL for label in distinct]
    return np.array([*absent, True])[codes]  # pandas gives the code -1 to what is missing


def _who(ids: np.ndarray | None, i: int) -> str:
    return f"series {i}" if ids is None else f"id {ids[i]}"


def _of(ids: np.ndarray | None, i: int) -> str:
    return "" if ids is None else f" for id {ids[int(i)]}"


def _whose(table: Table, ids: np.ndarray | None) -> str:
    return "one series" if ids is None else f"{len(ids)} series by `{table.roles.id}`"


def _time_said(table: Table, kind: str) -> str:
    return "" if table.roles.time is None else f"time from `{table.roles.time}` ({kind})"


def _sentence(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def listed(names: Sequence[str], *, quoted: bool = False) -> str:
    names = [f"`{name}`" if quoted else name for name in names]
    return ", ".join(names if len(names) <= 8 else [*names[:6], f"... ({len(names)} in all)"])


def text_array(texts: np.ndarray) -> np.ndarray:
    """Strings as NumPy keeps them, in equal widths, unless one long one would make them large."""
    widest = max((len(text) for text in texts), default=0)
    return texts if 4 * widest * len(texts) > 2**26 else np.array([str(text) for text in texts])
