"""Tables with a row per series: its points in numbered columns (wide), or in lists within the cells."""

import re
from collections.abc import Sequence

import numpy as np

from neuralrde.paths import Series

from ..dataset import Dataset
from ..errors import check_room
from ..targets import Task
from ..text import lengths_without_gaps
from .samples import finish, joined, listed, per_series, text_array, time_said
from .table import Table, TableOptions, few

_NUMBER_LAST = re.compile(r"(?P<stem>.*?)[ _.-]?[\[(]?(?P<number>\d+)[\])]?")
_NUMBER_FIRST = re.compile(r"(?P<number>\d+)[ _.-](?P<stem>.*\D.*)")
# So many points per channel are a series; fewer numbered columns may be channels.
_SERIES = 10


def is_wide(table: Table, options: TableOptions) -> bool:
    """Whether a row is a series, and not a point: only if the columns' names say so; ReadError if nobody can tell."""
    roles, rows = table.roles, len(table.frame)
    if options.wide is not None:
        return options.wide
    if roles.time is not None or options.per_time or roles.words:
        return False
    unique = roles.id is not None and table.frame[roles.id].nunique() == rows
    if roles.id is not None and not unique:
        return False
    found = numbered(roles.channels)
    if found is None:
        if not unique or rows == 1:
            return False
        raise table.error(
            f"Got one row per {roles.id!r} and the columns {few(roles.channels)}; expected several rows per series, "
            "or numbered columns, to know what a row is. Write `wide=True` if a row is a series and its columns are "
            "points, or `wide=False` if a row is a point."
        )
    points = len(next(iter(found[0].values())))
    sure = unique or points >= _SERIES or rows <= _SERIES * points
    said = (table.named and all(map(_is_plain_number, roles.channels))) or (not table.named and bool(roles.target))
    if not sure and not said:
        raise table.error(
            f"Got {rows} rows of the columns {few(roles.channels)} and no ids; expected to know whether a row is a "
            f"series of {points} points (`wide=True`), or a point of one long series (`wide=False`)."
        )
    return True


def from_wide(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
    roles, frame = table.roles, table.frame
    if roles.time is not None:
        raise ValueError(
            f"Got the time column {roles.time!r} in a wide table; expected none, because its rows are whole series. "
            "Write `wide=False` for a row per point."
        )
    if options.per_time:
        raise ValueError("Got `per_time=True` for a table with a row per series; expected a row per point.")
    grid = numbered(roles.channels, strict=True)
    if grid is None:
        grid, others = {"x0": list(roles.channels)}, []
    else:
        grid, others = grid
    if others:
        table.notes.append(f"left out, because they are not numbered as the others are: {listed(others)}")
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
    named = f"channels {listed(channels)}" if len(channels) > 1 else "one channel"
    columns = f"{named}, {shape} ({grid[next(iter(grid))][0]} to {grid[list(grid)[-1]][-1]})"
    return finish(table, options, series, labels, None, task, name, None, f"wide table, {whose}, {columns}")


def _matrix(frame, names: list[str]) -> np.ndarray:
    values = frame[names].to_numpy()
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


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


def has_lists(table: Table) -> bool:
    for name in table.roles.numeric:
        column = table.frame[name]
        if column.dtype.kind == "O" and any(isinstance(cell, np.ndarray | list) for cell in column):
            return True
    return False


def from_lists(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
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
                    f"Got for {who} in column {channel!r} no list as long as that of {roles.channels[0]!r}; expected "
                    "lists of numbers, one for each channel of the series."
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
    said = [f"{len(frame)} series, one per row", time_said(table, "lists"), f"channels {listed(roles.channels)}"]
    return finish(table, options, series, labels, None, task, name, table.time_unit, f"table of lists, {joined(said)}")
