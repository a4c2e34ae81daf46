"""Features of whole series for linear models: random multi-scale log-signature features beside plain statistics."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..paths import Series
from .random_windows import FeatureSizes, RandomFeatures, RandomWindows
from .statistics import summary_statistics

# Standardised features beyond this many standard deviations are cut off: a linear model has no bounds.
_FARTHEST = 8.0
STATISTICS = 8  # per channel, and one more for the duration


class Standardised(eqx.Module):
    """Features in units of their spread over the training set, divided by the root of their number.

    So every block of features has about the same length, however many features it has: a few statistics are not lost
    among thousands of shares. A feature that did not vary, or is not known, counts for nothing.
    """

    mean: Float[Any, "features"]
    factor: Float[Any, "features"]

    @staticmethod
    def fit(features: Float[np.ndarray, "samples features"]) -> "Standardised":
        known = ~np.isnan(features)
        mean = features.mean(axis=0, where=known, dtype=np.float64)
        spread = features.std(axis=0, where=known, dtype=np.float64)
        # Rounding makes a constant vary, in the last digits.
        varies = (known.sum(axis=0) > 1) & (spread > 1e-6 * (1e-30 + np.abs(mean)))
        factor = np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0) / np.sqrt(max(1, features.shape[1]))
        return Standardised(np.where(varies, mean, 0.0).astype(np.float32), factor.astype(np.float32))

    def __call__(self, features: Float[np.ndarray, "samples features"]) -> Float[np.ndarray, "samples features"]:
        far = _FARTHEST / np.sqrt(max(1, features.shape[1]))
        return np.clip(np.nan_to_num((features - self.mean) * self.factor), -far, far).astype(np.float32)


class SeriesFeatures(eqx.Module):
    """Both blocks, fitted: of raw series and of the same on a regular grid."""

    random: RandomFeatures
    shares: Standardised
    statistics: Standardised

    @staticmethod
    def fit(
        series: Series, regular: Series, sizes: FeatureSizes, *, seed: int
    ) -> tuple["SeriesFeatures", Float[np.ndarray, "samples features"]]:
        """With the training set's own features, which need not be computed twice."""
        random = RandomFeatures.fit(regular, sizes, seed=seed)
        shares, statistics = random(regular), plain_statistics(series)
        fitted = SeriesFeatures(random, Standardised.fit(shares), Standardised.fit(statistics))
        return fitted, fitted._joined(shares, statistics)

    def __call__(self, series: Series, regular: Series) -> Float[np.ndarray, "samples features"]:
        return self._joined(self.random(regular), plain_statistics(series))

    def _joined(self, shares: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        return np.concatenate([self.shares(shares), self.statistics(statistics)], axis=1)

    @staticmethod
    def template(channels: int, features: int, sizes: FeatureSizes) -> "SeriesFeatures":
        """The shapes, without the numbers, for loading. How many features there are, the plan in the file decides."""
        shape = lambda *sizes: np.zeros(sizes, np.float32)
        statistics = STATISTICS * channels + 1
        random = RandomFeatures(RandomWindows.empty(channels, sizes), shape(channels), shape(channels), shape(channels))
        block = lambda size: Standardised(shape(size), shape(size))
        return SeriesFeatures(random, block(features - statistics), block(statistics))


def plain_statistics(series: Series) -> Float[np.ndarray, "samples statistics"]:
    """Seven statistics of each channel, the share of its values that are missing, and how long the series lasts."""
    known = ~np.isnan(series.values) & series.valid[..., None]
    missing = 1.0 - known.sum(axis=1) / series.lengths[:, None]
    clock = series.clock
    duration = clock[np.arange(len(series)), series.lengths - 1] - clock[:, 0]
    return np.concatenate([summary_statistics(series), missing, np.log1p(np.abs(duration))[:, None]], axis=1)
