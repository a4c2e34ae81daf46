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
from ..signatures import log_signature_channels, log_signatures
from ..signatures.pooling import GROUP, count_above, count_winners

# Increments in a window, after thinning out.
POINTS = 8
# Depths of log-signatures of time and one channel, and of time and two: 7 and 13 numbers, less that of time alone.
DEPTHS = (4, 3)
WORDS = tuple(log_signature_channels(2 + i, depth) - 1 for i, depth in enumerate(DEPTHS))
# What a draw looks at: series scaled as a whole, each series scaled by itself, or the changes from point to point.
SCALED, EACH, CHANGES = range(3)
_CYCLE = (SCALED, EACH, CHANGES, SCALED, EACH)
# Every so many draws one spans whole series.
_WHOLE = 7
# A mixture is of at most so many channels.
_MOST_MIXED = 9
# Quantiles are those of some windows of the training set: of at most so many series, and so many windows in all.
_SEEN_SERIES, _SEEN_WINDOWS = 128, 4096
# Numbers of log-signatures that are made at once: they are read again at once, and should be in the cache then.
_PIECE = 1_000_000

# The columns of a plan.
KIND, DILATION, LAG, KEPT, SPAN = range(5)


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
        windows: int = 256,
        seed: int = 0,
    ) -> "RandomFeatures":
        rng, channels = np.random.default_rng(seed), series.values.shape[2]
        valid = series.valid
        mean = series.values.mean(axis=(0, 1), where=valid[..., None], dtype=np.float64)
        spread = _positive(series.values.std(axis=(0, 1), where=valid[..., None], dtype=np.float64))
        changes = np.diff(series.values, axis=1)
        moved = np.sqrt((changes**2).sum(axis=(0, 1), where=valid[:, 1:, None]) / max(1, valid[:, 1:].sum()))
        most = max(WORDS) + 2
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
        draws, thresholds, maps = len(self.plan), self.thresholds.shape[1], self.maps.shape[2]
        return sum(thresholds * (self._words(draw) + maps) + 2 * self.rivals.shape[2] for draw in range(draws))

    def __call__(self, series: Series) -> Float[np.ndarray, "samples features"]:
        self._check_plan()
        found = np.empty((len(series), self.count), np.float32)
        rows = max(1, _PIECE // (self.windows * (max(WORDS) + 2)))
        for first in range(0, len(series), rows):
            part, at = series[slice(first, first + rows)], 0
            seen = self._seen(part)
            for draw in range(len(self.plan)):
                logs, own = self._log_signatures(draw, seen, part, self.windows)
                above = count_above(logs, self._all_maps(draw), self._thresholds(draw), windows=own)
                won = count_winners(
                    logs, self.scales[draw, : logs.shape[2], None] * self.rivals[draw, : logs.shape[2]], windows=own
                )
                # Most rivals seldom win: the root of their shares varies about as much as the others do.
                for shares in (above / own[:, None, None], np.sqrt(won / own[:, None, None])):
                    shares = shares.reshape(len(part), -1)
                    found[first : first + rows, at : at + shares.shape[1]] = shares
                    at += shares.shape[1]
        return found

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

    def _learn(self, draw: int, rng: np.random.Generator, seen: tuple[np.ndarray, ...], series: Series) -> None:
        """Scale the log-signatures, draw maps, and learn the thresholds from windows of the training set."""
        logs, own = self._log_signatures(draw, seen, series, max(1, _SEEN_WINDOWS // len(series)))
        real = np.arange(logs.shape[1]) < own[:, None]
        logs, words = logs[real], logs.shape[2]
        self.scales[draw, :words] /= _positive(np.sqrt((logs**2).mean(axis=0, dtype=np.float64)))
        logs = logs * self.scales[draw, :words]
        plain = WORDS[self.plan[draw, KEPT] - 1]  # levels are not mixed with increments
        shape = (plain, self.maps.shape[2])
        self.maps[draw, :plain] = rng.normal(size=shape) * (rng.random(shape) < 0.5)
        self.rivals[draw, :plain] = rng.normal(size=(plain, self.rivals.shape[2]))
        values = np.sort(logs @ _with_identity(self.maps[draw, :words]), axis=0)
        for row in self.thresholds[draw]:
            quantile = rng.uniform(0.02, 0.98, size=values.shape[1])
            row[: values.shape[1]] = values[(quantile * (len(values) - 1)).astype(int), np.arange(values.shape[1])]

    def _words(self, draw: int) -> int:
        kind, kept = self.plan[draw, KIND], self.plan[draw, KEPT]
        return WORDS[kept - 1] + (0 if kind == CHANGES else int(kept))

    def _all_maps(self, draw: int) -> Float[np.ndarray, "words all_maps"]:
        """The numbers of a log-signature themselves, and the random maps of them, from unscaled log-signatures."""
        words = self._words(draw)
        return self.scales[draw, :words, None] * _with_identity(self.maps[draw, :words])

    def _thresholds(self, draw: int) -> Float[np.ndarray, "thresholds all_maps"]:
        return self.thresholds[draw, :, : self._words(draw) + self.maps.shape[2]]

    def _seen(self, series: Series) -> tuple[np.ndarray, ...]:
        """What draws look at: scaled, each by itself, changes."""
        scaled = ((series.values - self.mean) / self.spread).astype(np.float32)
        real = series.valid[..., None]
        # In float64, so that padding, which depends on the other series, does not change the last digit.
        mean = scaled.mean(axis=1, where=real, keepdims=True, dtype=np.float64)
        spread = scaled.std(axis=1, where=real, keepdims=True, dtype=np.float64)
        each = ((scaled - mean) / _positive(spread, 1e-6)).astype(np.float32)
        changes = np.diff(scaled, axis=1, prepend=scaled[:, :1]) * (self.spread / self.spread_of_changes)
        return scaled, each, changes.astype(np.float32)

    def _log_signatures(
        self, draw: int, seen: tuple[np.ndarray, ...], series: Series, most: int
    ) -> tuple[Float[np.ndarray, "samples windows words"], Int[np.ndarray, "samples"]]:
        """Log-signatures of a draw's windows, without that of time alone, and each series' own number of windows."""
        kind, dilation, lag, kept, span = (int(number) for number in self.plan[draw])
        path = seen[kind]
        chosen = np.flatnonzero(self.mixtures[draw].any(axis=1))
        path = path[..., chosen] @ self.mixtures[draw, chosen, : 1 if lag else kept]
        if lag:
            path = np.concatenate([path, np.concatenate([np.repeat(path[:, :1], lag, 1), path[:, :-lag]], 1)], axis=2)
        if span > path.shape[1] - 1:  # a series that is shorter than a window stands still at its end
            path = np.concatenate([path, np.repeat(path[:, -1:], span + 1 - path.shape[1], axis=1)], axis=1)
        starts, own = _places(series, span, most)
        clock = np.arange(path.shape[1], dtype=np.float32)[None, :, None] / span
        timed = np.concatenate([np.broadcast_to(clock, (*path.shape[:2], 1)), path], axis=2)
        logs = log_signatures(timed, DEPTHS[kept - 1], starts=starts, ends=starts + span, dilation=dilation)[..., 1:]
        if kind != CHANGES:
            rows = np.arange(len(path))[:, None]
            logs = np.concatenate([logs, path[rows, np.broadcast_to(starts, (len(path), starts.shape[-1]))]], axis=2)
        return logs, own

    def _check_plan(self) -> None:
        """A plan may come from a file."""
        kind, dilation, lag, kept, span = np.asarray(self.plan).T
        good = np.isin(kind, (SCALED, EACH, CHANGES)) & np.isin(kept, (1, 2)) & (dilation > 0) & (lag >= 0)
        good &= (span > 0) & (span % np.maximum(dilation, 1) == 0)
        if not (good & (np.maximum(span, lag) < 2**24)).all():
            raise ValueError("Got random features whose plan has numbers that `fit` cannot have drawn.")


def _places(series: Series, span: int, most: int) -> tuple[Int[np.ndarray, "..."], Int[np.ndarray, "samples"]]:
    """Where windows start, at most so many and evenly apart, and each series' own number of them; at least one."""
    last = np.maximum(series.lengths - 1 - span, 0)
    own = np.minimum(last + 1, most)
    if not series.ragged:
        starts = np.arange(own[0]) * max(last[0], 1) // max(own[0] - 1, 1)
        return np.minimum(starts, last[0]), own
    place = np.arange(own.max())
    return np.minimum(place * np.maximum(last, 1)[:, None] // np.maximum(own - 1, 1)[:, None], last[:, None]), own


def _with_identity(maps: Float[np.ndarray, "words maps"]) -> Float[np.ndarray, "words all_maps"]:
    return np.concatenate([np.eye(len(maps), dtype=maps.dtype), maps], axis=1)


def _positive(spread: np.ndarray, least: float = 1e-8) -> np.ndarray:
    """Something to divide by: a channel that never changes has no spread."""
    return np.where(spread > least, spread, 1.0)
