"""From a table to a data set: a row per point (long), a row per series (wide), or a row per value (melted)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrde.paths import Series

from .damage import check_room
from .dataset import Dataset
from .errors import ReadError
from .samples import Labels, per_point, per_series
from .table import Table, TableOptions, each_distinct, few
from .targets import Task
from .text import is_missing, is_no_label, lengths_without_gaps
from .times import SINCE_MIDNIGHT, WrongTime, as_times, time_text

_ROW_NUMBERS = re.compile(r"Unnamed: \d+|__index_level_\d+__")
_NUMBER_LAST = re.compile(r"(?P<stem>.*?)[ _.-]?[\[(]?(?P<number>\d+)[\])]?")
_NUMBER_FIRST = re.compile(r"(?P<number>\d+)[ _.-](?P<stem>.*\D.*)")
# So many points per channel are a series; fewer numbered columns may be channels.
_SERIES = 10
_MOST_WORDS = 100


def from_table(table: Table, options: TableOptions, *, task: Task | None = None, name: str = "data") -> Dataset:
    """The series of a table, and in one sentence how it was understood (`Dataset.reading`)."""
    if len(table.frame) == 0:
        raise table.error("Got column names and no rows; expected series.")
    _set_row_numbers_aside(table, options)
    _check_ids(table)
    try:
        if _has_lists(table):
            return _from_lists(table, options, task, name)
        _check_numbers(table, options)
        if table.roles.sensor is not None:
            return _from_melted(table, options, task, name)
        if _is_wide(table, options):
            return _from_wide(table, options, task, name)
        return _from_long(table, options, task, name)
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, ReadError) else table.error(str(error)) from None


def _set_row_numbers_aside(table: Table, options: TableOptions) -> None:
    """Row numbers, which pandas and R write in a column without a name, are no channel; dates there are times."""
    roles = table.roles
    for name in [name for name in roles.channels if _ROW_NUMBERS.fullmatch(name) and options.columns is None]:
        column = table.frame[name]
        others = tuple(channel for channel in roles.channels if channel != name)
        if column.dtype.kind in "fiu":
            values, start, numbers = column.to_numpy(np.float64), 0, True
            for source in table.sources:
                part = values[start : start + len(source.rows)]
                start += len(part)
                numbers = numbers and len(np.unique(part)) == len(part) and (part == np.floor(part)).all()
            if numbers or np.isnan(values).all():
                roles = replace(roles, channels=others)
                table.notes.append(f"`{name}` left out (row numbers)")
        elif name == "Unnamed: 0" and roles.time is None and _are_times(column):
            roles = replace(roles, channels=others, time=name)
        elif name == "Unnamed: 0":
            raise table.error(
                f"Got the first column without a name, and {column.iloc[0]!r} in it; expected a name, or row numbers. "
                'Write `id="Unnamed: 0"`, `target="Unnamed: 0"` or the like to say what it is.'
            )
    if not roles.channels and roles.sensor is None:
        raise table.error("Got no channel; expected a column of numbers beside ids, times and targets.")
    table.roles = roles


def _are_times(column) -> bool:
    try:
        as_times(column)
    except WrongTime as error:
        return "time_format" in str(error) and "expected to be told" in str(error)
    return True


def _check_ids(table: Table) -> None:
    if table.roles.id is None:
        return
    absent = each_distinct(table.frame[table.roles.id], is_no_label).astype(bool)
    if absent.any():
        raise _without_ids(table).error(
            f"Got a row without {table.roles.id!r}; expected one in each, because it belongs to no series without.",
            int(np.argmax(absent)),
        )


def _without_ids(table: Table) -> Table:
    """The table without its ids, for an error about a row that has none."""
    return replace(table, roles=replace(table.roles, id=None))


def _check_numbers(table: Table, options: TableOptions) -> None:
    """Channels are finite numbers; columns of words become a channel per word, if asked for."""
    _spread_words(table, options)
    roles = table.roles
    for name in roles.numeric:
        column = table.frame[name]
        if column.dtype.kind not in "fiub":
            row, cell = table.words.get(name, (0, str(column.iloc[0])))
            melted = ' or the table is melted (`sensor="column of names"`, `value="column of numbers"`)'
            raise table.error(
                f"Got {cell[:40]!r} in column {name!r}; expected a number. Write `columns=[...]` "
                f"without it to leave it "
                f"out, or `one_hot=[{name!r}]` for a channel per word, if it holds words"
                f"{melted if 'value' in map(str.lower, roles.channels) else ''}.",
                row,
            )
        values = column.to_numpy()
        if values.dtype.kind == "f" and np.isinf(values).any():
            raise table.error(
                f"Got infinity in column {name!r}; expected finite numbers, or an empty cell where there is none.",
                int(np.argmax(np.isinf(values))),
            )


def _spread_words(table: Table, options: TableOptions) -> None:
    """One-hot channels: `sex` with the words f and m becomes `sex=f` and `sex=m`, NaN where the cell is empty."""
    roles, asked = table.roles, options.one_hot or ()
    if asked is True:
        asked = [name for name in roles.channels if table.frame[name].dtype.kind == "O"]
    unknown = [name for name in asked if name not in (*roles.channels, *roles.words)]
    if unknown:
        raise table.error(
            f"Got `one_hot={list(asked)}` and the channels {few(roles.channels)}; expected some of these."
        )
    channels, all_words = list(roles.channels), {}
    for name in dict.fromkeys([*asked, *roles.words]):
        cells = np.array([_word(cell) for cell in table.frame[name]], dtype=object)
        absent = np.array([is_missing(cell) for cell in cells])
        words = roles.words.get(name) or sorted(set(cells[~absent]))
        strange = ~absent & ~np.isin(cells.astype(str), words)
        if strange.any():
            row = int(np.argmax(strange))
            raise table.error(
                f"Got {cells[row][:40]!r} in column {name!r}; expected one of {few(words)}, as told.", row
            )
        if len(words) > _MOST_WORDS:
            raise table.error(
                f"Got {len(words)} different words in column {name!r}; expected at most "
                f"{_MOST_WORDS} for a channel each. "
                "Is it an id, or a note?"
            )
        spread = [f"{name}={word}" for word in words]
        for channel, word in zip(spread, words, strict=True):
            table.frame[channel] = np.where(absent, np.nan, (cells == word).astype(np.float64))
        place = channels.index(name) if name in channels else len(channels)
        channels[place : place + 1] = spread
        all_words[name] = words
        table.notes.append(f"a channel per word of `{name}`")
    if options.columns is not None and roles.words:  # in the order asked for
        channels = [str(name) for name in options.columns]
    table.roles = replace(roles, channels=tuple(channels), words=all_words)


def _word(cell: object) -> str:
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else str(int(cell)) if float(cell).is_integer() else str(cell)
    return str(cell).strip()


# Long: a row per point.


def _from_long(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
    _check_whole_rows(table)
    roles, frame = table.roles, table.frame
    owner, ids = _owners(table)
    times, unit, kind = _times(table, options)
    _check_midnight(table, owner, ids, times, unit)
    labels = per_series(table, options, owner, ids, len(ids), targets=not options.per_time)
    columns: dict[str, Any] = {channel: frame[channel].to_numpy() for channel in roles.channels}
    targets = per_point(table, task) if options.per_time else None
    for i, column in enumerate(targets.columns if targets else ()):
        columns[f"\0{i}"] = column
    points = _Points(owner, times, columns)
    points = _without_duplicates(table, options, points, ids, unit, classes=bool(targets and targets.classes))
    series = _packed(table, points, ids)
    said = [_whose(table, ids), _time_said(table, kind), f"channels {_listed(roles.channels)}"]
    constant = _constant(points, roles.channels, len(ids))
    if constant:
        table.notes.append(f"constant within each series: {_listed(constant)} (`columns=[...]` leaves columns out)")
    return _finish(table, options, series, labels, targets, task, name, unit, f"long table, {_joined(said)}")


@dataclass(frozen=True)
class _Points:
    owner: np.ndarray
    times: np.ndarray | None
    columns: dict[str, np.ndarray]

    def rows(self, rows: np.ndarray) -> "_Points":
        times = None if self.times is None else self.times[rows]
        return _Points(self.owner[rows], times, {name: column[rows] for name, column in self.columns.items()})


def _owners(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """For each row the number of its series, and the series' ids in the order in which they appear."""
    import pandas as pd

    if table.roles.id is None:
        return np.zeros(len(table.frame), np.int64), np.array([None], dtype=object)
    owner, ids = pd.factorize(table.frame[table.roles.id])
    return owner, np.asarray(ids, dtype=object)


def _times(table: Table, options: TableOptions) -> tuple[np.ndarray | None, str | None, str]:
    if table.roles.time is None:
        if options.time_format is not None:
            raise ValueError(f"Got `time_format={options.time_format!r}` and no column of times; expected `time=`.")
        return None, None, ""
    try:
        return as_times(table.frame[table.roles.time], time_format=options.time_format)
    except WrongTime as error:
        got, _, rest = str(error).partition(";")
        where = f" in column {table.roles.time!r}"
        raise table.error(f"{got}{where};{rest}" if rest else f"{got}{where}", error.row) from None


def _check_midnight(table: Table, owner, ids, times, unit) -> None:
    """Clock times that start again would be sorted into the wrong order."""
    if unit != SINCE_MIDNIGHT:
        return
    order = np.argsort(owner, kind="stable")
    back = (np.diff(times[order]) < -43200) & (np.diff(owner[order]) == 0)
    if back.any():
        row = int(order[int(np.argmax(back)) + 1])
        raise table.error(
            f"Got the clock time {time_text(times[row], unit)} after a later "
            f"one{_of(ids, owner[row])}, as past midnight; "
            "expected clock times within one day. Write dates with them.",
            row,
        )


def _without_duplicates(table, options: TableOptions, points: _Points, ids, unit, *, classes: bool) -> _Points:
    if points.times is None:
        return points
    order = np.lexsort((points.times, points.owner))
    owner, times = points.owner[order], points.times[order]
    again = np.concatenate([[False], (np.diff(owner) == 0) & (np.diff(times) == 0)])
    if not again.any():
        return points
    first = int(np.argmax(again))
    count = int(again.sum())
    if options.duplicates == "error":
        by_name = f" The column {table.roles.time!r} was taken for the time by its name." if _guessed(table) else ""
        more = f" (and {count - 1} more such rows)" if count > 1 else ""
        raise table.error(
            f"Got the time {time_text(times[first], unit)} twice{_of(ids, owner[first])}{more}; "
            f"expected times that differ, "
            "because a path has one value at a time. "
            f'Write `duplicates="mean"`, "first" or "last" to merge such rows.{by_name}',
            int(order[first]),
        )
    table.notes.append(f"{count} rows of duplicated times merged ({options.duplicates})")
    group = np.cumsum(~again) - 1
    starts = np.flatnonzero(~again)
    if options.duplicates != "mean":
        ends = np.append(starts[1:], len(order)) - 1
        return points.rows(order[starts if options.duplicates == "first" else ends])
    merged = {}
    for name, column in points.columns.items():
        values = column[order].astype(np.float64)
        there = ~np.isnan(values)
        if classes and name.startswith("\0") and _differ(values, group, there):
            raise ValueError('Got different classes at one time; expected one. Write `duplicates="first"` or "last".')
        sums = np.bincount(group, np.where(there, values, 0.0))
        counts = np.bincount(group, there)
        mean = np.divide(sums, counts, out=np.full(len(starts), np.nan), where=counts > 0)
        # A mean of one is that one, to the last bit.
        alone = np.bincount(group) == 1
        mean[alone] = values[starts][alone]
        merged[name] = mean.astype(column.dtype if column.dtype.kind == "f" else np.float64)
    return _Points(owner[starts], times[starts], merged)


def _differ(values, group, there) -> bool:
    import pandas as pd

    return bool((pd.Series(values[there]).groupby(group[there]).nunique() > 1).any())


def _packed(table: Table, points: _Points, ids) -> Series:
    lengths = np.bincount(points.owner, minlength=len(ids))
    size = 3 * 8 * float(len(ids)) * lengths.max() * (1 + len(points.columns))
    check_room(size, table.file, f"{len(ids)} series, padded to {lengths.max()} points,", "Cut the longest ones.")
    columns: dict[str, Any] = {"\0id": points.owner, **points.columns}
    if points.times is not None:
        columns["\0time"] = points.times
    series = Series.from_table(
        columns, id="\0id", time=None if points.times is None else "\0time", columns=list(points.columns)
    )
    assert series.ids is not None
    named = None if table.roles.id is None else text_array(ids[series.ids])
    return Series(series.values, times=series.times, lengths=series.lengths, channels=series.channels, ids=named)


def text_array(texts: np.ndarray) -> np.ndarray:
    """Strings as NumPy keeps them, in equal widths, unless one long one would make them large."""
    widest = max((len(text) for text in texts), default=0)
    return texts if 4 * widest * len(texts) > 2**26 else np.array([str(text) for text in texts])


def _constant(points: _Points, channels: Sequence[str], count: int) -> list[str]:
    """Channels that never change within a series, if two series or more had the chance."""
    if count < 2 or len(points.owner) == count:
        return []
    order = np.argsort(points.owner, kind="stable")
    starts = np.flatnonzero(np.diff(points.owner[order], prepend=-1))
    found = []
    for name in channels:
        values = points.columns[name][order].astype(np.float64)
        low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
        chances = np.add.reduceat(~np.isnan(values), starts, dtype=np.int64) > 1
        if ((low == high) | np.isnan(low)).all() and chances.sum() > 1:
            found.append(name)
    return found


# Melted: a row per value.


def _from_melted(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
    import pandas as pd

    _check_whole_rows(table)
    roles, frame = table.roles, table.frame
    if options.per_time:
        raise ValueError("Got `per_time=True` for a melted table; expected a target per series.")
    if roles.time is None:
        raise ValueError(
            f"Got `sensor={roles.sensor!r}` and no column of times; expected `time=`, to know which "
            f"values belong together."
        )
    owner, ids = _owners(table)
    times, unit, kind = _times(table, options)
    assert times is not None
    _check_midnight(table, owner, ids, times, unit)
    labels = per_series(table, options, owner, ids, len(ids))
    absent = each_distinct(frame[roles.sensor], is_no_label).astype(bool)
    if absent.any():
        raise table.error(f"Got no name in column {roles.sensor!r}; expected one.", int(np.argmax(absent)))
    sensor, names = pd.factorize(frame[roles.sensor])
    names = [str(one) for one in names]
    kept = np.arange(len(frame))
    if options.columns is not None:
        wanted = [str(one) for one in options.columns]
        lost = [one for one in wanted if one not in names]
        if lost:
            raise ValueError(f"Got no sensor {few(lost)}; expected it, as told, among {few(names)}.")
        kept = np.flatnonzero(np.isin(sensor, [names.index(one) for one in wanted]))
        sensor = np.array([wanted.index(one) if one in wanted else -1 for one in names])[sensor]
        names = wanted
    values = frame[roles.value].to_numpy(np.float64)
    # One series per id and sensor first, in which a time must not come twice.
    points = _Points(owner[kept] * len(names) + sensor[kept], times[kept], {"value": values[kept]})
    who = np.array(
        [f"{id}, sensor {one}" if id is not None else f"sensor {one}" for id in ids for one in names], object
    )
    points = _without_duplicates(table, options, points, who, unit, classes=False)
    place = pd.DataFrame({"owner": points.owner // len(names), "time": points.times})
    moment = place.groupby(["owner", "time"], sort=True).ngroup().to_numpy()
    size = 3 * 8 * float(moment.max() + 1) * len(names)
    check_room(size, table.file, f"{moment.max() + 1} points of {len(names)} sensors")
    grid = np.full((moment.max() + 1, len(names)), np.nan)
    grid[moment, points.owner % len(names)] = points.columns["value"]
    first = np.zeros(len(grid), np.int64)
    first[moment] = np.arange(len(moment))
    clock = place["time"].to_numpy()[first]
    whole = _Points(place["owner"].to_numpy()[first], clock, {one: grid[:, i] for i, one in enumerate(names)})
    if len(np.unique(whole.owner)) < len(ids):
        lost = ids[np.setdiff1d(np.arange(len(ids)), whole.owner)[0]]
        raise ValueError(f"Got none of the sensors {few(names)} for id {lost}; expected values of one of them.")
    series = _packed(table, whole, ids)
    said = [_whose(table, ids), _time_said(table, kind), f"channels {_listed(names)} from `{roles.sensor}`"]
    return _finish(table, options, series, labels, None, task, name, unit, f"melted table, {_joined(said)}")


# Wide: a row per series.


def _from_wide(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
    roles, frame = table.roles, table.frame
    if roles.time is not None:
        raise ValueError(
            f"Got the time column {roles.time!r} in a wide table; expected none, because its rows "
            f"are whole series. Write "
            "`wide=False` for a row per point."
        )
    if options.per_time:
        raise ValueError("Got `per_time=True` for a table with a row per series; expected a row per point.")
    grid = _numbered(roles.channels, strict=True)
    if grid is None:
        grid, others = {"x0": list(roles.channels)}, []
    else:
        grid, others = grid
    if others:
        table.notes.append(f"left out, because they are not numbered as the others are: {_listed(others)}")
    channels = list(grid) if len(grid) > 1 else ["x0"]
    points = len(next(iter(grid.values())))
    check_room(4 * 8 * float(len(frame)) * points * len(grid), table.file, f"{len(frame)} series of {points} points")
    values = np.stack([_matrix(frame, names) for names in grid.values()], axis=2)
    lengths = lengths_without_gaps(values)
    ids = np.arange(len(frame)).astype(object) if roles.id is None else frame[roles.id].to_numpy(object)
    series = Series(
        values[:, : lengths.max()],
        lengths=lengths,
        channels=channels,
        ids=None if roles.id is None else text_array(ids),
    )
    owner = np.arange(len(frame))
    labels = per_series(table, options, owner, ids if roles.id is not None else None, len(frame))
    shape = f"{points} points" if lengths.min() == points else f"{lengths.min()} to {lengths.max()} points"
    whose = f"{len(frame)} series, one per row" + (f", by `{roles.id}`" if roles.id else "")
    named = f"channels {_listed(channels)}" if len(channels) > 1 else "one channel"
    columns = f"{named}, {shape} ({grid[next(iter(grid))][0]} to {grid[list(grid)[-1]][-1]})"
    return _finish(table, options, series, labels, None, task, name, None, f"wide table, {whose}, {columns}")


def _matrix(frame, names: list[str]) -> np.ndarray:
    values = frame[names].to_numpy()
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _is_wide(table: Table, options: TableOptions) -> bool:
    """Whether a row is a series, and not a point: only if the columns' names say so; ReadError if nobody can tell."""
    roles, rows = table.roles, len(table.frame)
    if options.wide is not None:
        return options.wide
    if roles.time is not None or options.per_time or roles.words:
        return False
    unique = roles.id is not None and table.frame[roles.id].nunique() == rows
    if roles.id is not None and not unique:
        return False
    numbered = _numbered(roles.channels)
    if numbered is None:
        if not unique or rows == 1:
            return False
        raise table.error(
            f"Got one row per {roles.id!r} and the columns {few(roles.channels)}; expected several "
            f"rows per series, or "
            "numbered columns, to know what a row is. Write `wide=True` if a row is a series and "
            "its columns are points, "
            "or `wide=False` if a row is a point."
        )
    points = len(next(iter(numbered[0].values())))
    sure = unique or points >= _SERIES or rows <= _SERIES * points
    said = (table.named and all(map(_is_plain_number, roles.channels))) or (not table.named and bool(roles.target))
    if not sure and not said:
        raise table.error(
            f"Got {rows} rows of the columns {few(roles.channels)} and no ids; expected to be told whether a row is a "
            f"series of {points} points (`wide=True`), or a point of one long series (`wide=False`)."
        )
    return True


def _is_plain_number(name: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", name) is not None


def _numbered(names: Sequence[str], *, strict: bool = False) -> tuple[dict[str, list[str]], list[str]] | None:
    """The columns of each channel in the order of their numbers, and those without a number; None if not numbered.

    >>> _numbered(["x_0", "x_1", "y_0", "y_1"])
    ({'x': ['x_0', 'x_1'], 'y': ['y_0', 'y_1']}, [])
    >>> _numbered(["pm2", "pm10", "no2"])
    """
    if all(map(_is_plain_number, names)):
        return {"x0": list(names)}, []
    for form in (_NUMBER_LAST, _NUMBER_FIRST):
        found = {name: match for name in names if (match := form.fullmatch(name))}
        others = [name for name in names if name not in found]
        if len(found) < 2 or (others and (len(found) < _SERIES or len(others) > 0.2 * len(names))):
            continue
        grid: dict[str, dict[int, str]] = {}
        for name, match in found.items():
            grid.setdefault(match["stem"], {})[int(match["number"])] = name
        counts = {stem: sorted(row) for stem, row in grid.items()}
        first = next(iter(counts.values()))
        run = all(row == list(range(row[0], row[0] + len(row))) and len(row) > 1 for row in counts.values())
        if run and all(row == first for row in counts.values()) and sum(map(len, grid.values())) == len(found):
            return {stem: [row[i] for i in sorted(row)] for stem, row in grid.items()}, others
        if strict and run and len(grid) > 1:
            sizes = ", ".join(f"{len(row)} of {stem!r}" for stem, row in list(grid.items())[:5])
            raise ValueError(f"Got {sizes}; expected as many columns, numbered alike, for each channel.")
    return None


# A row per series, with lists in its cells.


def _has_lists(table: Table) -> bool:
    for name in table.roles.numeric:
        column = table.frame[name]
        if column.dtype.kind == "O" and any(isinstance(cell, np.ndarray | list) for cell in column):
            return True
    return False


def _from_lists(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
    roles, frame = table.roles, table.frame
    if options.per_time or roles.sensor is not None:
        raise ValueError("Got lists in the cells; expected a row per series then, without `per_time` and `sensor`.")
    columns = [frame[channel].to_numpy(object) for channel in roles.channels]
    for channel, column in zip(roles.channels, columns, strict=True):
        for i, cell in enumerate(column):
            there = isinstance(cell, np.ndarray | list) and isinstance(columns[0][i], np.ndarray | list)
            if not there or len(cell) != len(columns[0][i]) or len(cell) == 0:
                who = f"row {i}" if roles.id is None else f"id {frame[roles.id].iloc[i]}"
                raise ValueError(
                    f"Got for {who} in column {channel!r} no list as long as that of "
                    f"{roles.channels[0]!r}; expected lists "
                    "of numbers, one for each channel of the series."
                )
    lengths = np.array([len(cell) for cell in columns[0]])
    check_room(24.0 * len(frame) * lengths.max() * (1 + len(columns)), table.file, f"{len(frame)} series")
    points = [np.stack([np.asarray(c[i]) for c in columns], axis=1) for i in range(len(frame))]
    times = None if roles.time is None else [np.asarray(clock, np.float64) for clock in frame[roles.time]]
    ids = None if roles.id is None else frame[roles.id].to_numpy(object)
    series = Series.from_arrays(
        points, times=times, channels=roles.channels, ids=None if ids is None else text_array(ids)
    )
    labels = per_series(table, options, np.arange(len(frame)), ids, len(frame))
    said = [f"{len(frame)} series, one per row", _time_said(table, "lists"), f"channels {_listed(roles.channels)}"]
    return _finish(
        table, options, series, labels, None, task, name, table.time_unit, f"table of lists, {_joined(said)}"
    )


# What all have in common.


def _finish(table, options, series, labels: Labels, targets, task, name, unit, reading: str) -> Dataset:
    """Targets, groups and parts put beside the series, and the sentence completed."""
    roles = table.roles
    there: Any  # which series have a target; None if there is none to have
    if targets is not None:
        values = np.where(series.valid[..., None], series.values[..., len(roles.channels) :], np.nan)
        series = Series(
            series.values[..., : len(roles.channels)],
            times=series.times,
            lengths=series.lengths,
            channels=roles.channels,
            ids=series.ids,
        )
        target = np.nan_to_num(values[..., 0], nan=-1).astype(np.int64) if targets.classes else values
        fields: dict[str, Any] = {"target": target, "classes": targets.classes}
        said = f"target {_listed(roles.target, quoted=True)} at each point ({targets.why})"
        known = np.asarray(target >= 0) if targets.classes else np.asarray(~np.isnan(target).all(axis=2))
        there = known.any(axis=1)
    else:
        fields, said = labels.target(task)
        there = labels.labelled
    parts = [reading, *([said] if said else [])]
    data = None
    if options.drop_unlabelled and there is not None and not there.all():
        lost = int((~there).sum())
        if lost == len(there):
            raise ValueError("Got no series with a target; expected some. Leave `drop_unlabelled` out.")
        table.notes.append(f"{lost} series without a target left out")
        data = Dataset(
            series[there],
            **{
                key: value[there] if key == "target" and targets is not None else value for key, value in fields.items()
            },
            **labels.others(there),
            name=name,
        )
    else:
        data = Dataset(series, **fields, **labels.others(None), name=name)
    return replace(data, time_unit=unit, reading="; ".join([", ".join(parts), *table.notes]))


def _check_whole_rows(table: Table) -> None:
    for source in table.sources:
        short = source.short()
        if short is not None:
            raise ReadError(source.file, short[1], line=short[0])


def _guessed(table: Table) -> bool:
    return "time" in table.roles.guessed


def _whose(table: Table, ids) -> str:
    return "one series" if table.roles.id is None else f"{len(ids)} series by `{table.roles.id}`"


def _time_said(table: Table, kind: str) -> str:
    return "" if table.roles.time is None else f"time from `{table.roles.time}` ({kind})"


def _of(ids, owner: int) -> str:
    return "" if ids[owner] is None else f" for id {ids[owner]}"


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)


def _listed(names: Sequence[str], *, quoted: bool = False) -> str:
    names = [f"`{name}`" if quoted else name for name in names]
    return ", ".join(names if len(names) <= 8 else [*names[:6], f"... ({len(names)} in all)"])
