"""Random features of series: how often small windows of a series, at many scales, rise, bend or turn in certain ways.

Each of many draws looks at one or two random mixtures of channels, thins them out by a random factor, and takes the
log-signatures of short windows of what is left, at many places. Random linear maps of a log-signature say how much a
window rises, bends or turns in a certain way. A feature is the share of windows for which such a number is above a
threshold, which is a random quantile of the training set, or for which a map is the largest or smallest of eight. Draws
reach from neighbouring points to the whole series.

Shares need no training and no equal lengths, and those of a series can be kept up to date as it grows. That they are
shares and not means is what makes simple linear models on them strong (Dempster, Petitjean and Webb 2020, ROCKET, for
thresholds; Dempster, Schmidt and Webb 2023, HYDRA, for contests).
"""

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..paths import Series
from ..signatures.looks import (
    CHANGES,
    EACH,
    LOG_WORDS,
    SCALED,
    WORDS,
    Looks,
    Seen,
    check_plan,
    log_signatures_of_looks,
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
# Standard deviations whose fourth power, in log-signatures of depth 4, is a number in float32.
_LARGEST = 1e9
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

    looks: Looks
    mean: Float[Any, "channels"]
    spread: Float[Any, "channels"]
    spread_of_changes: Float[Any, "channels"]

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
        some = series[np.sort(rng.choice(len(series), min(len(series), _SEEN_SERIES), replace=False))]
        looks = Looks.empty(draws, channels, maps=maps, thresholds=thresholds, contests=contests, windows=windows)
        quantiles = _draw(looks, rng, int(np.median(series.lengths)))
        floats = (one.astype(np.float32) for one in (mean, spread, _positive(moved)))
        features = RandomFeatures(looks, *floats)
        most = max(1, _SEEN_WINDOWS // len(some))
        logs = log_signatures_of_looks(looks, features._seen(some), some.lengths, most)
        return dataclasses.replace(features, looks=_learned(looks, logs, quantiles))

    @property
    def count(self) -> int:
        """The number of features."""
        return sum(self.looks.counts)

    def __call__(self, series: Series) -> Float[np.ndarray, "samples features"]:
        check_plan(self.looks.plan)
        rows = max(1, _PIECE // series.values[0].size)
        parts = [series[slice(first, first + rows)] for first in range(0, len(series), rows)]
        found = [shares(self.looks, self._seen(part), part.lengths) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _seen(self, series: Series) -> Seen:
        """What draws look at, channel by channel: scaled, each by itself, changes."""
        values, real = np.swapaxes(series.values, 1, 2), series.valid[:, None, :]
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = ((values - self.mean[:, None]) / self.spread[:, None]).astype(np.float32)
        _check_size(scaled, series)
        # In float64, so that padding, which depends on the other series, does not change the last digit.
        mean = scaled.mean(axis=2, where=real, keepdims=True, dtype=np.float64)
        spread = scaled.std(axis=2, where=real, keepdims=True, dtype=np.float64)
        each = ((scaled - mean) / _positive(spread, 1e-6)).astype(np.float32)
        changes = np.diff(scaled, axis=2, prepend=scaled[..., :1]) * (self.spread / self.spread_of_changes)[:, None]
        return scaled, each, changes.astype(np.float32)


def _check_size(scaled: Float[np.ndarray, "samples channels length"], series: Series) -> None:
    """Raise rather than count windows whose log-signatures overflow, which look like any others."""
    if scaled.min() >= -_LARGEST and scaled.max() <= _LARGEST:
        return
    row, channel = np.argwhere(~(np.abs(scaled) <= _LARGEST).all(axis=2))[0]
    name = f"{row}" if series.ids is None else f"{row} ({series.ids[row]})"
    raise ValueError(
        f"Got series {name}, whose channel {series.channels[channel]!r} reaches "
        f"{np.abs(series.values[row, :, channel]).max():.3g}; expected at most {_LARGEST:g} standard deviations of the "
        "training set, because log-signatures are computed in float32. Look for values that are no measurements, and "
        "write NaN for them."
    )


def _draw(looks: Looks, rng: np.random.Generator, length: int) -> list[Float[np.ndarray, "thresholds _all_maps"]]:
    """Draw everything that depends on no data, into `looks`; and the quantiles that are to be thresholds."""
    channels, maps, rivals = looks.mixtures.shape[1], looks.maps.shape[2], looks.rivals.shape[2]
    points = max(2, min(POINTS, length - 1))
    widest = np.log2(max(1.0, (length - 1) / points))
    quantiles = []
    for draw in range(len(looks.plan)):
        # Scales are evenly spread on a logarithmic scale.
        dilation = max(1, (length - 1) // points) if draw % _WHOLE == 0 else int(2 ** rng.uniform(0, widest))
        kind, kept, lag = _CYCLE[draw % len(_CYCLE)], 1, 0
        if channels > 1:
            some = int(2 ** rng.uniform(0, np.log2(min(channels, _MOST_MIXED) + 1)))
            chosen, kept = rng.choice(channels, some, replace=False), int(rng.integers(1, 3))
            if some <= kept:
                kept, mixture = some, np.eye(some)
            else:
                mixture = rng.normal(size=(some, kept)) / np.sqrt(some)
            looks.mixtures[draw, chosen, :kept] = mixture
        else:
            looks.mixtures[draw, 0, 0] = 1.0
            lag = dilation * int(rng.integers(1, POINTS)) if draw % 3 == 0 else 0
            lag = lag if lag < length // 2 else 0
            kept = 2 if lag else 1
        looks.plan[draw] = kind, dilation, lag, kept, points * dilation
        plain = LOG_WORDS[kept - 1]  # levels are not mixed with increments
        looks.maps[draw, :plain] = rng.normal(size=(plain, maps)) * (rng.random((plain, maps)) < 0.5)
        looks.rivals[draw, :plain] = rng.normal(size=(plain, rivals))
        quantiles.append(rng.uniform(0.02, 0.98, size=(looks.thresholds.shape[1], WORDS[kind][kept - 1] + maps)))
    return quantiles


def _learned(
    looks: Looks,
    log_signatures: list[Float[np.ndarray, "_windows _words"]],
    quantiles: list[Float[np.ndarray, "thresholds _all_maps"]],
) -> Looks:
    """With the sizes of log-signatures as scales, and as thresholds the quantiles of windows of the training set."""
    scales, thresholds = looks.scales.copy(), looks.thresholds.copy()
    for draw, (logs, quantile) in enumerate(zip(log_signatures, quantiles, strict=True)):
        words = logs.shape[1]
        scales[draw, :words] /= _positive(np.sqrt((logs**2).mean(axis=0, dtype=np.float64)))
        logs = logs * scales[draw, :words]
        values = np.sort(np.concatenate([logs, logs @ looks.maps[draw, :words]], axis=1), axis=0)
        place = (quantile * (len(values) - 1)).astype(int)
        above = np.minimum(place + 1, len(values) - 1)
        columns = np.arange(values.shape[1])
        # Between two windows of the training set, where rounding decides nothing.
        thresholds[draw, :, : len(columns)] = (values[place, columns] + values[above, columns]) / 2
    return dataclasses.replace(looks, scales=scales, thresholds=thresholds)


def _positive(spread: np.ndarray, least: float = 1e-8) -> np.ndarray:
    """Something to divide by: a channel that never changes has no spread."""
    return np.where(spread > least, spread, 1.0)
