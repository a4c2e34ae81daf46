"""Scaling: every channel to mean 0 and standard deviation 1, on the training set or in each sample."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..paths.series import Series, frozen
from .transform import Carried, Statistics, Transform, check_channels, check_fitted, check_one_each


@dataclass(frozen=True)
class Scale(Transform):
    """Standardise each channel by the mean and standard deviation of its observed values in the training set.

    `fit` learns both on the training set and keeps them for later data; statistics of the test set would leak into the
    model. Missing values stay missing; a channel that is constant in the training set is only shifted. The standard
    deviation is the population's (divided by the number of observations).

    >>> training, later = Series.from_array([[1.0, 3.0]]), Series.from_array([[5.0, 2.0]])
    >>> Scale().fit(training)(later).values[0, :, 0].tolist()
    [3.0, 0.0]
    """

    channels_: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)
    means_: tuple[float, ...] | None = field(default=None, kw_only=True, repr=False)
    deviations_: tuple[float, ...] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        check_one_each(self.channels_, means_=self.means_, deviations_=self.deviations_)
        if not all(deviation > 0 for deviation in self.deviations_ or ()):
            raise ValueError(f"Got deviations_={self.deviations_}; expected numbers above 0, which can be divided by.")

    def fit_statistics(self, statistics: Statistics) -> "Scale":
        sums = statistics.observed_sums()
        # A constant is one exactly: rounding in its mean would leave a tiny deviation to divide by.
        constant = sums.low == sums.high
        means = np.where(constant, sums.low, sums.mean).tolist()
        deviations = np.where(constant, 1.0, np.sqrt(sums.squares / sums.count)).tolist()
        for name, deviation in zip(statistics.channels, deviations, strict=True):
            if not (np.isfinite(deviation) and deviation > 0):
                raise ValueError(
                    f"Got values in the channel {name!r} whose standard deviation comes out as {deviation}; "
                    "expected a positive number, because they are divided by it. Bring the channel to a size "
                    "near 1 first."
                )
        return replace(self, channels_=statistics.channels, means_=tuple(means), deviations_=tuple(deviations))

    def __call__(self, series: Series) -> Series:
        check_channels(self, self.channels_, series)
        scaled = (series.values - np.array(self.means_)) / np.array(self.deviations_)
        return replace(series, values=frozen(scaled.astype(series.values.dtype, copy=False)))

    def begin(self, streams: int, channels: int) -> Carried:
        check_fitted(self, self.means_)
        return {}


_EXTREMES = ((np.min, np.inf), (np.max, -np.inf))


@dataclass(frozen=True)
class ScaleEach(Transform):
    """Standardise each channel of each sample by its own mean and standard deviation.

    For sensors whose offset and gain differ from one patient, device or day to the next. A model then sees only shapes
    and rhythms. The meaning of levels is lost. The whole sample must be known, so this is not for streams. Missing
    values stay missing; a channel that is constant in a sample becomes zero.

    >>> ScaleEach()(Series.from_array([[1.0, 3.0], [10.0, 30.0]])).values[..., 0].tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """

    looks_ahead: ClassVar[str] = (
        "The mean and deviation of a series are known when all of it is. Fit with Scale instead, which takes them from "
        "the training set."
    )

    def __call__(self, series: Series) -> Series:
        scaled = np.empty_like(series.values)
        for sample, length, out in zip(series.values, series.lengths, scaled, strict=True):  # stays in cache
            seen = np.asarray(sample[:length], np.float64)
            missing = np.isnan(seen)
            # A mask that masks nothing would nearly double the time that all of this takes.
            known: Any = ~missing if missing.any() else True
            count = len(seen) if known is True else np.maximum(known.sum(axis=0), 1)
            low, high = (extreme(seen, axis=0, initial=start, where=known) for extreme, start in _EXTREMES)
            # A constant is one exactly: rounding in its mean would leave a tiny deviation to divide by.
            constant = low >= high
            mean = np.where(constant, low, seen.sum(axis=0, where=known) / count)
            deviation = np.sqrt(((seen - mean) ** 2).sum(axis=0, where=known) / count)
            out[:] = (sample - mean) / np.where(constant | (deviation == 0), 1.0, deviation)
        return replace(series, values=frozen(scaled))
