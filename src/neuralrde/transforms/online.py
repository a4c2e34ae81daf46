"""Transforms of series that are still arriving: each carries what it must know of the points before.

`transform.online()` gives one for a fitted transform that only looks back. It transforms new points of many streams at
once. All that it carries from push to push is a dictionary of arrays whose first axis is the stream.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ..paths.series import Series, frozen

State = dict[str, np.ndarray]


class Online(abc.ABC):
    """A fitted transform for new points of streams, given as a `Series` with times.

    Where no times are known, a point's time is its number in the stream. Every stream of a push has at least one new
    point. The results together are what the transform would make of whole series.
    """

    @abc.abstractmethod
    def start(self, streams: int, channels: int) -> Any:
        """What is carried before the first point."""

    @abc.abstractmethod
    def __call__(self, state: Any, series: Series) -> tuple[Any, Series]:
        """What is carried on, and the new points transformed."""

    def channels_after(self, channels: int) -> int:
        """How many channels there are afterwards."""
        return channels


@dataclass(frozen=True)
class Pointwise(Online):
    """Of a transform that looks at one point at a time: it carries nothing."""

    transform: Callable[[Series], Series]

    def start(self, streams, channels):
        return {}

    def __call__(self, state, series):
        return state, self.transform(series)


@dataclass(frozen=True)
class OnlineCompose(Online):
    parts: tuple[Online, ...]

    def start(self, streams, channels):
        states = []
        for part in self.parts:
            states.append(part.start(streams, channels))
            channels = part.channels_after(channels)
        return states

    def __call__(self, state, series):
        states = []
        for part, own in zip(self.parts, state, strict=True):
            own, series = part(own, series)
            states.append(own)
        return states, series

    def channels_after(self, channels):
        for part in self.parts:
            channels = part.channels_after(channels)
        return channels


@dataclass(frozen=True)
class OnlineFill(Online):
    """Carries the last observation of each channel; before the first, the value that stands for it."""

    defaults: Float[np.ndarray, "channels"] | float

    def start(self, streams, channels):
        return {"last": np.broadcast_to(np.asarray(self.defaults, np.float64), (streams, channels)).copy()}

    def __call__(self, state, series):
        missing = np.isnan(series.values)
        if missing.any():
            points = np.arange(series.values.shape[1])[:, None]
            latest = np.maximum.accumulate(np.where(missing, -1, points), axis=1)
            held = np.take_along_axis(series.values, np.maximum(latest, 0), axis=1)
            filled = np.where(latest < 0, state["last"][:, None].astype(series.values.dtype), held)
            series = replace(series, values=frozen(filled))
        return {"last": _last(series).astype(np.float64)}, series


@dataclass(frozen=True)
class OnlineCounts(Online):
    """Carries how often each channel has been observed."""

    counted: tuple[str, ...]

    def start(self, streams, channels):
        return {"counts": np.zeros((streams, len(self.counted)), np.int64)}

    def __call__(self, state, series):
        if not self.counted:
            return state, series
        columns = [series.channels.index(name) for name in self.counted]
        observed = ~np.isnan(series.values)[..., columns] & series.valid[..., None]
        counts = state["counts"][:, None] + np.cumsum(observed, axis=1)
        values = np.concatenate([series.values, counts.astype(series.values.dtype)], axis=2)
        names = (*series.channels, *(f"{name} count" for name in self.counted))
        return {"counts": counts[:, -1]}, replace(series, values=frozen(values), channels=names)

    def channels_after(self, channels):
        return channels + len(self.counted)


@dataclass(frozen=True)
class OnlineTime(Online):
    """Carries the time of the first point."""

    duration: float
    name: Callable[[tuple[str, ...]], str]

    def start(self, streams, channels):
        return {"begun": np.zeros(streams, bool), "start": np.zeros(streams)}

    def __call__(self, state, series):
        start = np.where(state["begun"], state["start"], series.clock[:, 0])
        time = ((series.clock - start[:, None]) / self.duration).astype(series.values.dtype)
        values = np.concatenate([time[..., None], series.values], axis=2)
        names = (self.name(series.channels), *series.channels)
        return {"begun": np.ones(len(series), bool), "start": start}, replace(
            series, values=frozen(values), channels=names
        )

    def channels_after(self, channels):
        return channels + 1


@dataclass(frozen=True)
class OnlineBasePoint(Online):
    """Carries whether the base point has been put in front."""

    gap: float

    def start(self, streams, channels):
        return {"begun": np.zeros(streams, bool)}

    def __call__(self, state, series):
        fresh, clock = ~state["begun"], series.clock
        if fresh.any():
            # One more point for those that begin; for the others the last is repeated, as padding.
            length = series.values.shape[1]
            points = np.clip(np.arange(length + 1) - fresh[:, None], 0, length - 1)
            values = np.take_along_axis(series.values, points[..., None], axis=1)
            times = np.take_along_axis(clock, points, axis=1)
            values[fresh, 0], times[fresh, 0] = 0.0, clock[fresh, 0] - self.gap
            lengths = series.lengths + fresh
            series = replace(series, values=frozen(values), times=frozen(times), lengths=lengths)
        return {"begun": np.ones(len(series), bool)}, series


@dataclass(frozen=True)
class _Between(Online):
    """Of a transform that looks at two neighbouring points: it carries the last point and its time."""

    def start(self, streams, channels):
        return {"begun": np.zeros(streams, bool), "last": np.zeros((streams, channels)), "time": np.zeros(streams)}

    def _with_last(self, state: State, series: Series) -> tuple[State, np.ndarray, np.ndarray]:
        """What is carried on; points with the one before them, and times, where the first point repeats itself."""
        begun = state["begun"]
        last = np.where(begun[:, None], state["last"].astype(series.values.dtype), series.values[:, 0])
        time = np.where(begun, state["time"], series.clock[:, 0])
        values = np.concatenate([last[:, None], series.values], axis=1)
        clock = np.concatenate([time[:, None], series.clock], axis=1)
        carried = {"begun": np.ones(len(series), bool), "last": _last(series).astype(np.float64), "time": clock[:, -1]}
        return carried, values, clock


@dataclass(frozen=True)
class OnlineProducts(_Between):
    transform: Any

    def __call__(self, state, series):
        carried, values, _ = self._with_last(state, series)
        made = self.transform(series)
        if self.transform.changes:
            changes = np.abs(np.diff(values, axis=1))
            products = made.values[..., : made.values.shape[2] - changes.shape[2]]
            made = replace(made, values=frozen(np.concatenate([products, changes], axis=2)))
        return carried, made

    def channels_after(self, channels):
        return channels * (channels + 1) // 2 + channels * self.transform.changes


@dataclass(frozen=True)
class OnlineIntegral(_Between):
    """Carries the integral so far, too."""

    def start(self, streams, channels):
        return super().start(streams, channels) | {"integral": np.zeros((streams, channels))}

    def __call__(self, state, series):
        if np.isnan(series.values).any():
            raise ValueError(
                "Got missing values; expected none, because an integral would be missing from there on. Fill them "
                "first: `Compose(FillForward(), Integral())`."
            )
        carried, values, clock = self._with_last(state, series)
        values = values.astype(np.float64, copy=False)
        pieces = (values[:, 1:] + values[:, :-1]) / 2 * np.diff(clock, axis=1)[..., None]
        integral = state["integral"][:, None] + np.cumsum(pieces, axis=1)
        made = replace(series, values=frozen(integral.astype(series.values.dtype, copy=False)))
        return carried | {"integral": integral[:, -1]}, made


def _last(series: Series) -> np.ndarray:
    """The last point: padding repeats it."""
    return series.values[:, -1]
