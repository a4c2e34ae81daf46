"""Scaling: every channel to mean 0 and standard deviation 1, on the training set or in each sample."""

from dataclasses import dataclass, field, replace

import numpy as np

from .observed import observed_values
from .series import Series
from .step import Step, check_channels


@dataclass(frozen=True)
class Scale(Step):
    """Standardise each channel by the mean and standard deviation of its observed values in the training set.

    They are learned by `fit` on the training set only and kept for later data: statistics of the test set
    would leak into the model. Missing values stay missing; a channel that is constant in the training set is
    only shifted. The standard deviation is the population's (divided by the number of observations).

    >>> training, later = Series.from_array([[1.0, 3.0]]), Series.from_array([[5.0, 2.0]])
    >>> Scale().fit(training)(later).values[0, :, 0].tolist()
    [3.0, 0.0]
    """

    channels_: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)
    means_: tuple[float, ...] | None = field(default=None, kw_only=True, repr=False)
    deviations_: tuple[float, ...] | None = field(default=None, kw_only=True, repr=False)

    def fit(self, series: Series) -> "Scale":
        means, deviations = [], []
        for column in observed_values(series):
            low, high = column.min(), column.max()
            # A constant is one exactly: rounding in its mean would leave a tiny deviation to divide by.
            means.append(float(column.mean() if low < high else low))
            deviations.append(float(column.std() if low < high else 1.0))
        for name, deviation in zip(series.channels, deviations, strict=True):
            if not (np.isfinite(deviation) and deviation > 0):
                raise ValueError(
                    f"Got values in the channel {name!r} whose standard deviation comes out as {deviation}; "
                    "expected a positive number, because they are divided by it. Bring the channel to a size "
                    "near 1 first."
                )
        return replace(self, channels_=series.channels, means_=tuple(means), deviations_=tuple(deviations))

    def __call__(self, series: Series) -> Series:
        check_channels(self, self.channels_, series)
        scaled = (series.values - np.array(self.means_)) / np.array(self.deviations_)
        return replace(series, values=scaled.astype(series.values.dtype, copy=False))


@dataclass(frozen=True)
class ScaleEach(Step):
    """Standardise each channel of each sample by its own mean and standard deviation.

    For sensors whose offset and gain differ from one patient, device or day to the next: a model then sees shapes and
    rhythms alone. What a level means is lost, and a sample must be there as a whole: not for streams. Missing values
    stay missing; a channel that is constant in a sample becomes zero.

    >>> ScaleEach()(Series.from_array([[1.0, 3.0], [10.0, 30.0]])).values[..., 0].tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """

    def __call__(self, series: Series) -> Series:
        seen = np.where(series.valid[..., None], series.values, np.nan)
        known = ~np.isnan(seen)
        count = np.maximum(known.sum(axis=1, keepdims=True), 1)
        mean = np.where(known, seen, 0.0).sum(axis=1, keepdims=True, dtype=np.float64) / count
        centred = series.values - mean
        square = np.where(known, centred, 0.0) ** 2
        deviation = np.sqrt(square.sum(axis=1, keepdims=True) / count)
        # A constant is one exactly: rounding in its mean would leave a tiny deviation to divide by.
        constant = np.nanmax(np.where(known, seen, -np.inf), axis=1) == np.nanmin(np.where(known, seen, np.inf), axis=1)
        deviation = np.where(constant[:, None] | (deviation == 0), 1.0, deviation)
        scaled = np.where(constant[:, None], 0.0 * centred, centred / deviation)
        return replace(series, values=scaled.astype(series.values.dtype, copy=False))
