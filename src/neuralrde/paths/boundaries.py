"""Points at the boundaries of windows by time, so that they are exactly those of the interpolated path."""

from dataclasses import dataclass, field

import numpy as np

from .checks import as_number, as_positive, check_finite
from .series import Series
from .step import Step
from .windows import check_timed, cuts_by_time, positions_in_windows


@dataclass(frozen=True)
class WithBoundaries(Step):
    """Insert linearly interpolated points where windows of the time `every` begin and end.

    `cuts_by_time` gives an increment that crosses a boundary wholly to the window in which it ends. With
    points at the boundaries it is divided between its windows, and they are exactly those of the interpolated
    path. Not causal: the inserted point depends on the next observation. Put it after filling, and cut with
    the same `every`.

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

    def __post_init__(self):
        every = as_positive(self.every, name="every", example="every=0.5", why="time runs forward")
        object.__setattr__(self, "every", every)
        if self.start is not None:
            object.__setattr__(self, "start", as_number(self.start, name="start", example="start=0.0"))

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
        splits = np.cumsum(needed.sum(axis=1))[:-1]
        parts = zip(range(len(series)), *(np.split(a, splits) for a in (left, new_times, new_values)), strict=True)
        clocks, values = [], []
        for i, at, time, value in parts:
            real = slice(series.lengths[i])
            clocks.append(np.insert(times[i, real], at + 1, time))
            values.append(np.insert(series.values[i, real], at + 1, value, axis=0))
        return Series.from_arrays(values, times=clocks, channels=series.channels, ids=series.ids)
