"""Points that are added or moved: the origin before a path, the boundaries of windows by time, a regular grid."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from ..paths.checks import check_number
from ..paths.series import Series, check_finite, frozen
from ..paths.windows import check_timed, cuts_by_time, positions_in_windows
from .filling import FillLinear
from .transform import Carried, Transform, check_fitted


@dataclass(frozen=True)
class BasePoint(Transform):
    """Put the origin in front of every sample, so that the log-signature sees where the series begins.

    A signature depends on increments only and does not change when a path is shifted. If the path starts at the origin,
    its first increment is the initial value. The base point is one more point of every sample, and windows are counted
    from it. Its time is that of the first point minus the median gap between points in the training set, which `fit`
    learns. Causal.

    >>> series = Series.from_array([[7.0, 8.0, 9.0]], times=[10.0, 11.0, 14.0])
    >>> based = BasePoint().fit(series)(series)
    >>> based.values[0, :, 0].tolist(), based.times[0].tolist()
    ([0.0, 7.0, 8.0, 9.0], [8.0, 10.0, 11.0, 14.0])
    """

    gap_: float | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        if self.gap_ is not None:
            check_number(
                "gap_", self.gap_, above=True, finite=True, because="the base point comes before the first point"
            )

    def fit(self, series: Series) -> "BasePoint":
        if series.times is None:
            return replace(self, gap_=None)
        gaps = np.diff(series.times)[series.valid[:, 1:]]
        return replace(self, gap_=float(np.median(gaps)) if len(gaps) else 1.0)

    @property
    def is_fitted(self) -> bool:
        return True  # without times there is nothing to learn; with times, a call says what is missing

    @property
    def timed(self) -> bool | None:
        return None if self.gap_ is None else True

    def points_after(self, lengths: Int[np.ndarray, "samples"]) -> Int[np.ndarray, "samples"]:
        return lengths + 1

    def __call__(self, series: Series) -> Series:
        if series.times is not None and self.gap_ is None:
            raise ValueError(
                "Got a series with times, and a BasePoint that was not fitted on such a series; expected "
                "a fitted one, because it must know how long before the first point to start. Write "
                "`transform = BasePoint().fit(training)`, then `transform(series)`."
            )
        return super().__call__(series)

    def begin(self, streams: int, channels: int) -> Carried:
        return {"begun": np.zeros(streams, bool)}

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        fresh, times = ~carried["begun"], series.times
        if fresh.any():
            # One more point for those that begin; for the others the last is repeated, as padding.
            length = series.values.shape[1]
            points = np.clip(np.arange(length + 1) - fresh[:, None], 0, length - 1)
            values = np.take_along_axis(series.values, points[..., None], axis=1)
            values[fresh, 0] = 0.0
            if times is not None:
                gap = 1.0 if self.gap_ is None else self.gap_
                times = np.take_along_axis(times, points, axis=1)
                times[fresh, 0] -= gap
                times = frozen(times)
            series = replace(series, values=frozen(values), times=times, lengths=series.lengths + fresh)
        return {"begun": np.ones(len(series), bool)}, series


@dataclass(frozen=True)
class WithBoundaries(Transform):
    """Insert linearly interpolated points where windows of the time `every` begin and end.

    `cuts_by_time` assigns an increment that crosses a boundary to the window in which it ends. With points at the
    boundaries it is divided between its windows, which are then exactly those of the interpolated path. Not causal: the
    inserted point depends on the next observation. Put it after filling, and cut with the same `every`.

    >>> series = Series.from_array([[0.0, 3.0, 4.0]], times=[0.0, 1.5, 2.0])
    >>> bounded = WithBoundaries(1.0)(series)
    >>> bounded.times[0].tolist(), bounded.values[0, :, 0].tolist()
    ([0.0, 1.0, 1.5, 2.0], [0.0, 2.0, 3.0, 4.0])

    Args:
        every: the time in a window.
        start: where the first window begins; None is at each sample's first point.
    """

    every: float
    start: float | None = field(default=None, kw_only=True)
    looks_ahead: ClassVar[str] = (
        "The point that it inserts at a boundary depends on the next observation. Fit without it: windows by time then "
        "end at the last point before the boundary."
    )

    def __post_init__(self):
        check_number("every", self.every, above=True, finite=True, because="time runs forward")
        object.__setattr__(self, "every", float(self.every))
        if self.start is not None:
            check_number("start", self.start, low=-np.inf, finite=True)
            object.__setattr__(self, "start", float(self.start))

    def __call__(self, series: Series) -> Series:
        times = check_timed(series)
        check_finite(series.values, channels=series.channels)
        position, first = positions_in_windows(times, self.every, self.start)
        cuts = cuts_by_time(times, self.every, lengths=series.lengths, start=self.start)
        boundary = np.arange(cuts.shape[1])
        # Between the sample's ends, and where no point stands already.
        inside = (boundary > position[:, :1]) & (boundary < position[:, -1:])
        needed = inside & (np.take_along_axis(position, cuts, axis=1) != boundary)
        rows, windows = np.nonzero(needed)
        left = cuts[rows, windows]
        new_times = first[rows, 0] + windows * self.every
        weight = (new_times - times[rows, left]) / (times[rows, left + 1] - times[rows, left])
        value, change = series.values[rows, left], series.values[rows, left + 1] - series.values[rows, left]
        new_values = (value + weight[:, None] * change).astype(series.values.dtype)
        # All points one after the other, in order of samples and times.
        owner = np.concatenate([np.nonzero(series.valid)[0], rows])
        clock = np.concatenate([times[series.valid], new_times])
        order = np.lexsort((clock, owner))
        points = np.concatenate([series.values[series.valid], new_values])
        return Series._pack(points[order], clock[order], np.bincount(owner), series.channels, series.ids)


# Times this close to even, in parts of the spacing, are even: clocks jitter, and stored times are rounded.
_EVEN = 1e-3
# A grid may have this many times as many points as the series, and no more: where points come in bursts, the usual gap
# between two of them is much smaller than the average one.
_MOST = 2


@dataclass(frozen=True)
class Resample(Transform):
    """Put series on a regular grid in time, by linear interpolation between a channel's neighbouring observations.

    Missing values are interpolated too, so that nothing is missing afterwards. A series keeps its own duration, and
    one without times keeps its points. Values on the grid depend on the next observation, and on nothing later.

    >>> series = Series.from_array([[0.0, 1.0, np.nan, 5.0]], times=[0.0, 1.0, 2.0, 5.0])
    >>> Resample(spacing=1.0).fit(series)(series).values[0, :, 0].tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]

    Args:
        spacing: the time between two points of the grid. None takes the usual one of the training set: the median
            time from point to point.
    """

    looks_ahead: ClassVar[str] = (
        "A value on the grid depends on the next observation. Fit with TimeChannel and windows by time instead, which "
        "take points as they come."
    )

    spacing: float | None = None
    spacing_: float | None = field(default=None, kw_only=True, repr=False)
    fill_: FillLinear | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        if self.spacing is not None:
            check_number("spacing", self.spacing, above=True, finite=True, because="time runs forward")

    def fit(self, series: Series) -> "Resample":
        spacing = self.spacing
        if spacing is None and series.times is not None and series.lengths.max() > 1:
            gaps = np.diff(series.times, axis=1)[series.valid[:, 1:]]
            spacing = max(float(np.median(gaps)), float(gaps.mean()) / _MOST)
        return replace(self, spacing_=spacing, fill_=FillLinear().fit(series))

    @property
    def timed(self) -> bool | None:
        return None if self.spacing_ is None else True

    def __call__(self, series: Series) -> Series:
        check_fitted(self, self.fill_)
        filled, spacing = self.fill_(series), self.spacing_  # type: ignore
        if filled.times is None or spacing is None:
            return replace(filled, times=None)
        off = np.abs(np.diff(filled.times, axis=1) - spacing)[filled.valid[:, 1:]]
        if (off <= _EVEN * spacing).all():
            return replace(filled, times=None)
        samples = []
        for clock, values, length in zip(filled.times, filled.values, filled.lengths, strict=True):
            points = 1 + int((clock[-1] - clock[0]) / spacing * (1 + 1e-9) + 1e-9)
            grid = clock[0] + spacing * np.arange(points)
            channels = [np.interp(grid, clock[:length], channel[:length]) for channel in values.T]
            samples.append(np.stack(channels, axis=1).astype(values.dtype))
        return Series.from_arrays(samples, channels=filled.channels, ids=filled.ids)
