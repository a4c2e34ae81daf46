"""Statistics of channels, piece by piece: what transforms learn, without the series in memory.

A piece is looked at alone, in any process, and knows nothing of the rows before it. `Moments` joins what pieces tell,
in their order. The result is that of `fit` on all series at once, to rounding.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..transforms import Compose, FillForward, ObservationCounts, Scale, TimeChannel, Transform
from .rows import Rows, SourceError

# Numbers at a time: they stay in the processor's cache.
_CHUNK = 2**16


class Sums(NamedTuple):
    """Number, mean and sum of squared deviations of each channel, lowest and highest value."""

    count: Int[np.ndarray, "channels"]
    mean: Float[np.ndarray, "channels"]
    squares: Float[np.ndarray, "channels"]
    low: Float[np.ndarray, "channels"]
    high: Float[np.ndarray, "channels"]

    @staticmethod
    def none(channels: int) -> "Sums":
        zeros, inf = np.zeros(channels), np.full(channels, np.inf)
        return Sums(np.zeros(channels, np.int64), zeros, zeros, inf, -inf)

    @staticmethod
    @np.errstate(invalid="ignore")  # infinity is said elsewhere
    def of(values: Float[np.ndarray, "rows channels"]) -> "Sums":
        """Of all values that are not NaN, in float64."""
        found, step = Sums.none(values.shape[1]), max(1, _CHUNK // max(1, values.shape[1]))
        for start in range(0, len(values), step):
            # A channel after the other: sums along short rows would take ten times as long.
            # A copy, also where a transpose would be none: it is changed in place.
            part = np.array(values[start : start + step].T, np.float64, order="C")
            count = np.full(len(part), part.shape[1])
            mean, low, high = part.mean(axis=1), part.min(axis=1), part.max(axis=1)
            if not np.isnan(mean).any():
                part -= mean[:, None]
            else:
                gaps = np.isnan(part)
                count = (~gaps).sum(axis=1)
                low, high = np.where(gaps, np.inf, part).min(axis=1), np.where(gaps, -np.inf, part).max(axis=1)
                mean = np.where(gaps, 0.0, part).sum(axis=1) / np.maximum(count, 1)
                part = np.where(gaps, 0.0, part - mean[:, None])
            found = found.and_(Sums(count, mean, np.einsum("ij,ij->i", part, part), low, high))
        return found

    @property
    def finite(self) -> bool:
        known = self.count > 0
        return bool(np.isfinite(self.low[known]).all() and np.isfinite(self.high[known]).all())

    def and_(self, other: "Sums") -> "Sums":
        """Of both together (Chan, Golub and LeVeque 1983)."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.mean - self.mean
        return Sums(
            count,
            np.where(self.count == 0, other.mean, self.mean + apart * share),
            self.squares + other.squares + apart**2 * self.count * share,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def repeated(value: Float[np.ndarray, "channels"], count: Int[np.ndarray, "channels"]) -> Sums:
    """The sums of one value, so many times."""
    value = np.where(count > 0, value, 0.0)
    there = count > 0
    return Sums(count, value, np.zeros(len(value)), np.where(there, value, np.inf), np.where(there, value, -np.inf))


@dataclass(frozen=True)
class Summary:
    """What a piece knows of itself. Its first series may have begun before it."""

    observed: Sums
    filled: Sums
    """Of values held until the next observation; gaps at the beginning of a series are left out, and counted."""
    gaps: Int[np.ndarray, "channels"]
    """Points before the first observation of series that begin in this piece."""
    head_gaps: Int[np.ndarray, "channels"]
    """The same at the beginning of the piece: a value from before it may fill them."""
    last: Float[np.ndarray, "channels"]
    """The last observation of the last series; NaN if this piece has none."""
    rows: int
    head_rows: int
    one: bool
    """Whether it has rows of one series only."""
    counts: tuple[np.ndarray, np.ndarray]
    """How often each channel was observed so far in its series: the sum over points, and that of squares."""
    head_counts: Int[np.ndarray, "channels"]
    """The sum over the first series."""
    last_counts: Int[np.ndarray, "channels"]
    """Of the last point."""

    @staticmethod
    def of(rows: Rows) -> "Summary":
        values, count = rows.values, len(rows)
        channels = values.shape[1]
        missing = np.isnan(values)
        observed = Sums.of(values)
        first = np.flatnonzero(rows.begins)
        lengths = np.diff(np.append(first, count))
        head = int(lengths[0])
        gaps, head_gaps = np.zeros(channels, np.int64), np.zeros(channels, np.int64)
        # Without a gap, the n-th point of a series is its n-th observation.
        whole = (lengths * (lengths + 1) // 2).sum(), (lengths * (lengths + 1) * (2 * lengths + 1) // 6).sum()
        sums = np.full(channels, whole[0]), np.full(channels, whole[1])
        head_counts, last_counts = np.full(channels, head * (head + 1) // 2), np.full(channels, lengths[-1])
        last, filled = values[-1].astype(np.float64), observed
        with_gaps = np.flatnonzero(missing.any(axis=0))
        if len(with_gaps):
            points = np.arange(count)
            start = np.repeat(first, lengths)  # of each row's series
            held = values.astype(np.float64)
            for channel in with_gaps:
                seen = ~missing[:, channel]
                latest = np.maximum.accumulate(np.where(seen, points, -1))
                known = latest >= start
                held[:, channel] = np.where(known, held[np.maximum(latest, 0), channel], np.nan)
                head_gaps[channel] = (~known[:head]).sum()
                gaps[channel] = (~known[head:]).sum()
                last[channel] = held[-1, channel]
                so_far = np.cumsum(seen)
                so_far -= np.repeat(so_far[first] - seen[first], lengths)
                sums[0][channel], sums[1][channel] = so_far.sum(), (so_far * so_far).sum()
                head_counts[channel], last_counts[channel] = so_far[:head].sum(), so_far[-1]
            filled = Sums.of(held)
        one = len(first) == 1
        return Summary(observed, filled, gaps, head_gaps, last, count, head, one, sums, head_counts, last_counts)


class Moments:
    """What transforms learn from, of all pieces so far."""

    def __init__(self, channels: int):
        self.observed, self.filled = Sums.none(channels), Sums.none(channels)
        self.gaps, self.rows = np.zeros(channels, np.int64), 0
        # Whole numbers without an end: sums of squares of counts may pass 2^63.
        self.counts = [[0, 0] for _ in range(channels)]
        self._last = np.full(channels, np.nan)
        self._last_counts = np.zeros(channels, np.int64)

    def add(self, piece: Summary, *, continued: bool) -> None:
        """The next piece; `continued` says whether its first series is the one that the last piece ended with."""
        last = self._last if continued else np.full(len(self._last), np.nan)
        before = self._last_counts if continued else np.zeros(len(self._last), np.int64)
        known = ~np.isnan(last)
        self.observed = self.observed.and_(piece.observed)
        from_before = repeated(last, np.where(known, piece.head_gaps, 0))
        self.filled = self.filled.and_(piece.filled).and_(from_before)
        self.gaps += piece.gaps + np.where(known, 0, piece.head_gaps)
        self.rows += piece.rows
        for channel, offset in enumerate(before.tolist()):
            own = int(piece.head_counts[channel])
            self.counts[channel][0] += int(piece.counts[0][channel]) + offset * piece.head_rows
            self.counts[channel][1] += int(piece.counts[1][channel]) + 2 * offset * own + offset**2 * piece.head_rows
        seen = ~np.isnan(piece.last)
        self._last = np.where(seen | (not piece.one), piece.last, last)
        self._last_counts = piece.last_counts + (before if piece.one else 0)

    @property
    def missing(self) -> np.ndarray:
        """Whether each channel has a missing value anywhere."""
        return self.observed.count < self.rows


def is_fitted(transform: Transform) -> bool:
    """Whether a transform has learned what it needs, or has nothing to learn."""
    return all(_has_learned(one) for one in parts_of(transform))


def parts_of(transform: Transform) -> list[Transform]:
    if not isinstance(transform, Compose):
        return [transform]
    return [part for one in transform.transforms for part in parts_of(one)]


def _has_learned(one: Any) -> bool:
    if getattr(one, "default", None) is not None or getattr(one, "duration", None) is not None:
        return True
    return all(value is not None for name, value in vars(one).items() if name.endswith("_") and name != "gap_")


def fitted(transform: Transform, channels: tuple[str, ...], moments: Any, longest: float, *, timed: bool) -> Transform:
    """The transform, with the statistics of all series: what its `fit` would learn from them, to rounding.

    Args:
        transform: `ObservationCounts`, `FillForward`, `Scale` and `TimeChannel` in this order, or some of them.
        channels: of the series.
        moments: of all pieces; None if the transform has learned everything already.
        longest: the longest duration; of series without times, the most increments.
        timed: whether the series have times.
    """
    parts, made = parts_of(transform), []
    order = (ObservationCounts, FillForward, Scale, TimeChannel)
    kinds = [type(one) for one in parts]
    if is_fitted(transform):
        return transform
    if any(kind not in order for kind in kinds) or [order.index(kind) for kind in kinds] != sorted(
        order.index(kind) for kind in kinds
    ):
        names = " + ".join(kind.__name__ for kind in kinds)
        raise SourceError(
            f"Got the transform {names}, which has yet to learn from the data; expected ObservationCounts, "
            "FillForward, Scale and TimeChannel in this order, which learn from series that are not all in memory, or "
            "a transform that is fitted. Fit it on a part of the series first: transform=transform.fit(part)."
        )
    statistics = _Statistics.of(channels, moments)
    for one in parts:
        if isinstance(one, ObservationCounts):
            one = one if _has_learned(one) else replace(one, channels_=statistics.with_gaps)
            statistics = statistics.counted(one.channels_ or ())
        elif isinstance(one, FillForward):
            if not _has_learned(one):
                one = replace(one, channels_=statistics.channels, means_=statistics.observed_means())
            statistics = statistics.filled(one)
        elif isinstance(one, Scale):
            one = one if _has_learned(one) else statistics.scale(one)
        elif isinstance(one, TimeChannel) and not _has_learned(one):
            one = replace(one, duration_=longest or 1.0, timed_=timed)
        made.append(one)
    return Compose(*made)


@dataclass(frozen=True)
class _Statistics:
    """Statistics of the channels, as they are at one place of a chain of transforms."""

    channels: tuple[str, ...]
    moments: Moments
    sums: Sums

    @staticmethod
    def of(channels: tuple[str, ...], moments: Moments) -> "_Statistics":
        return _Statistics(channels, moments, moments.observed)

    @property
    def with_gaps(self) -> tuple[str, ...]:
        return tuple(name for name, gaps in zip(self.channels, self.moments.missing, strict=True) if gaps)

    def counted(self, names: tuple[str, ...]) -> "_Statistics":
        """With channels that count observations. They are whole numbers, and so are their sums."""
        sums, rows = self.sums, self.moments.rows
        for name in names:
            total, squares = self.moments.counts[self.channels.index(name)]
            deviations = (rows * squares - total**2) / rows
            low = high = total / rows  # all that is asked of them is whether they differ
            if deviations > 0:
                high = low + 1
            new = (rows, total / rows, deviations, low, high)
            sums = Sums(*(np.append(old, one) for old, one in zip(sums, new, strict=True)))
        return replace(self, channels=(*self.channels, *(f"{name} count" for name in names)), sums=sums)

    def observed_means(self) -> tuple[float, ...]:
        self._check_observed()
        return tuple(self.sums.mean.tolist())

    def filled(self, fill: FillForward) -> "_Statistics":
        own = len(self.moments.gaps)
        default = np.full(own, fill.default) if fill.default is not None else np.array(fill.means_)[:own]
        sums = self.moments.filled.and_(repeated(default, self.moments.gaps))
        joined = (np.append(new, old[own:]) for new, old in zip(sums, self.sums, strict=True))
        return replace(self, sums=Sums(*joined))

    def scale(self, scale: Scale) -> Scale:
        self._check_observed()
        sums = self.sums
        constant = sums.low == sums.high
        means = np.where(constant, sums.low, sums.mean)
        deviations = np.where(constant, 1.0, np.sqrt(sums.squares / sums.count))
        for name, deviation in zip(self.channels, deviations.tolist(), strict=True):
            if not (np.isfinite(deviation) and deviation > 0):
                raise SourceError(
                    f"Got values in the channel {name!r} whose standard deviation comes out as {deviation}; expected a "
                    "positive number, because they are divided by it. Bring the channel to a size near 1 first."
                )
        learned = {"means_": tuple(means.tolist()), "deviations_": tuple(deviations.tolist())}
        return replace(scale, channels_=self.channels, **learned)

    def _check_observed(self) -> None:
        never = self.sums.count == 0
        if never.any():
            raise SourceError(
                f"Got the channel {self.channels[int(never.argmax())]!r} without any observation; expected at least "
                "one, because there is nothing to learn its mean from. Leave the channel out, `columns=[...]`."
            )
