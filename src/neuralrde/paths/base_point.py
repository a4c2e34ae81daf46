"""The base point: a path that starts at the origin."""

from dataclasses import dataclass, field, replace

import numpy as np

from .checks import as_positive
from .series import Series, frozen
from .step import Step


@dataclass(frozen=True)
class BasePoint(Step):
    """Put the origin in front of every sample, so that the log-signature sees where the series begins.

    A signature is made of increments and does not change when a path is shifted; from the origin, the first
    increment is the initial value. The base point is one more point of every sample: windows are counted from
    it. Where there are times, it stands before the first point by the median gap between points of the
    training set, learned by `fit`. Causal.

    >>> series = Series.from_array([[7.0, 8.0, 9.0]], times=[10.0, 11.0, 14.0])
    >>> based = BasePoint().fit(series)(series)
    >>> based.values[0, :, 0].tolist(), based.times[0].tolist()
    ([0.0, 7.0, 8.0, 9.0], [8.0, 10.0, 11.0, 14.0])
    """

    gap_: float | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        if self.gap_ is not None:
            as_positive(self.gap_, name="gap_", example="gap_=1.0", why="the base point comes before the first point")

    def fit(self, series: Series) -> "BasePoint":
        if series.times is None:
            return replace(self, gap_=None)
        gaps = np.diff(series.times)[series.valid[:, 1:]]
        return replace(self, gap_=float(np.median(gaps)) if len(gaps) else 1.0)

    def __call__(self, series: Series) -> Series:
        times = series.times
        if times is not None:
            if self.gap_ is None:
                raise ValueError(
                    "Got a series with times, and a BasePoint that was not fitted on such a series; expected "
                    "a fitted one, because it must know how long before the first point to start. Write "
                    "`step = BasePoint().fit(training)`, then `step(series)`."
                )
            times = frozen(np.concatenate([times[:, :1] - self.gap_, times], axis=1))
        origin = np.zeros_like(series.values[:, :1])
        return replace(
            series,
            values=frozen(np.concatenate([origin, series.values], axis=1)),
            times=times,
            lengths=series.lengths + 1,
        )
