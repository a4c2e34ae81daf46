"""Filling missing values: forward, which looks only back, or linearly, which also looks ahead."""

import abc
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from ..paths.checks import check_number
from ..paths.series import Series, frozen
from .transform import Carried, Statistics, Transform, check_channels, check_fitted, check_one_each


@dataclass(frozen=True)
class Fill(Transform, abc.ABC):
    """What the two ways of filling share: the value that is taken where no observation helps."""

    default: float | None = None
    channels_: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)
    means_: tuple[float, ...] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        if self.default is not None:
            check_number("default", self.default, low=-np.inf, finite=True)
            object.__setattr__(self, "default", float(self.default))
        check_one_each(self.channels_, means_=self.means_)

    def fit_statistics(self, statistics: Statistics) -> "Fill":
        if self.default is not None:
            return self
        means = tuple(statistics.observed_sums().mean.tolist())
        return replace(self, channels_=statistics.channels, means_=means)

    @property
    def is_fitted(self) -> bool:
        return self.default is not None or super().is_fitted

    def __call__(self, series: Series) -> Series:
        if self.default is None:
            check_channels(self, self.channels_, series)
        return self._filled(series, self._defaults(len(series), len(series.channels)))

    def _defaults(self, samples: int, channels: int) -> Float[np.ndarray, "samples channels"]:
        numbers = np.asarray(self.means_ if self.default is None else self.default, np.float64)
        return np.broadcast_to(numbers, (samples, channels))

    def _filled(self, series: Series, defaults: Float[np.ndarray, "samples channels"]) -> Series:
        missing = np.isnan(series.values)
        if not missing.any():
            return series
        values = series.values.copy()
        for channel in np.flatnonzero(missing.any(axis=(0, 1))):
            # One channel at a time, and contiguous: NumPy gathers fastest along one axis.
            gaps, column = np.ascontiguousarray(missing[..., channel]), np.ascontiguousarray(values[..., channel])
            rows, points = np.nonzero(gaps)
            filled = self._at_gaps(rows, points, gaps, column, series.clock)
            values[rows, points, channel] = np.where(np.isnan(filled), defaults[rows, channel], filled)
        return replace(series, values=frozen(values))

    @abc.abstractmethod
    def _at_gaps(
        self,
        rows: Int[np.ndarray, "gaps"],
        points: Int[np.ndarray, "gaps"],
        missing: Bool[np.ndarray, "samples length"],
        column: Float[np.ndarray, "samples length"],
        clock: Float[np.ndarray, "samples length"],
    ) -> Float[np.ndarray, "gaps"]:
        """What to put into the gaps of one channel; NaN where no observation helps."""


@dataclass(frozen=True)
class FillForward(Fill):
    """Fill each missing value with the last observation of its channel. Causal: it never looks ahead.

    >>> import numpy as np
    >>> series = Series.from_array([[np.nan, 1.0, np.nan, 3.0]])
    >>> FillForward().fit(series)(series).values[0, :, 0].tolist()
    [2.0, 1.0, 1.0, 3.0]

    Args:
        default: the value before a channel's first observation, and everywhere if it has none. None takes the channel's
            mean over the training set, learned by `fit`; the first later observation would be a look into the future.
    """

    def _at_gaps(self, rows, points, missing, column, clock):
        last = _last_observed(missing)[rows, points]
        return np.where(last < 0, np.nan, column[rows, last])

    def begin(self, streams: int, channels: int) -> Carried:
        check_fitted(self, self.means_ if self.default is None else self.default)
        return {"last": self._defaults(streams, channels).copy()}

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        series = self._filled(series, carried["last"])
        return {"last": series.values[:, -1].astype(np.float64)}, series  # padding repeats the last point


@dataclass(frozen=True)
class FillLinear(Fill):
    """Fill missing values by linear interpolation in time, and by the nearest observation at both ends.

    Not causal: a filled value depends on the next observation. If predictions are made before the series has ended, use
    `FillForward`.

    >>> import numpy as np
    >>> series = Series.from_array([[np.nan, 1.0, np.nan, 3.0]], times=[0.0, 1.0, 1.5, 3.0])
    >>> FillLinear().fit(series)(series).values[0, :, 0].tolist()
    [1.0, 1.0, 1.5, 3.0]

    Args:
        default: the value of a channel that was never observed in a sample. None takes the channel's mean over the
            training set, learned by `fit`.
    """

    looks_ahead: ClassVar[str] = (
        "An interpolated value depends on the next observation. Fit with FillForward instead, or "
        '`Standard(fill="forward")`.'
    )

    def _at_gaps(self, rows, points, missing, column, clock):
        last = missing.shape[1] - 1
        before = _last_observed(missing)[rows, points]
        after = last - _last_observed(missing[:, ::-1])[rows, last - points]
        # Constant at both ends: where one neighbour is absent, the other stands for both; without any, both are gaps.
        left = np.clip(np.where(before < 0, after, before), 0, last)
        right = np.clip(np.where(after > last, before, after), 0, last)
        time, start, end = (clock[rows, point] for point in (points, left, right))
        weight = np.divide(time - start, end - start, out=np.zeros(len(rows)), where=end > start)
        # The weight is float64, and so is the difference, which might overflow float32.
        first, second = column[rows, left].astype(np.float64), column[rows, right].astype(np.float64)
        return first + weight * (second - first)


def _last_observed(missing: Bool[np.ndarray, "samples length"]) -> Int[np.ndarray, "samples length"]:
    """For each point the number of the last observed one up to it; -1 where there is none."""
    points = np.arange(missing.shape[1], dtype=np.int32)
    return np.maximum.accumulate(np.where(missing, np.int32(-1), points), axis=1)
