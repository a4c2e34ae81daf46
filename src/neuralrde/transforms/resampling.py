"""A regular grid in time, for methods that count points, where times are irregular."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

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
        return replace(self, spacing_=self.spacing or _usual_spacing(series), fill_=FillLinear().fit(series))

    def __call__(self, series: Series) -> Series:
        check_fitted(self, self.fill_)
        filled = self.fill_(series)  # type: ignore
        if filled.times is None or self.spacing_ is None or _is_even(filled, self.spacing_):
            return filled if filled.times is None else replace(filled, times=None)
        spans = _spans(filled)
        lengths = 1 + np.floor(spans / self.spacing_ * (1 + 1e-9) + 1e-9).astype(np.int64)
        values = np.empty((len(filled), int(lengths.max()), filled.values.shape[2]), filled.values.dtype)
        for i, (length, own) in enumerate(zip(lengths, filled.lengths, strict=True)):
            grid = filled.times[i, 0] + self.spacing_ * np.arange(length)
            for channel in range(values.shape[2]):
                values[i, :length, channel] = np.interp(grid, filled.times[i, :own], filled.values[i, :own, channel])
            values[i, length:] = values[i, length - 1]
        return Series(values, lengths=lengths, channels=filled.channels, ids=filled.ids)


def _spans(series: Series) -> Float[np.ndarray, "samples"]:
    assert series.times is not None
    return series.times[np.arange(len(series)), series.lengths - 1] - series.times[:, 0]


def _usual_spacing(series: Series) -> float | None:
    """The median time between neighbours, unless that would make grids far longer than the series."""
    if series.times is None or series.lengths.max() < 2:
        return None
    between = np.diff(series.times, axis=1)[series.valid[:, 1:]]
    average = float(_spans(series).sum() / np.maximum(series.lengths - 1, 1).sum())
    return max(float(np.median(between)), average / _MOST)


def _is_even(series: Series, spacing: float) -> bool:
    assert series.times is not None
    apart = np.abs(np.diff(series.times, axis=1) - spacing)[series.valid[:, 1:]]
    return bool((apart <= _EVEN * spacing).all())
