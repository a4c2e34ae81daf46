"""Features of whole series for linear models: random log-signature features, statistics, and features of places."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from ..paths import Series
from ..signatures import log_signatures
from . import observations
from . import statistics as summaries
from .observations import QUANTILES, Steps, mostly_missing, observation_statistics
from .random_windows import EACH, PARTS, FeatureSizes, RandomFeatures, RandomWindows
from .statistics import summary_statistics

# Standardised features beyond this many standard deviations are cut off: a linear model has no bounds.
_FARTHEST = 8.0
# The blocks in the order of their columns, with the scales that the ridge chooses from by leaving out series.
# Statistics have a choice only where most values are missing: elsewhere they are few.
_SCALES = {
    "shares": (1.0,),
    "statistics": (0.5, 1.5),
    "steps": (1.0, 3.0),
    "static": (1.0,),
    "parts": (0.0, 1.0),
    "path": (0.0, 1.0),
}
# Where features that know a place are tried: they double the work of the ridge, and every choice decomposes anew.
_MOST_PLACED = 1500
# The whole series, its halves, quarters, eighths and sixteenths; with areas up to so many channels.
_LEVELS, _WITH_AREAS = 5, 6
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
    def empty(count: int) -> "Standardised":
        """The shapes, without the numbers."""
        return Standardised(np.zeros(count, np.float32), np.zeros(count, np.float32))

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
    parts         shares of each third of the regular series
    path          log-signatures of the regular series, of its halves, quarters, ...

    The last two know where something happens. They are for a ridge that may leave them out (`without`).
    """

    random: RandomFeatures
    blocks: dict[str, Standardised]
    steps: Steps | None = None

    @staticmethod
    def fit(
        series: Series,
        regular: Series,
        sizes: FeatureSizes,
        static: np.ndarray | None = None,
        *,
        placed: bool = False,
        seed: int,
    ) -> tuple["SeriesFeatures", "Float[np.ndarray, 'samples features'] | ManyFeatures"]:
        """With the training set's own features, which need not be computed twice.

        Those of so many series that they do not fit into memory are standardised by a part of them.

        Args:
            placed: whether to have features that know a place, if series are few and their values are not mostly
                missing.
        """
        random, sparse = RandomFeatures.fit(regular, sizes, seed=seed), mostly_missing(series)
        count = random.count + len(statistic_names(len(series.channels), sparse))
        apart = -(-4 * count * len(series) // _KEPT)
        names = ["shares", "statistics"] + ["steps"] * sparse + ["static"] * (static is not None)
        if placed and not sparse and len(series) <= _MOST_PLACED and apart == 1:
            names += ["parts", "path"]
        some = slice(None, None, apart)
        steps = Steps.fit(all_statistics(series[some], sparse)) if sparse else None
        plain = SeriesFeatures(random, dict.fromkeys(names, Standardised.empty(0)), steps)
        raw = plain.raw(series[some], regular[some], None if static is None else static[some])
        blocks = {name: Standardised.fit(values) for name, values in raw.items()}
        fitted = SeriesFeatures(random, blocks, steps)
        return fitted, ManyFeatures(fitted, series, regular, static) if apart > 1 else fitted.joined(raw)

    def __call__(
        self, series: Series, regular: Series, static: np.ndarray | None = None
    ) -> Float[np.ndarray, "samples features"]:
        return self.joined(self.raw(series, regular, static))

    def raw(self, series: Series, regular: Series, static: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Each block's features before they are standardised."""
        found: dict[str, np.ndarray] = {}
        found["shares"], found["parts"] = self.random.shares(regular, PARTS if "parts" in self.blocks else 1)
        found["statistics"] = all_statistics(series, self.steps is not None)
        if self.steps is not None:
            found["steps"] = self.steps(found["statistics"])
        if "static" in self.blocks and static is not None:
            found["static"] = static
        if "path" in self.blocks:
            found["path"] = path_log_signatures(self.random.seen(regular)[EACH], regular.lengths)
        return {name: found[name] for name in _SCALES if name in self.blocks}

    def joined(self, raw: dict[str, np.ndarray]) -> Float[np.ndarray, "samples features"]:
        columns = self.columns
        out = np.empty((len(raw["shares"]), max(own.stop for own in columns.values())), np.float32)
        for name, own in columns.items():
            self.blocks[name](raw[name], out[:, own])
        return out

    @property
    def columns(self) -> dict[str, slice]:
        """Where each block of features is."""
        sizes = self.counts
        ends = np.cumsum(list(sizes.values())).tolist()
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    @property
    def counts(self) -> dict[str, int]:
        """How many features each block has."""
        return {name: len(self.blocks[name].mean) for name in _SCALES if name in self.blocks}

    @property
    def scales(self) -> list[tuple[slice, tuple[float, ...]]]:
        """The blocks, with the scales that the ridge may choose from."""
        fixed = ("statistics",) if self.steps is None else ()
        return [(own, (1.0,) if name in fixed else _SCALES[name]) for name, own in self.columns.items()]

    def without(
        self, coefficients: Float[np.ndarray, "features outputs"]
    ) -> tuple["SeriesFeatures", Float[np.ndarray, "kept outputs"]]:
        """The blocks that know a place only if the ridge gave them weight, and the coefficients of what is left."""
        kept = {name: own for name, own in self.columns.items() if 0.0 not in _SCALES[name] or coefficients[own].any()}
        blocks = {name: self.blocks[name] for name in kept}
        return replace(self, blocks=blocks), np.concatenate([coefficients[own] for own in kept.values()])

    @staticmethod
    def template(channels: int, counts: dict[str, int], sizes: FeatureSizes) -> "SeriesFeatures":
        """The shapes, without the numbers, for loading."""
        shape = lambda *sizes: np.zeros(sizes, np.float32)
        random = RandomFeatures(RandomWindows.empty(channels, sizes), shape(channels), shape(channels), shape(channels))
        steps = Steps(shape(QUANTILES, counts["statistics"])) if "steps" in counts else None
        return SeriesFeatures(random, {name: Standardised.empty(size) for name, size in counts.items()}, steps)


def check_counts(counts: dict[str, int], channels: int, static: int) -> None:
    """Refuse numbers of features that `fit` cannot have found, as a file may have them."""
    statistics = len(statistic_names(channels, "steps" in counts))
    known = {"statistics": statistics, "steps": (QUANTILES + 1) * statistics, "static": static}
    wrong = {*counts} - {*_SCALES} | {"shares", "statistics"} - {*counts}
    wrong |= {name for name, count in counts.items() if not 0 < count < 2**31 or known.get(name, count) != count}
    if wrong or ("static" in counts) != (static > 0):
        raise ValueError(f"Got features {counts} of {channels} channels, which `fit` cannot have found.")


def path_log_signatures(
    values: Float[np.ndarray, "samples channels length"], lengths: Int[np.ndarray, " samples"]
) -> Float[np.ndarray, "samples features"]:
    """Log-signatures of series with their share of time, as a whole and in 2, 4, 8 and 16 parts."""
    samples, channels, length = values.shape
    clock = np.arange(length) / np.maximum(lengths - 1, 1)[:, None]
    path = np.concatenate([clock[..., None], np.swapaxes(values, 1, 2)], axis=2).astype(np.float32)
    cuts = [np.arange(2**level + 1) * (lengths - 1)[:, None] // 2**level for level in range(_LEVELS)]
    starts, ends = (np.concatenate([each[:, part] for each in cuts], axis=1) for part in (slice(-1), slice(1, None)))
    return log_signatures(path, path_depth(channels), starts=starts, ends=ends).reshape(samples, -1)


def path_depth(channels: int) -> int:
    return 2 if channels <= _WITH_AREAS else 1


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
        return len(self.series), sum(self.model.counts.values())

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
