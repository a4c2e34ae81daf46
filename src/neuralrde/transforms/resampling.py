"""A regular grid in time, for methods that count points, where times are irregular."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..paths.checks import as_positive
from ..paths.series import Series
from .filling import FillLinear
from .transform import Transform, check_fitted

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
            as_positive(self.spacing, name="spacing", example="spacing=0.01", why="time runs forward")

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
