"""Features of whole series for linear models: random log-signature features, plain statistics, and steps of these."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..paths import Series
from . import observations
from . import statistics as summaries
from .observations import QUANTILES, Steps, mostly_missing, observation_statistics
from .random_windows import FeatureSizes, RandomFeatures, RandomWindows
from .statistics import summary_statistics

# Standardised features beyond this many standard deviations are cut off: a linear model has no bounds.
_FARTHEST = 8.0
# By which blocks may be scaled where most values are missing; leaving out series decides, in the ridge. Elsewhere all
# count alike: of a few dozen series that are easily told apart, any choice looks perfect, and some are too sure.
_SCALES = {"shares": (1.0,), "statistics": (0.5, 1.5), "steps": (1.0, 3.0), "static": (1.0,)}
# Rows that are worked on at once, in the cache; and bytes of features that are kept, and not computed again.
_ROWS, _KEPT = 128, 2**30


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
    """Blocks of features, fitted: of raw series and of the same on a regular grid.

    shares        random windows of the regular series
    statistics    of each channel of the raw ones
    steps         the statistics once more, if most values are missing; see `observations.py`
    static        numbers of a table beside the series, if there is one
    """

    random: RandomFeatures
    shares: Standardised
    statistics: Standardised
    steps: Steps | None = None
    stepped: Standardised | None = None
    static: Standardised | None = None

    @staticmethod
    def fit(
        series: Series, regular: Series, sizes: FeatureSizes, static: np.ndarray | None = None, *, seed: int
    ) -> tuple["SeriesFeatures", "Float[np.ndarray, 'samples features'] | ManyFeatures"]:
        """With the training set's own features, which need not be computed twice.

        Those of so many series that they do not fit into memory are standardised by a part of them.
        """
        random, sparse = RandomFeatures.fit(regular, sizes, seed=seed), mostly_missing(series)
        count = random.count + sum(_numbers(len(series.channels), sparse))
        apart = -(-4 * count * len(series) // _KEPT)
        shares, statistics = random(regular[::apart]), all_statistics(series[::apart], sparse)
        fitted = SeriesFeatures(random, Standardised.fit(shares), Standardised.fit(statistics))
        if sparse:
            steps = Steps.fit(statistics)
            fitted = replace(fitted, steps=steps, stepped=Standardised.fit(steps(statistics)))
        if static is not None:
            fitted = replace(fitted, static=Standardised.fit(static))
        if apart > 1:
            return fitted, ManyFeatures(fitted, series, regular, static)
        return fitted, fitted._joined(shares, statistics, static)

    def __call__(
        self, series: Series, regular: Series, static: np.ndarray | None = None
    ) -> Float[np.ndarray, "samples features"]:
        return self._joined(self.random(regular), all_statistics(series, self.steps is not None), static)

    def _joined(self, shares: np.ndarray, statistics: np.ndarray, static: np.ndarray | None) -> np.ndarray:
        blocks = self.blocks
        out = np.empty((len(shares), max(block.stop for block in blocks.values())), np.float32)
        self.shares(shares, out[:, blocks["shares"]])
        self.statistics(statistics, out[:, blocks["statistics"]])
        if self.steps is not None and self.stepped is not None:
            self.stepped(self.steps(statistics), out[:, blocks["steps"]])
        if self.static is not None and static is not None:
            self.static(static, out[:, blocks["static"]])
        return out

    @property
    def blocks(self) -> dict[str, slice]:
        """Where each block of features is."""
        parts = {"shares": self.shares, "statistics": self.statistics, "steps": self.stepped, "static": self.static}
        sizes = {name: len(part.mean) for name, part in parts.items() if part is not None}
        ends = np.cumsum(list(sizes.values())).tolist()
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    @property
    def scales(self) -> list[tuple[slice, tuple[float, ...]]]:
        """The blocks, with the scales that the ridge may choose from."""
        return [(block, _SCALES[name] if self.steps is not None else (1.0,)) for name, block in self.blocks.items()]

    @staticmethod
    def template(
        channels: int, features: int, sizes: FeatureSizes, *, sparse: bool = False, static: int = 0
    ) -> "SeriesFeatures":
        """The shapes, without the numbers, for loading. How many features there are, the plan in the file decides."""
        shape = lambda *sizes: np.zeros(sizes, np.float32)
        random = RandomFeatures(RandomWindows.empty(channels, sizes), shape(channels), shape(channels), shape(channels))
        block = lambda size: Standardised(shape(size), shape(size))
        statistics, steps = _numbers(channels, sparse)
        plain = SeriesFeatures(random, block(features - statistics - steps - static), block(statistics))
        plain = replace(plain, static=block(static)) if static else plain
        return replace(plain, steps=Steps(shape(QUANTILES, statistics)), stepped=block(steps)) if sparse else plain


def least_features(channels: int, sparse: bool) -> int:
    """The number of features of any number of random windows, and one more."""
    return sum(_numbers(channels, sparse)) + 1


def _numbers(channels: int, sparse: bool) -> tuple[int, int]:
    """How many statistics there are, and how many steps."""
    statistics = len(statistic_names(channels, sparse))
    return statistics, (QUANTILES + 1) * statistics * sparse


@dataclass(frozen=True)
class ManyFeatures:
    """Features of many series as an array `(samples, features)` whose rows are computed whenever they are needed."""

    model: SeriesFeatures
    series: Series
    regular: Series
    static: np.ndarray | None = None
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.series), max(block.stop for block in self.model.blocks.values())

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, rows: Any) -> Float[np.ndarray, "rows features"]:
        static = None if self.static is None else self.static[rows]
        return self.model(self.series[rows], self.regular[rows], static)


def all_statistics(series: Series, sparse: bool) -> Float[np.ndarray, "samples statistics"]:
    """The plain statistics; of series whose values are mostly missing, also those of the observations."""
    plain = plain_statistics(series)
    return np.concatenate([plain, observation_statistics(series)], axis=1) if sparse else plain


def statistic_names(channels: int, sparse: bool) -> list[tuple[str, int | None]]:
    """What each of `all_statistics` is, and the number of its channel; None is the series as a whole."""
    of_each = lambda names: [(name, channel) for name in names for channel in range(channels)]
    plain = [*of_each((*summaries.NAMES, "share missing")), ("duration", None)]
    return plain + of_each(observations.NAMES) * sparse


def plain_statistics(series: Series) -> Float[np.ndarray, "samples statistics"]:
    """Seven statistics of each channel, the share of its values that are missing, and how long the series lasts."""
    known = ~np.isnan(series.values) & series.valid[..., None]
    missing = 1.0 - known.sum(axis=1) / series.lengths[:, None]
    clock = series.clock
    duration = clock[np.arange(len(series)), series.lengths - 1] - clock[:, 0]
    return np.concatenate([summary_statistics(series), missing, np.log1p(np.abs(duration))[:, None]], axis=1)
