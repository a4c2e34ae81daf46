"""Features of whole series for linear models: random multi-scale log-signature features beside plain statistics."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..paths import Series
from .random_windows import FeatureSizes, RandomFeatures, RandomWindows
from .statistics import summary_statistics

# Standardised features beyond this many standard deviations are cut off: a linear model has no bounds.
_FARTHEST = 8.0
# Rows that are worked on at once, in the cache; and bytes of features that are kept, and not computed again.
_ROWS, _KEPT = 128, 2**30
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
        blocks = [features[first : first + _ROWS] for first in range(0, len(features), _ROWS)]
        known = sum((~np.isnan(block)).sum(axis=0) for block in blocks)
        count = np.maximum(known, 1)
        mean = np.asarray(sum(np.nansum(block, axis=0, dtype=np.float64) for block in blocks)) / count
        spread = np.sqrt(np.asarray(sum(np.nansum((block - mean) ** 2, axis=0) for block in blocks)) / count)
        # Rounding makes a constant vary, in the last digits.
        varies = (known > 1) & (spread > 1e-6 * (1e-30 + np.abs(mean)))
        factor = np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0) / np.sqrt(max(1, features.shape[1]))
        return Standardised(np.where(varies, mean, 0.0).astype(np.float32), factor.astype(np.float32))

    def __call__(
        self, features: Float[np.ndarray, "samples features"], out: np.ndarray | None = None
    ) -> Float[np.ndarray, "samples features"]:
        out = np.empty(features.shape, np.float32) if out is None else out
        far = np.float32(_FARTHEST / np.sqrt(max(1, features.shape[1])))
        for first in range(0, len(features), _ROWS):
            found = np.subtract(features[first : first + _ROWS], self.mean, dtype=np.float32)
            found *= self.factor
            np.copyto(found, 0.0, where=np.isnan(found))
            np.clip(found, -far, far, out=out[first : first + _ROWS])
        return out


class SeriesFeatures(eqx.Module):
    """Both blocks, fitted: of raw series and of the same on a regular grid."""

    random: RandomFeatures
    shares: Standardised
    statistics: Standardised

    @staticmethod
    def fit(
        series: Series, regular: Series, sizes: FeatureSizes, *, seed: int
    ) -> tuple["SeriesFeatures", "Float[np.ndarray, 'samples features'] | ManyFeatures"]:
        """With the training set's own features, which need not be computed twice.

        Those of so many series that they do not fit into memory are standardised by a part of them.
        """
        random = RandomFeatures.fit(regular, sizes, seed=seed)
        apart = -(-4 * random.count * len(series) // _KEPT)
        shares, statistics = random(regular[::apart]), plain_statistics(series)
        fitted = SeriesFeatures(random, Standardised.fit(shares), Standardised.fit(statistics))
        if apart > 1:
            return fitted, ManyFeatures(fitted, series, regular)
        return fitted, fitted._joined(shares, statistics)

    def __call__(self, series: Series, regular: Series) -> Float[np.ndarray, "samples features"]:
        return self._joined(self.random(regular), plain_statistics(series))

    def _joined(self, shares: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        out = np.empty((len(shares), shares.shape[1] + statistics.shape[1]), np.float32)
        self.shares(shares, out[:, : shares.shape[1]])
        self.statistics(statistics, out[:, shares.shape[1] :])
        return out

    @staticmethod
    def template(channels: int, features: int, sizes: FeatureSizes) -> "SeriesFeatures":
        """The shapes, without the numbers, for loading. How many features there are, the plan in the file decides."""
        shape = lambda *sizes: np.zeros(sizes, np.float32)
        statistics = STATISTICS * channels + 1
        random = RandomFeatures(RandomWindows.empty(channels, sizes), shape(channels), shape(channels), shape(channels))
        block = lambda size: Standardised(shape(size), shape(size))
        return SeriesFeatures(random, block(features - statistics), block(statistics))


@dataclass(frozen=True)
class ManyFeatures:
    """Features of many series as an array `(samples, features)` whose rows are computed whenever they are needed."""

    model: SeriesFeatures
    series: Series
    regular: Series
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.series), len(self.model.shares.mean) + len(self.model.statistics.mean)

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, rows: Any) -> Float[np.ndarray, "rows features"]:
        return self.model(self.series[rows], self.regular[rows])


def plain_statistics(series: Series) -> Float[np.ndarray, "samples statistics"]:
    """Seven statistics of each channel, the share of its values that are missing, and how long the series lasts."""
    known = ~np.isnan(series.values) & series.valid[..., None]
    missing = 1.0 - known.sum(axis=1) / series.lengths[:, None]
    clock = series.clock
    duration = clock[np.arange(len(series)), series.lengths - 1] - clock[:, 0]
    return np.concatenate([summary_statistics(series), missing, np.log1p(np.abs(duration))[:, None]], axis=1)
