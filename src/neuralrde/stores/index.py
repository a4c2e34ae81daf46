"""The first look at all rows: where each series begins, how long it is, and what the transform learns.

Pieces of the data are summarised alone, in any process, without the rows before them. `Index` joins the summaries in
their order. Statistics are those of all series at once, to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from ..datasets.targets import is_classes, number_classes
from ..errors import setting
from ..transforms import Compose, FillForward, ObservationCounts, Scale, TimeChannel, Transform
from ..transforms.statistics import Statistics, Sums
from .format import SourceError
from .rows import Rows, RowSource

# Numbers that are summed at a time: they stay in the processor's cache.
_CHUNK = 2**16
_NOTHING = Sums.of([np.zeros(0)])  # for any number of channels, by broadcasting


class PieceSums(NamedTuple):
    """Statistics of a piece. Its first series, the head, may have begun before it."""

    observed: Sums
    filled: Sums
    """Of values held until the next observation; gaps at the beginning of a series stay gaps."""
    head_gaps: Int[np.ndarray, "channels"]
    """Such gaps in the head: a value from before the piece may fill them."""
    head_counts: Sums
    """Of the number of observations so far, at each point of the head, as if it began in this piece."""
    other_counts: Sums
    """The same for the other series."""
    last: Float[np.ndarray, "channels"]
    """The last observation of the last series; NaN if this piece has none."""
    last_counts: Int[np.ndarray, "channels"]

    @staticmethod
    def of(rows: Rows) -> "PieceSums":
        values, points = rows.values, np.arange(len(rows))
        first = np.flatnonzero(rows.begins)
        start = np.repeat(first, np.diff(np.append(first, len(rows))))  # of each row's series
        head = int(first[1]) if len(first) > 1 else len(rows)
        observed = filled = _sums(values)
        # Without a gap, the n-th point of a series is its n-th observation.
        held, counts = values, (points - start + 1)[:, None]
        head_gaps = np.zeros(values.shape[1], np.int64)
        if observed.has_gaps.any():
            held, counts = values.astype(np.float64), np.repeat(counts, values.shape[1], axis=1)
            for channel in np.flatnonzero(observed.has_gaps):
                seen = ~np.isnan(values[:, channel])
                latest = np.maximum.accumulate(np.where(seen, points, -1))
                known = latest >= start
                held[:, channel] = np.where(known, held[np.maximum(latest, 0), channel], np.nan)
                head_gaps[channel] = (~known[:head]).sum()
                total = np.cumsum(seen)
                counts[:, channel] = total - total[start] + seen[start]
            filled = _sums(held)
        last = held[-1].astype(np.float64)
        return PieceSums(observed, filled, head_gaps, _sums(counts[:head]), _sums(counts[head:]), last, counts[-1])

    @property
    def finite(self) -> bool:
        low, high = (np.where(self.observed.count, extreme, 0.0) for extreme in (self.observed.low, self.observed.high))
        return bool(np.isfinite(low).all() and np.isfinite(high).all())


def _sums(values: Real[np.ndarray, "rows channels"]) -> Sums:
    step = max(1, _CHUNK // max(1, values.shape[1]))
    return reduce(add, (Sums.of(values[i : i + step].T) for i in range(0, len(values), step)), _NOTHING)


def _repeated(value: Float[np.ndarray, "channels"], count: Int[np.ndarray, "channels"]) -> Sums:
    """The sums of one value, which stands at that many points where there was a gap."""
    value, there = np.where(count > 0, value, 0.0), count > 0
    return Sums(0, count, value, np.zeros(len(value)), np.where(there, value, np.inf), np.where(there, value, -np.inf))


@dataclass(frozen=True)
class PieceSummary:
    """The series of one piece of a block."""

    first_rows: np.ndarray
    """Rows of the block at which a series begins, as far as the piece can tell: its first row may be in the middle."""
    lengths: np.ndarray
    """Rows of each in this piece."""
    ids: np.ndarray
    target: np.ndarray | None
    groups: np.ndarray | None
    times: np.ndarray | None
    """`(series, 2)`: of the first and of the last row."""
    sums: PieceSums | None


def summarize(source: RowSource, block: int, *, values: bool) -> list[PieceSummary]:
    """Read a block and summarise each piece."""
    summaries, before = [], 0
    for rows in source.read(block, about_series=True, values=values):
        first = np.flatnonzero(rows.begins)
        last = np.append(first[1:], len(rows)) - 1
        times = None
        if rows.times is not None:
            back = (np.diff(rows.times) <= 0) & ~rows.begins[1:]
            if back.any():
                row = int(back.argmax()) + 1
                owner = rows.ids[np.cumsum(rows.begins)[row] - 1]
                raise _unsorted(source, owner, f"the time {rows.times[row]:.12g} after {rows.times[row - 1]:.12g}")
            times = np.stack([rows.times[first], rows.times[last]], axis=1)
        sums = PieceSums.of(rows) if values else None
        if sums is not None and not sums.finite:
            row, channel = (int(place[0]) for place in np.nonzero(np.isinf(rows.values)))
            owner = rows.ids[np.searchsorted(first, row, side="right") - 1]
            raise SourceError(
                f"Got infinity in the channel {source.channels[channel]!r} of series {owner}; expected finite numbers, "
                "and NaN where a value is missing."
            )
        said = (rows.ids, rows.target, rows.groups)
        summaries.append(PieceSummary(before + first, last - first + 1, *said, times, sums))
        before += len(rows)
    return summaries


def _unsorted(source: RowSource, owner: Any, what: str) -> SourceError:
    return SourceError(
        f"Got {what} in series {owner} of {source.files[0] if len(source.files) == 1 else 'these files'}; expected "
        "rows sorted by id and then by time, each time once, because a series is read from its first point to its "
        "last. Sort the table first, for example with DuckDB: COPY (SELECT * FROM 'data.parquet' ORDER BY id, time) "
        "TO 'sorted.parquet'."
    )


@dataclass
class Index:
    """All series of a source, in its order, and the sums over them."""

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
    observed: Sums = _NOTHING
    filled: Sums = _NOTHING
    counts: Sums = _NOTHING
    _start: float = 0.0
    _end: float = 0.0
    _last: np.ndarray = field(default_factory=lambda: np.full(1, np.nan))
    _last_counts: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))

    def add(self, block: int, pieces: Sequence[PieceSummary]) -> None:
        """The pieces of the next block."""
        for piece in pieces:
            if piece.sums is not None:
                self._add_sums(piece.sums, continued=bool(self.ids) and piece.ids[0] == self.ids[-1])
            for i, owner in enumerate(piece.ids.tolist()):
                self._add_series(block, piece, i, owner)

    def _add_sums(self, piece: PieceSums, *, continued: bool) -> None:
        last = self._last if continued else np.full(len(piece.last), np.nan)
        before = self._last_counts if continued else 0
        self.observed += piece.observed
        self.filled += piece.filled + _repeated(last, np.where(np.isnan(last), 0, piece.head_gaps))
        self.counts += piece.head_counts._replace(mean=piece.head_counts.mean + before) + piece.other_counts
        if piece.other_counts.points:
            last, before = np.full(len(piece.last), np.nan), 0
        self._last, self._last_counts = np.where(np.isnan(piece.last), last, piece.last), piece.last_counts + before

    def _add_series(self, block: int, piece: PieceSummary, i: int, owner: Any) -> None:
        target = None if piece.target is None else piece.target[i].tolist()
        if i == 0 and self.ids and self.ids[-1] == owner:
            if piece.times is not None:
                if piece.times[0, 0] <= self._end:
                    raise _unsorted(self.source, owner, f"the time {piece.times[0, 0]:.12g} after {self._end:.12g}")
                self._ends(piece.times[0, 1])
            if piece.target is not None and not _same(target, self.target[-1]):
                raise SourceError(
                    f"Got the targets {self.target[-1]!r} and {target!r} in series {owner}; expected one per series."
                )
            self.lengths[-1] += int(piece.lengths[0])
            return
        self.blocks.append(block)
        self.rows.append(int(piece.first_rows[i]))
        self.lengths.append(int(piece.lengths[i]))
        self.ids.append(owner)
        if piece.target is not None:
            self.target.append(target)
        if piece.groups is not None:
            self.groups.append(piece.groups[i].item())
        if piece.times is not None:
            self._start = float(piece.times[i, 0])
            self.durations.append(0.0)
            self._ends(piece.times[i, 1])

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
        again = next(owner for owner in self.ids if owner in seen or seen.add(owner))
        raise _unsorted(self.source, again, "rows that come back after those of other series")


def _same(first: Any, second: Any) -> bool:
    return first == second or (first != first and second != second)


def fitted(transform: Transform, index: Index) -> Transform:
    """The transform, with what its `fit` would learn from all series at once, to rounding.

    It may be `ObservationCounts`, `FillForward`, `Scale` and `TimeChannel` in this order, or some of them.
    """
    if transform.is_fitted:
        return transform
    order, parts = (ObservationCounts, FillForward, Scale, TimeChannel), parts_of(transform)
    places = [order.index(type(part)) if type(part) in order else -1 for part in parts]
    if -1 in places or places != sorted(places):
        names = " + ".join(type(part).__name__ for part in parts)
        raise SourceError(
            f"Got the transform {names}, which has yet to learn from the data; expected ObservationCounts, "
            "FillForward, Scale and TimeChannel in this order, which learn from series that are not all in memory, or "
            "a transform that is fitted. Fit it on a part of the series first: transform=transform.fit(part)."
        )
    channels, sums, learned = index.source.channels, index.observed, []
    for part in parts:
        if not part.is_fitted:
            statistics = Statistics(channels, lambda sums=sums: sums, index.longest, index.source.timed)
            part = part.fit_statistics(statistics)
        learned.append(part)
        if isinstance(part, ObservationCounts):
            counted = [index.source.channels.index(name) for name in part.channels_ or ()]
            count = np.broadcast_to(index.counts.count, index.observed.count.shape)
            counts = [np.broadcast_to(each, count.shape)[counted] for each in index.counts[1:]]
            sums = Sums(sums.points, *(np.append(*pair) for pair in zip(sums[1:], counts, strict=True)))
            channels = (*channels, *(f"{index.source.channels[channel]} count" for channel in counted))
        elif isinstance(part, FillForward):
            width = len(index.source.channels)
            default = np.full(width, part.default) if part.default is not None else np.array(part.means_)[:width]
            filled = index.filled + _repeated(default, index.filled.points - index.filled.count)
            pairs = zip(filled[1:], sums[1:], strict=True)
            sums = Sums(sums.points, *(np.append(new, old[width:]) for new, old in pairs))
    return Compose(*learned)


def parts_of(transform: Transform) -> list[Transform]:
    if not isinstance(transform, Compose):
        return [transform]
    return [part for each in transform.transforms for part in parts_of(each)]


def as_labels(
    labels: Sequence[Any], task: str | None, classes: list[Any] | None = None
) -> tuple[np.ndarray, list[Any] | None]:
    """Labels as they stand in a file, as `(series,)` numbers of classes, with these, or `(series, outputs)` numbers.

    Args:
        labels: one per series, or a list of several.
        task: "classification" or "regression"; None decides by the same rule as `neuralrde.read`.
        classes: those of another store, whose numbers are to mean the same here.

    >>> as_labels(["ill", "well", "ill"], None)
    (array([0, 1, 0], dtype=int32), ['ill', 'well'])
    >>> as_labels([0.5, 1.25], None)[0].tolist()
    [[0.5], [1.25]]
    """
    array: Any = np.array(labels)
    array = np.char.strip(array) if array.dtype.kind == "U" else array
    absent = array == "" if array.dtype.kind == "U" else np.isnan(array)
    absent = absent.reshape(len(array), -1).all(axis=1)
    if absent.any():
        raise SourceError(
            f"Got no target for series {int(absent.argmax())} of the data; expected one for each, because nothing can "
            "be learned without. Leave such series out, or name no target for a store to predict from."
        )
    if array.ndim > 1 and task == "classification":
        raise SourceError("Got several targets for a classification; expected one. Name one target.")
    if array.ndim > 1 or not is_classes(array, task):  # type: ignore
        try:
            numbers = array.astype(np.float64).reshape(len(array), -1)
        except ValueError:
            raise SourceError(
                f"Got the target {str(array[0])!r} in a regression; expected numbers. Say "
                f"{setting('task', 'classification')} if targets are names of classes."
            ) from None
        if np.isinf(numbers).any():
            raise SourceError("Got an infinite target; expected finite numbers, because no loss is finite there.")
        return numbers.astype(np.float32), None
    if array.dtype.kind == "f" and (array == np.round(array)).all():
        array = array.astype(np.int64)
    distinct, target = np.unique(array, return_inverse=True)
    numbers, names = (np.arange(len(distinct)), distinct.tolist())
    if array.dtype.kind == "U":
        numbers, names = number_classes(distinct)
    if classes is not None:
        places = {str(name): number for number, name in enumerate(classes)}
        unknown = [name for name in names if str(name) not in places]
        if unknown:
            raise SourceError(
                f"Got the class {unknown[0]!r}; expected one of {classes[:10]}, the classes of the store that this one "
                "is to be like. Leave its series out."
            )
        numbers, names = np.array([places[str(name)] for name in names])[numbers], classes
    return numbers[target].astype(np.int32), list(names)
