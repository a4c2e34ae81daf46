"""Tables with a row per point (long), or a row per value (melted)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrde.paths import Series

from ..dataset import Dataset
from ..errors import ReadError, check_room
from ..targets import Task
from ..text import is_no_label
from .samples import finish, joined, listed, owners, per_point, per_series, text_array, time_said
from .table import Table, TableOptions, each_distinct, few
from .times import SINCE_MIDNIGHT, WrongTime, as_times, time_text


def from_long(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
    _check_whole_rows(table)
    roles, frame = table.roles, table.frame
    owner, ids = owners(table)
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
    said = [_whose(table, ids), time_said(table, kind), f"channels {listed(roles.channels)}"]
    constant = _constant(points, roles.channels, len(ids))
    if constant:
        table.notes.append(f"constant within each series: {listed(constant)} (`columns=[...]` leaves columns out)")
    return finish(table, options, series, labels, targets, task, name, unit, f"long table, {joined(said)}")


def from_melted(table: Table, options: TableOptions, task: Task | None, name: str) -> Dataset:
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
    owner, ids = owners(table)
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
            raise ValueError(f"Got no sensor {few(lost)}; expected one of {few(names)}.")
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
    said = [_whose(table, ids), time_said(table, kind), f"channels {listed(names)} from `{roles.sensor}`"]
    return finish(table, options, series, labels, None, task, name, unit, f"melted table, {joined(said)}")


@dataclass(frozen=True)
class _Points:
    owner: np.ndarray
    times: np.ndarray | None
    columns: dict[str, np.ndarray]

    def rows(self, rows: np.ndarray) -> "_Points":
        times = None if self.times is None else self.times[rows]
        return _Points(self.owner[rows], times, {name: column[rows] for name, column in self.columns.items()})


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
            f"Got the clock time {time_text(times[row], unit)} after a later one{_of(ids, owner[row])}, as past "
            "midnight; expected clock times within one day. Write dates with them.",
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
            f"Got the time {time_text(times[first], unit)} twice{_of(ids, owner[first])}{more}; expected times that "
            "differ, because a path has one value at a time. "
            f'Write `duplicates="mean"`, `duplicates="first"` or `duplicates="last"` to merge such rows.{by_name}',
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
            raise ValueError('Got different classes at one time; expected one. Write `duplicates="first"`.')
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
    return replace(series, ids=named)


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


def _check_whole_rows(table: Table) -> None:
    for source in table.sources:
        short = source.short()
        if short is not None:
            raise ReadError(source.file, short[1], line=short[0])


def _whose(table: Table, ids) -> str:
    return "one series" if table.roles.id is None else f"{len(ids)} series by `{table.roles.id}`"


def _of(ids, owner: int) -> str:
    return "" if ids[owner] is None else f" for id {ids[owner]}"


def _guessed(table: Table) -> bool:
    return "time" in table.roles.guessed
