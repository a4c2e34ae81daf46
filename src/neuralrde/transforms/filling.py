"""Filling missing values: forward, which looks only back, or linearly, which also looks ahead."""

import abc
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from ..paths.checks import as_number
from ..paths.series import Series, frozen
from .statistics import Statistics
from .transform import Carried, Transform, check_channels, check_fitted, check_one_each


@dataclass(frozen=True)
class Fill(Transform, abc.ABC):
    """What the two ways of filling share: the value that is taken where no observation helps."""

    default: float | None = None
    channels_: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)
    means_: tuple[float, ...] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        if self.default is not None:
            default = as_number(self.default, name="default", example="default=0.0")
            object.__setattr__(self, "default", default)
        check_one_each(self.channels_, means_=self.means_)

    def fit(self, series: Series) -> "Fill":
        return self.fit_statistics(Statistics.of(series))

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
        if self.default is None:
            check_fitted(self, self.means_)
        numbers = np.asarray(self.means_ if self.default is None else self.default, np.float64)
        return np.broadcast_to(numbers, (samples, channels))

    def _filled(self, series: Series, defaults: Float[np.ndarray, "samples channels"]) -> Series:
        missing = np.isnan(series.values)
        if not missing.any():
            return series
        values, clock = series.values.copy(), np.ravel(series.clock)
        for channel in np.flatnonzero(missing.any(axis=(0, 1))):
            # All samples one after the other: NumPy gathers fastest along one axis.
            column = values[..., channel].ravel()
            gaps = np.flatnonzero(missing[..., channel])
            default = defaults[gaps // missing.shape[1], channel]
            column[gaps] = self._at_gaps(gaps, missing[..., channel], column, clock, default)
            values[..., channel] = column.reshape(missing.shape[:2])
        return replace(series, values=frozen(values))

    @abc.abstractmethod
    def _at_gaps(
        self,
        gaps: Int[np.ndarray, "gaps"],
        missing: Bool[np.ndarray, "samples length"],
        column: Float[np.ndarray, "samples*length"],
        clock: Float[np.ndarray, "samples*length"],
        default: Float[np.ndarray, "gaps"],
    ) -> Float[np.ndarray, "gaps"]:
        """What to put into the gaps of one channel, its samples one after the other."""


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

    def _at_gaps(self, gaps, missing, column, clock, default):
        point = gaps % missing.shape[1]
        last = _last_observed(missing).ravel()[gaps]
        return np.where(last < 0, default, column[gaps - point + last])

    def begin(self, streams: int, channels: int) -> Carried:
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

    def _at_gaps(self, gaps, missing, column, clock, default):
        length = missing.shape[1]
        point = gaps % length
        before = _last_observed(missing).ravel()[gaps]
        after = length - 1 - _last_observed(missing[:, ::-1])[:, ::-1].ravel()[gaps]
        unknown = (before < 0) & (after == length)
        # Constant at both ends: where one neighbour is absent, the other stands for both.
        left = gaps - point + np.where(unknown, 0, np.where(before < 0, after, before))
        right = gaps - point + np.where(unknown, 0, np.where(after == length, before, after))
        elapsed, gap = clock[gaps] - clock[left], clock[right] - clock[left]
        weight = np.divide(elapsed, gap, out=np.zeros_like(gap), where=gap > 0)
        # The weight is float64, and so is the difference, which might overflow float32.
        start, end = column[left].astype(np.float64), column[right].astype(np.float64)
        return np.where(unknown, default, start + weight * (end - start))


def _last_observed(missing: Bool[np.ndarray, "samples length"]) -> Int[np.ndarray, "samples length"]:
    """For each point the number of the last observed one up to it; -1 where there is none."""
    points = np.arange(missing.shape[1], dtype=np.int32)
    return np.maximum.accumulate(np.where(missing, np.int32(-1), points), axis=1)
