"""Channels that are computed: how often and how long ago others were observed, time, products and integrals."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from jaxtyping import Bool

from ..paths.checks import check_number
from ..paths.series import Series, frozen
from .transform import Carried, Statistics, Transform, check_fitted


@dataclass(frozen=True)
class _Observed(Transform):
    """Adds a channel about the observations of each of some channels."""

    channels: Sequence[str] | None = None
    channels_: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        if isinstance(self.channels, str):
            raise TypeError(
                f"Got channels={self.channels!r}; expected a list of names. Write channels=[{self.channels!r}]."
            )
        if self.channels is not None:
            object.__setattr__(self, "channels", tuple(self.channels))
            object.__setattr__(self, "channels_", self.channels)

    def fit_statistics(self, statistics: Statistics) -> Self:
        if self.channels is not None:
            return self
        gaps = np.flatnonzero(statistics.sums().has_gaps)
        return replace(self, channels_=tuple(statistics.channels[channel] for channel in gaps))

    def channels_after(self, channels: int) -> int:
        return channels + len(self.channels_ or ())

    def _observed(self, series: Series) -> Bool[np.ndarray, "samples points watched"]:
        """Where each of the channels has a value."""
        absent = [name for name in self.channels_ or () if name not in series.channels]
        if absent:
            raise ValueError(
                f"Got a series with the channels {list(series.channels)}; expected also {absent}, because "
                f"{type(self).__name__} looks at their observations. Name the channels as in the training set."
            )
        columns = [series.channels.index(name) for name in self.channels_ or ()]
        return ~np.isnan(series.values[..., columns]) & series.valid[..., None]

    def _with(self, series: Series, new: np.ndarray, what: str) -> Series:
        values = np.concatenate([series.values, new.astype(series.values.dtype)], axis=2)
        names = (*series.channels, *(f"{name} {what}" for name in self.channels_ or ()))
        return replace(series, values=frozen(values), channels=names)


@dataclass(frozen=True)
class ObservationCounts(_Observed):
    """Add channels that count how often each channel has been observed so far.

    How often something is measured says something about it ("observational intensity": a doctor measures what worries
    her). Filling hides this, so put this transform before filling; the counts themselves are never missing. Counts keep
    growing, so their increments say which points were observed (Kidger et al. 2020, Neural Controlled Differential
    Equations, section 4.2). Causal.

    >>> import numpy as np
    >>> series = Series([[[5.0, 1.0], [np.nan, 2.0], [7.0, 3.0]]], channels=["lactate", "pulse"])
    >>> counted = ObservationCounts().fit(series)(series)
    >>> counted.channels, counted.values[0, :, 2].tolist()
    (('lactate', 'pulse', 'lactate count'), [1.0, 1.0, 2.0])

    Args:
        channels: names of the channels to count. None takes those with a missing value in the training set,
            learned by `fit`. The count of a channel that is always observed is just time again, and every channel makes
            log-signatures larger.
    """

    def begin(self, streams: int, channels: int) -> Carried:
        check_fitted(self, self.channels_)
        return {"counts": np.zeros((streams, len(self.channels_ or ())), np.int64)}

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        # In whole numbers: a sum in float32 stops at 2^24, where adding one is lost to rounding.
        counts = carried["counts"][:, None] + np.cumsum(self._observed(series), axis=1)
        return {"counts": counts[:, -1]}, self._with(series, counts, "count")


@dataclass(frozen=True)
class TimeSinceObserved(_Observed):
    """Add channels that say how long ago each channel was last observed, in the unit of the times.

    A value that was measured a minute ago tells more than one of last night, and filling makes both look alike; so put
    this transform before filling. Before a channel's first observation, the time since the series began counts. Without
    given times, points are one unit apart. Causal. (Che et al. 2018, GRU-D, feed a network with the same.)

    >>> import numpy as np
    >>> series = Series([[[5.0], [np.nan], [np.nan], [7.0]]], times=[[0.0, 0.5, 2.0, 3.0]], channels=["lactate"])
    >>> TimeSinceObserved().fit(series)(series).values[0, :, 1].tolist()
    [0.0, 0.5, 2.0, 0.0]

    Args:
        channels: names of the channels to watch. None takes those with a missing value in the training set, learned by
            `fit`.
    """

    def begin(self, streams: int, channels: int) -> Carried:
        check_fitted(self, self.channels_)
        return {"begun": np.zeros(streams, bool), "latest": np.zeros((streams, len(self.channels_ or ())))}

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        clock = series.clock[..., None]
        before = np.where(carried["begun"][:, None], carried["latest"], clock[:, 0])
        observed = np.where(self._observed(series), clock, -np.inf)
        latest = np.maximum(before[:, None], np.maximum.accumulate(observed, axis=1))
        after = {"begun": np.ones(len(series), bool), "latest": latest[:, -1]}
        return after, self._with(series, clock - latest, "age")


@dataclass(frozen=True)
class TimeChannel(Transform):
    """Add time as channel 0: time since the sample's first point, in units of the longest training series.

    A signature does not change when a path is traversed faster or slower, so without time it cannot tell a fast event
    from a slow one. With time as a channel the signature determines the path. Without given times, the number of a
    point is its time. The unit keeps the channel within [0, 1] on the training set, and stays the same for later data,
    which may run beyond 1. Causal. Put it after `Scale`, which would scale it like any other channel. If a channel is
    already called "time", the new one is called "time_2".

    >>> series = Series.from_array([[7.0, 8.0, 9.0]], times=[10.0, 11.0, 14.0])
    >>> TimeChannel().fit(series)(series).values[0].tolist()
    [[0.0, 7.0], [0.25, 8.0], [1.0, 9.0]]

    Args:
        duration: the time that counts as 1, `duration=1.0` for the given times as they are. None takes the
            longest duration in the training set, learned by `fit`.
    """

    duration: float | None = None
    duration_: float | None = field(default=None, kw_only=True, repr=False)
    timed_: bool | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        if self.duration is not None:
            check_number("duration", self.duration, above=True, finite=True, because="time is divided by it")
            object.__setattr__(self, "duration", float(self.duration))

    def fit_statistics(self, statistics: Statistics) -> "TimeChannel":
        if self.duration is not None:
            return self
        # Series of one point last no time at all; any unit will do.
        return replace(self, duration_=statistics.duration or 1.0, timed_=statistics.timed)

    @property
    def is_fitted(self) -> bool:
        return self.duration is not None or super().is_fitted

    @property
    def timed(self) -> bool | None:
        return self.timed_

    def __call__(self, series: Series) -> Series:
        if self.duration is None:
            check_fitted(self, self.duration_)
            if self.timed_ != (series.times is not None):
                with_or_without = ("without", "with") if self.timed_ else ("with", "without")
                raise ValueError(
                    f"Got a series {with_or_without[0]} times; expected one {with_or_without[1]}, as in the "
                    "training set, because the unit of time was learned there. Write "
                    "`TimeChannel(duration=...)` to set it."
                )
        return super().__call__(series)

    def begin(self, streams: int, channels: int) -> Carried:
        check_fitted(self, self.duration or self.duration_)
        return {"begun": np.zeros(streams, bool), "start": np.zeros(streams)}

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        clock = series.clock
        start = np.where(carried["begun"], carried["start"], clock[:, 0])
        time = ((clock - start[:, None]) / (self.duration or self.duration_)).astype(series.values.dtype)
        values = np.concatenate([time[..., None], series.values], axis=2)
        names = (_free_name("time", series.channels), *series.channels)
        begun = {"begun": np.ones(len(series), bool), "start": start}
        return begun, replace(series, values=frozen(values), channels=names)

    def channels_after(self, channels: int) -> int:
        return channels + 1


def _free_name(wanted: str, taken: Sequence[str]) -> str:
    """The name, or if it is taken, the name with the first number that makes it free.

    >>> _free_name("time", ["time", "pulse", "time_2"])
    'time_3'
    """
    numbered = (f"{wanted}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([wanted], numbered) if name not in taken)


@dataclass(frozen=True)
class Products(Transform):
    """Replace the channels by all products of two of them, including squares.

    Their integrals (`Integral`) give variances and correlations. A log-signature with time contains these too, but only
    at depth 3 and among many others. With few samples it is better to provide them directly. Causal.

    >>> series = Series([[[2.0, 3.0], [2.0, 1.0]]], channels=["a", "b"])
    >>> Products()(series).channels, Products()(series).values[0].tolist()
    (('a * a', 'a * b', 'b * b'), [[4.0, 6.0, 9.0], [4.0, 2.0, 1.0]])

    Args:
        changes: whether to add the absolute change of each channel since the previous point, which says how restless it
            is.
    """

    changes: bool = False

    def begin(self, streams: int, channels: int) -> Carried:
        return _last_point(streams, channels)

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        carried, before, _ = _with_last_point(carried, series)
        values, names = series.values, series.channels
        first, second = np.triu_indices(len(names))
        new = [values[..., first] * values[..., second]] + [np.abs(np.diff(before, axis=1))] * self.changes
        products = [f"{names[i]} * {names[j]}" for i, j in zip(first, second, strict=True)]
        changes = [f"{name} change" for name in names] * self.changes
        return carried, replace(series, values=frozen(np.concatenate(new, axis=2)), channels=(*products, *changes))

    def channels_after(self, channels: int) -> int:
        return channels * (channels + 1) // 2 + channels * self.changes


@dataclass(frozen=True)
class Integral(Transform):
    """Replace each channel by its running integral over time, from 0 at the first point, by the trapezoidal rule.

    Log-signatures see a path by its increments. For a rough channel these show where a window begins and ends; for its
    integral, the mean level in the window. Put `Scale` before it: unless the mean is about zero, what all samples share
    hides how they differ. Without given times, points are one unit apart. Causal.

    >>> Integral()(Series.from_array([[1.0, 3.0, 3.0]])).values[0, :, 0].tolist()
    [0.0, 2.0, 5.0]
    """

    def begin(self, streams: int, channels: int) -> Carried:
        return _last_point(streams, channels) | {"integral": np.zeros((streams, channels))}

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        if np.isnan(series.values).any():
            raise ValueError(
                "Got missing values; expected none, because an integral would be missing from there on. Fill them "
                "first: `Compose(FillForward(), Integral())`."
            )
        after, values, clock = _with_last_point(carried, series)
        values = values.astype(np.float64, copy=False)
        pieces = (values[:, 1:] + values[:, :-1]) / 2 * np.diff(clock, axis=1)[..., None]  # no time passes on padding
        integral = carried["integral"][:, None] + np.cumsum(pieces, axis=1)
        made = replace(series, values=frozen(integral.astype(series.values.dtype, copy=False)))
        return after | {"integral": integral[:, -1]}, made


def _last_point(streams: int, channels: int) -> Carried:
    """What a transform carries that looks at two neighbouring points: the last one and its time."""
    return {"begun": np.zeros(streams, bool), "last": np.zeros((streams, channels)), "time": np.zeros(streams)}


def _with_last_point(carried: Carried, series: Series) -> tuple[Carried, np.ndarray, np.ndarray]:
    """What is carried on; values and times with those of the point before, which for the first point is itself."""
    begun, clock = carried["begun"], series.clock
    last = np.where(begun[:, None], carried["last"].astype(series.values.dtype), series.values[:, 0])
    time = np.where(begun, carried["time"], clock[:, 0])
    after = {
        "begun": np.ones(len(series), bool),
        "last": series.values[:, -1].astype(np.float64),  # padding repeats the last point
        "time": clock[:, -1],
    }
    return after, np.concatenate([last[:, None], series.values], axis=1), np.concatenate([time[:, None], clock], axis=1)
