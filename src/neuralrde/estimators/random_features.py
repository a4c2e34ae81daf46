"""Random features of series: how often small windows of a series, at many scales, look like this or like that.

Each of many draws looks at one or two random mixtures of channels, thins them out by a random factor, and takes the
log-signatures of short windows of what is left, at many places. Random linear maps of a log-signature say how much a
window rises, bends or turns in a certain way. A feature is the share of windows for which such a number is above a
threshold, which is a random quantile of the training set, or for which a map is the largest or smallest of eight. Draws
reach from neighbouring points to the whole series.

Shares need no training and no equal lengths, and those of a series can be kept up to date as it grows. That they are
shares and not means is what makes simple linear models on them strong (Dempster, Petitjean and Webb 2020, ROCKET, for
thresholds; Dempster, Schmidt and Webb 2023, HYDRA, for contests).
"""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from ..paths import Series
from ..signatures.looks import (
    CHANGES,
    EACH,
    GROUP,
    KEPT,
    MOST_WORDS,
    SCALED,
    WORDS,
    Looks,
    Seen,
    check_plan,
    log_signatures_of_look,
    shares,
)  # fmt: skip

# Increments in a window, after thinning out.
POINTS = 8
_CYCLE = (SCALED, EACH, CHANGES, SCALED, EACH)
# Every so many draws one spans whole series.
_WHOLE = 7
# A mixture is of at most so many channels.
_MOST_MIXED = 9
# Quantiles are those of some windows of the training set: of at most so many series, and so many windows in all.
_SEEN_SERIES, _SEEN_WINDOWS = 128, 4096
# Numbers of series that are looked at at once, for memory.
_PIECE = 10_000_000


class RandomFeatures(eqx.Module):
    """Draws of random features, fitted to a training set. Called with regular series, it returns their features.

    Args of `fit`:
        series: regular and complete, as `Resample` makes them.
        draws: how many; each has some sixty features.
        maps: random linear maps of each draw's log-signatures.
        thresholds: for each map, and each number of the log-signature itself.
        contests: groups of eight other maps, which compete.
        windows: at most so many per series and draw.
        seed: of everything that is drawn.

    >>> series = Series.from_array(np.random.default_rng(0).normal(size=(20, 50, 3)).cumsum(axis=1))
    >>> features = RandomFeatures.fit(series, draws=10)
    >>> features(series).shape == (20, features.count)
    True
    """

    plan: Int[Any, "draws 5"]
    mixtures: Float[Any, "draws channels 2"]
    scales: Float[Any, "draws words"]
    maps: Float[Any, "draws words maps"]
    thresholds: Float[Any, "draws thresholds all_maps"]
    rivals: Float[Any, "draws words rivals"]
    mean: Float[Any, "channels"]
    spread: Float[Any, "channels"]
    spread_of_changes: Float[Any, "channels"]
    windows: int = eqx.field(static=True)

    @staticmethod
    def fit(
        series: Series,
        *,
        draws: int = 84,
        maps: int = 24,
        thresholds: int = 2,
        contests: int = 4,
        windows: int = 2048,
        seed: int = 0,
    ) -> "RandomFeatures":
        rng, channels = np.random.default_rng(seed), series.values.shape[2]
        valid = series.valid
        mean = series.values.mean(axis=(0, 1), where=valid[..., None], dtype=np.float64)
        spread = _positive(series.values.std(axis=(0, 1), where=valid[..., None], dtype=np.float64))
        changes = np.diff(series.values, axis=1)
        moved = np.sqrt((changes**2).sum(axis=(0, 1), where=valid[:, 1:, None]) / max(1, valid[:, 1:].sum()))
        most = MOST_WORDS
        features = RandomFeatures(
            plan=np.zeros((draws, 5), np.int32),
            mixtures=np.zeros((draws, channels, 2), np.float32),
            scales=np.ones((draws, most), np.float32),
            maps=np.zeros((draws, most, maps), np.float32),
            thresholds=np.zeros((draws, thresholds, most + maps), np.float32),
            rivals=np.zeros((draws, most, GROUP * contests), np.float32),
            mean=mean.astype(np.float32),
            spread=spread.astype(np.float32),
            spread_of_changes=_positive(moved).astype(np.float32),
            windows=windows,
        )
        length = int(np.median(series.lengths))
        some = series[np.sort(rng.choice(len(series), min(len(series), _SEEN_SERIES), replace=False))]
        seen = features._seen(some)
        for draw in range(draws):
            features._draw(draw, rng, length, channels)
            features._learn(draw, rng, seen, some)
        return features

    @property
    def count(self) -> int:
        """The number of features."""
        return sum(self._looks.counts)

    @property
    def _looks(self) -> Looks:
        return Looks(**{name: getattr(self, name) for name in Looks._fields})

    def __call__(self, series: Series) -> Float[np.ndarray, "samples features"]:
        check_plan(self.plan)
        rows = max(1, _PIECE // series.values[0].size)
        parts = [series[slice(first, first + rows)] for first in range(0, len(series), rows)]
        found = [shares(self._looks, self._seen(part), part.lengths) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _draw(self, draw: int, rng: np.random.Generator, length: int, channels: int) -> None:
        """Choose what to look at, and at which scale; scales are evenly spread on a logarithmic scale."""
        points = max(2, min(POINTS, length - 1))
        widest = np.log2(max(1.0, (length - 1) / points))
        dilation = max(1, (length - 1) // points) if draw % _WHOLE == 0 else int(2 ** rng.uniform(0, widest))
        kept, lag = 1, 0
        if channels > 1:
            some = int(2 ** rng.uniform(0, np.log2(min(channels, _MOST_MIXED) + 1)))
            chosen, kept = rng.choice(channels, some, replace=False), int(rng.integers(1, 3))
            if some <= kept:
                kept, mixture = some, np.eye(some)
            else:
                mixture = rng.normal(size=(some, kept)) / np.sqrt(some)
            self.mixtures[draw, chosen, :kept] = mixture
        else:
            self.mixtures[draw, 0, 0] = 1.0
            lag = dilation * int(rng.integers(1, POINTS)) if draw % 3 == 0 else 0
            lag = lag if lag < length // 2 else 0
            kept = 2 if lag else 1
        self.plan[draw] = _CYCLE[draw % len(_CYCLE)], dilation, lag, kept, points * dilation

    def _learn(self, draw: int, rng: np.random.Generator, seen: Seen, series: Series) -> None:
        """Scale the log-signatures, draw maps, and learn the thresholds from windows of the training set."""
        most = max(1, _SEEN_WINDOWS // len(series))
        logs, own = log_signatures_of_look(self._looks, draw, seen, series.lengths, most)
        real = np.arange(logs.shape[1]) < own[:, None]
        logs, words = logs[real], logs.shape[2]
        self.scales[draw, :words] /= _positive(np.sqrt((logs**2).mean(axis=0, dtype=np.float64)))
        logs = logs * self.scales[draw, :words]
        plain = WORDS[self.plan[draw, KEPT] - 1]  # levels are not mixed with increments
        shape = (plain, self.maps.shape[2])
        self.maps[draw, :plain] = rng.normal(size=shape) * (rng.random(shape) < 0.5)
        self.rivals[draw, :plain] = rng.normal(size=(plain, self.rivals.shape[2]))
        values = np.concatenate([logs, logs @ self.maps[draw, :words]], axis=1).T
        values, rows = np.sort(values, axis=1), np.arange(len(values))
        for row in self.thresholds[draw]:
            place = (rng.uniform(0.02, 0.98, size=len(values)) * (values.shape[1] - 1)).astype(int)
            above = np.minimum(place + 1, values.shape[1] - 1)
            # Between two windows of the training set, where rounding decides nothing.
            row[: len(values)] = (values[rows, place] + values[rows, above]) / 2

    def _seen(self, series: Series) -> Seen:
        """What draws look at, channel by channel: scaled, each by itself, changes."""
        values, real = np.swapaxes(series.values, 1, 2), series.valid[:, None, :]
        scaled = ((values - self.mean[:, None]) / self.spread[:, None]).astype(np.float32)
        # In float64, so that padding, which depends on the other series, does not change the last digit.
        mean = scaled.mean(axis=2, where=real, keepdims=True, dtype=np.float64)
        spread = scaled.std(axis=2, where=real, keepdims=True, dtype=np.float64)
        each = ((scaled - mean) / _positive(spread, 1e-6)).astype(np.float32)
        changes = np.diff(scaled, axis=2, prepend=scaled[..., :1]) * (self.spread / self.spread_of_changes)[:, None]
        return scaled, each, changes.astype(np.float32)


def _positive(spread: np.ndarray, least: float = 1e-8) -> np.ndarray:
    """Something to divide by: a channel that never changes has no spread."""
    return np.where(spread > least, spread, 1.0)
