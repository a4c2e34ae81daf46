"""What a first look at all rows finds: where each series begins, how long it is, and the statistics of all."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .rows import Rows, RowSource, SourceError
from .statistics import Moments, Summary


@dataclass(frozen=True)
class Look:
    """What one piece of a block tells."""

    first_rows: np.ndarray
    """Rows of the block at which a series begins, as far as the piece can tell: its first row may be in the middle."""
    lengths: np.ndarray
    """Rows of each in this piece."""
    ids: np.ndarray
    target: np.ndarray | None
    groups: np.ndarray | None
    times: np.ndarray | None
    """`(series, 2)`: of the first and of the last row."""
    summary: Summary | None


def look_at(source: RowSource, block: int, *, values: bool) -> list[Look]:
    """Read a block and tell of each piece."""
    found, before = [], 0
    for rows in source.read(block, about_series=True, values=values):
        first = np.flatnonzero(rows.begins)
        last = np.append(first[1:], len(rows)) - 1
        times = None
        if rows.times is not None:
            _check_order(rows, source, block)
            times = np.stack([rows.times[first], rows.times[last]], axis=1)
        summary = Summary.of(rows) if values else None
        if summary is not None and not summary.observed.finite:
            row, channel = (int(one[0]) for one in np.nonzero(np.isinf(rows.values)))
            owner = rows.ids[np.searchsorted(first, row, side="right") - 1]
            raise SourceError(
                f"Got infinity in the channel {source.channels[channel]!r} of series {owner}; expected finite numbers, "
                "and NaN where a value is missing."
            )
        told = (rows.ids, rows.target, rows.groups)
        found.append(Look(before + first, last - first + 1, *told, times, summary))
        before += len(rows)
    return found


def _check_order(rows: Rows, source: RowSource, block: int) -> None:
    assert rows.times is not None
    back = (np.diff(rows.times) <= 0) & ~rows.begins[1:]
    if back.any():
        row = int(back.argmax()) + 1
        owner = rows.ids[np.cumsum(rows.begins)[row] - 1]
        raise _unsorted(source, owner, f"the time {rows.times[row]:.12g} after {rows.times[row - 1]:.12g}")


def _unsorted(source: RowSource, owner: Any, what: str) -> SourceError:
    return SourceError(
        f"Got {what} in series {owner} of {source.files[0] if len(source.files) == 1 else 'these files'}; expected "
        "rows sorted by id and then by time, each time once, because a series is read from its first point to its "
        "last. Sort the table first, for example with DuckDB: COPY (SELECT * FROM 'data.parquet' ORDER BY id, time) "
        "TO 'sorted.parquet'."
    )


@dataclass
class Index:
    """All series of a source, in its order."""

    source: RowSource
    blocks: list[int] = field(default_factory=list)
    """In which each begins."""
    rows: list[int] = field(default_factory=list)
    """At which row of it."""
    lengths: list[int] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    target: list[Any] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    """From the first to the last point of each, where there are times."""
    moments: Moments | None = None
    _start: float = 0.0
    _end: float = 0.0
    _before: Any = None

    def add(self, block: int, looks: Iterable[Look]) -> None:
        """What the next block tells."""
        for look in looks:
            for i, owner in enumerate(look.ids.tolist()):
                self._add_series(block, look, i, owner)
            if look.summary is not None:
                if self.moments is None:
                    self.moments = Moments(len(look.summary.last))
                self.moments.add(look.summary, continued=look.ids[0] == self._before)
            self._before = look.ids[-1]

    def _add_series(self, block: int, look: Look, i: int, owner: Any) -> None:
        target = None if look.target is None else look.target[i].tolist()
        if i == 0 and self.ids and self.ids[-1] == owner:
            if look.times is not None:
                if look.times[0, 0] <= self._end:
                    raise _unsorted(self.source, owner, f"the time {look.times[0, 0]:.12g} after {self._end:.12g}")
                self._ends(look.times[0, 1])
            if look.target is not None and not _same(target, self.target[-1]):
                raise SourceError(
                    f"Got the targets {self.target[-1]!r} and {target!r} in series {owner}; expected one per series."
                )
            self.lengths[-1] += int(look.lengths[0])
            return
        self.blocks.append(block)
        self.rows.append(int(look.first_rows[i]))
        self.lengths.append(int(look.lengths[i]))
        self.ids.append(owner)
        if look.target is not None:
            self.target.append(target)
        if look.groups is not None:
            self.groups.append(look.groups[i].item())
        if look.times is not None:
            self._start = float(look.times[i, 0])
            self.durations.append(0.0)
            self._ends(look.times[i, 1])

    def _ends(self, time: float) -> None:
        self._end, self.durations[-1] = float(time), float(time) - self._start

    @property
    def longest(self) -> float:
        """The longest duration; without times, the most increments."""
        return max(self.durations) if self.durations else float(max(self.lengths) - 1)

    def check(self) -> None:
        """An id that comes back after others is a table that is not sorted."""
        if not self.ids:
            raise SourceError("Got no series at all; expected at least one.")
        if len(set(self.ids)) == len(self.ids):
            return
        seen: set[Any] = set()
        again = next(one for one in self.ids if one in seen or seen.add(one))
        raise _unsorted(self.source, again, "rows that come back after those of other series")


def _same(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)
