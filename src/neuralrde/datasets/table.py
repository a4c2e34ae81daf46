"""From the columns of a table to a data set: which column is what, and rows to series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrde.paths import Series

from .dataset import Dataset
from .errors import ReadError
from .targets import Task, is_classes, number_classes
from .text import is_no_label, lengths_without_gaps

# Names by which a column is known for what it is, unless the caller says otherwise; any case.
USUAL = {
    "id": ("id",),
    "time": ("time", "t", "timestamp"),
    "target": ("target", "label", "class"),
    "group": ("group", "patient", "subject", "speaker"),
    "split": ("split",),
}


@dataclass(frozen=True)
class Roles:
    """Which column of a table is what; None where there is no such column."""

    id: str | None
    time: str | None
    target: str | None
    group: str | None
    split: str | None
    channels: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """The columns that are names rather than numbers."""
        return [name for name in (self.id, self.target, self.group, self.split) if name is not None]


def find_roles(
    names: Sequence[str], file: Any, *, columns: Sequence[str] | None = None, **given: str | int | None
) -> Roles:
    """Which column is what: as given, or else by the usual names; all other columns are channels."""
    found: dict[str, str | None] = {role: str(name) for role, name in given.items() if name is not None}
    for role, name in found.items():
        if name not in names:
            raise ReadError(
                file, f"Got {role}={name!r} and the columns {_few(names)}; expected the name of one of them."
            )
    if len(set(found.values())) < len(found):
        raise ReadError(file, f"Got one column for two of {found}; expected a column for each.")
    free = [name for name in names if name not in found.values() and name not in (columns or ())]
    for role, usual in USUAL.items():
        found.setdefault(role, next((name for name in free if name.lower() in usual), None))
    taken = [name for name in found.values() if name is not None]
    if columns is None:
        channels = tuple(name for name in names if name not in taken)
    else:
        channels = tuple(map(str, columns))
        absent = [name for name in channels if name not in names]
        if absent:
            raise ReadError(file, f"Got columns={absent} and the columns {_few(names)}; expected some of these.")
    labels = {role: name for role, name in found.items() if role != "time" and name in channels}
    if labels:
        role, name = next(iter(labels.items()))
        raise ReadError(
            file,
            f"Got the column {name!r} as {role} and as a channel; expected one of them, because a channel is what a "
            f"model sees. Leave {name!r} out of the columns, or name another {role}.",
        )
    if not channels:
        raise ReadError(file, f"Got only the columns {_few(names)}; expected a channel beside them.")
    return Roles(**found, channels=channels)  # type: ignore


def from_table(
    table: Mapping[str, np.ndarray],
    roles: Roles,
    *,
    file: Any,
    wide: bool | None = None,
    per_time: bool = False,
    task: Task | None = None,
    name: str = "data",
) -> Dataset:
    """A data set from columns: long, a row a point; wide, a row a series; or a row a series in lists.

    Args:
        table: columns of one length; those of channels and times are numbers, or lists of numbers.
        wide: whether a row is a series; None decides, see `is_wide`.
    """
    rows = len(table[roles.channels[0]])
    if rows == 0:
        raise ReadError(file, "Got column names and no rows; expected series.")
    ids = None if roles.id is None else table[roles.id]
    if ids is not None and any(map(is_no_label, np.unique(ids))):
        raise ReadError(
            file,
            f"Got a row without {roles.id!r}; expected one in each, because it belongs to no series without.",
        )
    try:
        if table[roles.channels[0]].dtype == object:
            series, owner = _from_lists(table, roles, ids), np.arange(rows)
        elif is_wide(table, roles, wide):
            if roles.time is not None:
                raise ValueError(
                    f"Got the time column {roles.time!r} in a wide table; expected none, because its rows "
                    "are whole series. Write wide=False for a row a point."
                )
            series, owner = _from_wide(table, roles, ids), np.arange(rows)
        else:
            return _from_long(table, roles, ids, per_time, task, name, file)
        if per_time:
            raise ValueError("Got per_time=True for a table of a row a series; expected a row a point.")
        return Dataset(series, **_of_samples(table, roles, owner, rows), task=task, name=name)
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, ReadError) else ReadError(file, str(error)) from None


def is_wide(table: Mapping[str, np.ndarray], roles: Roles, wide: bool | None = None) -> bool:
    """Whether a row is a series, and not a point: no times, and no series with two rows."""
    if wide is not None or roles.time is not None:
        return bool(wide)
    return roles.id is None or len(np.unique(table[roles.id])) == len(table[roles.id]) > 1


def _from_lists(table, roles: Roles, ids) -> Series:
    columns = [table[name] for name in roles.channels]
    for name, column in zip(roles.channels, columns, strict=True):
        for i, cell in enumerate(column):
            if cell is None or np.ndim(cell) != 1 or len(cell) != len(columns[0][i]):
                raise ValueError(
                    f"Got in row {i} of column {name!r} no list as long as that of {roles.channels[0]!r}; "
                    "expected lists of numbers, one for each channel of the series."
                )
    points = [np.stack([np.asarray(c[i], np.float64) for c in columns], axis=1) for i in range(len(columns[0]))]
    times = None if roles.time is None else [np.asarray(clock) for clock in table[roles.time]]
    return Series.from_arrays(points, times=times, channels=roles.channels, ids=ids)


def _from_wide(table, roles: Roles, ids) -> Series:
    values = np.stack([table[name] for name in roles.channels], axis=1)
    lengths = lengths_without_gaps(values[..., None])
    return Series(values[:, : lengths.max(), None], lengths=lengths, ids=ids)


def _from_long(table, roles: Roles, ids, per_time, task, name, file) -> Dataset:
    rows = len(table[roles.channels[0]])
    columns: dict[str, np.ndarray] = {name: table[name] for name in roles.channels}
    key, clock, extra = "\0id", "\0time", "\0target"  # names that no column has
    columns[key] = np.zeros(rows, int) if ids is None else ids
    if roles.time is not None:
        columns[clock] = table[roles.time]
    classes = None
    if per_time:
        if roles.target is None:
            raise ValueError('Got per_time=True without a target; expected one, `target="column"`.')
        columns[extra], classes = _numbered(table[roles.target], task)
    channels = [*roles.channels, *([extra] if per_time else [])]
    series = Series.from_table(columns, id=key, time=None if roles.time is None else clock, columns=channels)
    assert series.ids is not None
    place = {id: i for i, id in enumerate(series.ids.tolist())}
    owner = np.array([place[id] for id in columns[key].tolist()])
    target = None
    if per_time:
        # The target went through as one more channel, to be sorted and padded with the points.
        target = np.where(series.valid, series.values[..., -1], np.nan)[..., None]
        if classes is not None:
            target = np.nan_to_num(target[..., 0], nan=-1).astype(np.int64)
    series = Series(
        series.values[..., : len(roles.channels)],
        times=series.times,
        lengths=series.lengths,
        channels=roles.channels,
        ids=None if ids is None else series.ids,
    )
    names = None if ids is None else series.ids
    parts = _of_samples(table, roles, owner, len(series), names=names, skip_target=per_time)
    if per_time:
        return Dataset(series, target, classes=classes, groups=parts["groups"], split=parts["split"], name=name)
    return Dataset(series, **parts, task=task, name=name)


def _numbered(labels: np.ndarray, task: Task | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Labels at points as numbers, NaN where there is none."""
    there = np.array([not is_no_label(label) for label in labels])
    codes = np.full(len(labels), np.nan)
    if not is_classes(labels[there], task):
        codes[there] = labels[there].astype(np.float64)
        return codes, None
    codes[there], classes = number_classes(labels[there])
    return codes, classes


def _of_samples(table, roles: Roles, owner, samples: int, *, names=None, skip_target=False) -> dict[str, Any]:
    """What is said once for a series, though perhaps in each of its rows: target, group and split."""
    result: dict[str, Any] = {}
    for field, column in (("target", roles.target), ("groups", roles.group), ("split", roles.split)):
        if column is None or (field == "target" and skip_target):
            result[field] = None
            continue
        labels: list[Any] = [None] * samples
        for i, label in set(zip(owner.tolist(), table[column].tolist(), strict=True)):
            if is_no_label(label):
                continue
            if labels[i] is not None:
                who = f"series {i}" if names is None else f"id {names[i]!s}"
                raise ValueError(
                    f"Got for {who} both {labels[i]!r} and {label!r} in column {column!r}; expected one for "
                    "all its rows." + (" Write per_time=True for a target at each point." if field == "target" else "")
                )
            labels[i] = label
        if None in labels:
            i = labels.index(None)
            who = f"series {i}" if names is None else f"id {names[i]!s}"
            raise ValueError(f"Got nothing for {who} in column {column!r}; expected a {field.rstrip('s')}.")
        result[field] = np.array(labels)
    return result


def _few(names: Sequence[str]) -> str:
    return f"{list(names)}" if len(names) <= 12 else f"{[*names[:10]]} and {len(names) - 10} more"
