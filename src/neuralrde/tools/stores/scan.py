"""The first look at all rows: where each series begins, how long it is, and what the transform learns.

Pieces of the data are summarised alone, in any process, without the rows before them. `joined` puts the summaries
together in their order. Statistics are those of all series at once, to rounding.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from ...transforms import Compose, FillForward, ObservationCounts, Scale, TimeChannel, Transform
from ...transforms.transform import Statistics, Sums
from .files import SourceError
from .rows import Rows, RowSource

# Numbers that are summed at a time: they stay in the processor's cache.
_CHUNK = 2**16
_NOTHING = Sums.of([np.zeros(0)])  # for any number of channels, by broadcasting


class PieceSums(NamedTuple):
    """Statistics of a piece. Its first series, the head, may have begun before it."""

    observed: Sums
    filled: Sums
    """Sums of values held until the next observation; gaps at the beginning of a series stay gaps."""
    head_gaps: Int[np.ndarray, "channels"]
    """Such gaps in the head: a value from before the piece may fill them."""
    head_counts: Sums
    """Sums of the number of observations so far, at each point of the head, as if it began in this piece."""
    other_counts: Sums
    """Such sums for the other series."""
    last: Float[np.ndarray, "channels"]
    """The last observation of the last series; NaN if this piece has none."""
    last_counts: Int[np.ndarray, "channels"]

    @staticmethod
    def of(values: Float[np.ndarray, "rows channels"], lengths: Int[np.ndarray, "series"]) -> "PieceSums":
        head, observed = int(lengths[0]), _sums(values)
        # Without a gap, the n-th point of a series is its n-th observation.
        owner = np.repeat(np.arange(len(lengths)), lengths)
        counts = (np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1)[:, None]
        held, filled = values, observed
        if observed.has_gaps.any():
            import pandas as pd

            frame = pd.DataFrame(values)
            held = frame.groupby(owner).ffill().to_numpy()
            counts = frame.notna().groupby(owner).cumsum().to_numpy()
            filled = _sums(held)
        head_gaps, last = np.isnan(held[:head]).sum(axis=0), held[-1].astype(np.float64)
        return PieceSums(observed, filled, head_gaps, _sums(counts[:head]), _sums(counts[head:]), last, counts[-1])


def _sums(values: Real[np.ndarray, "rows channels"]) -> Sums:
    step = max(1, _CHUNK // max(1, values.shape[1]))
    return reduce(add, (Sums.of(values[i : i + step].T) for i in range(0, len(values), step)), _NOTHING)


def _repeated(value: Float[np.ndarray, "channels"], count: Int[np.ndarray, "channels"]) -> Sums:
    """The sums of one value, which stands at that many points where there was a gap."""
    there = count > 0
    value = np.where(there, value, 0.0)
    return Sums(0, count, value, np.zeros(len(count)), np.where(there, value, np.inf), np.where(there, value, -np.inf))


class TotalSums(NamedTuple):
    """Statistics of all pieces so far: of values observed, of values held until the next, of counts of observations."""

    observed: Sums = _NOTHING
    filled: Sums = _NOTHING
    counts: Sums = _NOTHING
    last: Any = np.nan
    before: Any = 0
    """The last observation of the series that may go on, and how many there were."""

    def plus(self, piece: PieceSums, goes_on: bool) -> "TotalSums":
        unknown = np.full(len(piece.last), np.nan), 0
        last, before = (self.last, self.before) if goes_on else unknown
        head = piece.head_counts
        head = head._replace(mean=head.mean + before, low=head.low + before, high=head.high + before)
        observed, counts = self.observed + piece.observed, self.counts + head + piece.other_counts
        filled = self.filled + piece.filled + _repeated(last, np.where(np.isnan(last), 0, piece.head_gaps))
        last, before = unknown if piece.other_counts.points else (last, before)
        last = np.where(np.isnan(piece.last), last, piece.last)
        return TotalSums(observed, filled, counts, last, piece.last_counts + before)


class Piece(NamedTuple):
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


def scan_block(source: RowSource, block: int, values: bool, stop: object = None) -> list[Piece]:
    """Read a block and summarise each piece."""
    pieces, before = [], 0
    for rows in source.read(block, about_series=True, values=values):
        first = np.flatnonzero(rows.begins)
        lengths = np.diff(np.append(first, len(rows.begins)))
        times = None
        if rows.times is not None:
            back = (np.diff(rows.times) <= 0) & ~rows.begins[1:]
            if back.any():
                row = int(back.argmax())
                raise _unsorted(
                    source, _owner(rows, row), f"the time {rows.times[row + 1]:.12g} after {rows.times[row]:.12g}"
                )
            times = np.stack([rows.times[first], rows.times[first + lengths - 1]], axis=1)
        infinite = np.isinf(rows.values)
        if infinite.any():
            row, channel = (int(place[0]) for place in np.nonzero(infinite))
            raise SourceError(
                f"Got infinity in the channel {source.channels[channel]!r} of series {_owner(rows, row)}; expected "
                "finite numbers, and NaN where a value is missing."
            )
        sums = PieceSums.of(rows.values, lengths) if values else None
        pieces.append(Piece(before + first, lengths, rows.ids, rows.target, rows.groups, times, sums))
        before += len(rows.begins)
    return pieces


def _owner(rows: Rows, row: int) -> object:
    return rows.ids[np.cumsum(rows.begins)[row] - 1]


def _unsorted(source: RowSource, owner: object, what: str) -> SourceError:
    return SourceError(
        f"Got {what} in series {owner} of {source.files[0] if len(source.files) == 1 else 'these files'}; expected "
        "rows sorted by id and then by time, each time once, because a series is read from its first point to its "
        "last. Sort the table first, for example with DuckDB: COPY (SELECT * FROM 'data.parquet' ORDER BY id, time) "
        "TO 'sorted.parquet'."
    )


@dataclass(frozen=True)
class Index:
    """All series of a source, in its order, and the sums over them."""

    source: RowSource
    blocks: Int[np.ndarray, "series"]
    """The block in which each begins."""
    rows: Int[np.ndarray, "series"]
    """The row of the block at which it begins."""
    lengths: Int[np.ndarray, "series"]
    ids: np.ndarray
    target: np.ndarray | None
    groups: np.ndarray | None
    durations: Float[np.ndarray, "series"]
    """The time from the first to the last point of each; without times, its increments."""
    sums: TotalSums


def joined(source: RowSource, scanned: Iterable[list[Piece]]) -> Index:
    """The pieces of all blocks, in order: a series goes on where two neighbours in different pieces have one id."""
    import pandas as pd

    pieces, in_block, sums = [], [], TotalSums()
    for block, piece in ((block, piece) for block, some in enumerate(scanned) for piece in some):
        if piece.sums is not None:
            sums = sums.plus(piece.sums, bool(pieces) and piece.ids[0] == pieces[-1].ids[-1])
        pieces.append(piece._replace(sums=None))
        in_block += [block] * len(piece.ids)
    if not pieces:
        raise SourceError("Got no series at all; expected at least one.")
    columns: Any = list(zip(*pieces, strict=True))[:-1]
    columns = [None if parts[0] is None else np.concatenate(parts) for parts in columns]
    first_rows, lengths, ids, target, groups, times = columns
    goes_on = np.append(False, ids[1:] == ids[:-1])
    starts = np.flatnonzero(~goes_on)
    ends = np.append(starts[1:], len(ids)) - 1
    lengths = np.add.reduceat(lengths, starts)
    durations = lengths - 1.0
    if times is not None:
        durations = times[ends, 1] - times[starts, 0]
        back = goes_on[1:] & (times[1:, 0] <= times[:-1, 1])
        if back.any():
            i = int(back.argmax())
            raise _unsorted(source, ids[i], f"the time {times[i + 1, 0]:.12g} after {times[i, 1]:.12g}")
    if target is not None:
        differs = (target[1:] != target[:-1]) & ((target[1:] == target[1:]) | (target[:-1] == target[:-1]))  # not NaN
        differs = goes_on[1:] & differs.reshape(len(differs), -1).any(axis=1)
        if differs.any():
            i = int(differs.argmax())
            both = f"{target[i].tolist()!r} and {target[i + 1].tolist()!r}"
            raise SourceError(f"Got the targets {both} in series {ids[i]}; expected one per series.")
        target = target[starts]
    again = pd.Series(ids[starts]).duplicated().to_numpy()
    if again.any():
        raise _unsorted(source, ids[starts][again.argmax()], "rows that come back after those of other series")
    return Index(
        source,
        np.array(in_block)[starts],
        first_rows[starts],
        lengths,
        ids[starts],
        target,
        None if groups is None else groups[starts],
        durations,
        sums,
    )


def fitted(transform: Transform, index: Index) -> Transform:
    """The transform, with what its `fit` would learn from all series at once, to rounding."""
    if transform.is_fitted:
        return transform
    order, parts = [ObservationCounts, FillForward, Scale, TimeChannel], transform.parts
    if [type(part) for part in parts] != [kind for kind in order if kind in map(type, parts)]:
        names = " + ".join(type(part).__name__ for part in parts)
        raise SourceError(
            f"Got the transform {names}, which has yet to learn from the data; expected ObservationCounts, "
            "FillForward, Scale and TimeChannel in this order, which learn from series that are not all in memory, or "
            "a transform that is fitted. Fit it on a part of the series first: transform=transform.fit(part)."
        )
    source, sums, learned = index.source, index.sums.observed, []
    channels, width = source.channels, len(source.channels)
    for part in parts:
        if not part.is_fitted:
            part = part.fit_statistics(
                Statistics(channels, lambda sums=sums: sums, float(index.durations.max()), source.timed)
            )
        learned.append(part)
        if isinstance(part, ObservationCounts):
            counted = [channels.index(name) for name in part.channels_ or ()]
            counts = (np.broadcast_to(each, width)[counted] for each in index.sums.counts[1:])
            sums = Sums(sums.points, *map(np.append, sums[1:], counts))
            channels = (*channels, *(f"{channels[channel]} count" for channel in counted))
        elif isinstance(part, FillForward):
            default = np.full(width, part.default) if part.default is not None else np.array(part.means_)[:width]
            filled = index.sums.filled + _repeated(default, index.sums.filled.points - index.sums.filled.count)
            sums = Sums(
                sums.points, *(np.append(new, old[width:]) for new, old in zip(filled[1:], sums[1:], strict=True))
            )
    return Compose(*learned)
