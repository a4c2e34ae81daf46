"""Statistics of series whose values are mostly missing, because somebody decides when to measure what.

Beside the plain statistics come: how old each channel's last value is and how late its first, how many there are, both
values, the slope, the mean over time, and mean, lowest, highest and number in the second half and in the last quarter.
All are computed from the observations alone, so that empty channels cost nothing.

A linear model of such statistics gains much from steps: whether a statistic is known at all, and whether it is above
each of eight quantiles of the training set. Sums of steps are any function of a statistic, so low may be as bad as
high.
"""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from ..paths import Series
from .statistics import pieces

_WHOLE = ("count", "age", "time of the first", "last", "first", "slope", "mean over time")
_PART = ("count", "mean", "lowest", "highest")
NAMES = (*_WHOLE, *(f"{what} in the {part}" for part in ("second half", "last quarter") for what in _PART))
QUANTILES = 8
# Where each part of a series begins, as a share of its duration.
_PARTS = (0.5, 0.75)


def mostly_missing(series: Series) -> bool:
    """Whether more than half of the values are missing: the channels were then observed one by one."""
    return int(np.isnan(series.values[series.valid]).sum()) * 2 > int(series.lengths.sum()) * len(series.channels)


def observation_statistics(series: Series) -> Float[np.ndarray, "samples features"]:
    """The statistics of `NAMES`, of each channel; NaN where there are too few observations for one.

    >>> series = Series([[[np.nan], [3.0], [np.nan], [5.0], [np.nan]]])
    >>> observation_statistics(series)[0, 3:7].round(2).tolist()  # 3 is held for two thirds of the time
    [5.0, 3.0, 1.0, 3.67]
    """
    return np.concatenate([_of(series[piece]) for piece in pieces(series)])


def _of(series: Series) -> np.ndarray:
    samples, channels = len(series), len(series.channels)
    known = ~np.isnan(series.values) & series.valid[..., None]
    # All observations, channel by channel and in order of their times. One more, in a group of its own, so that there
    # always is one.
    sample, channel, point = np.nonzero(np.swapaxes(known, 1, 2))
    clock = series.clock - series.clock[:, :1]
    value, time = np.append(series.values[sample, point, channel], 0.0), np.append(clock[sample, point], 0.0)
    group, size = np.append(sample * channels + channel, samples * channels), samples * channels + 1
    whole = np.append(np.repeat(clock[np.arange(samples), series.lengths - 1], channels), 0.0)
    count, summed = np.bincount(group, minlength=size), lambda numbers: np.bincount(group, numbers, minlength=size)
    ends, some, divided = np.cumsum(count), count > 0, np.maximum(count, 1)
    first, last = (ends - count) * some, (ends - 1) * some
    mean, middle = summed(value) / divided, summed(time) / divided
    off, late = value - mean[group], time - middle[group]
    spread = summed(late**2)
    # A value holds until the next of its channel, the last one until the series ends.
    until = np.append(time[1:], 0.0)
    until[last[some]] = whole[some]
    held = summed(until - time)
    found = [
        np.log1p(np.maximum(whole - time[last], 0.0)),
        np.log1p(time[first]),
        value[last],
        value[first],
        np.where(spread > 0, summed(off * late) / np.where(spread > 0, spread, 1.0), np.nan),
        mean + summed(off * (until - time)) / np.where(held > 0, held, 1.0),
    ]
    found = [np.log1p(count), *(np.where(some, one, np.nan) for one in found)]
    for begin in _PARTS:
        inside = time >= begin * whole[group]
        found += _summary(value[inside], group[inside], size)
    return np.concatenate([one[:-1].reshape(samples, channels) for one in found], axis=1)


def _summary(value: np.ndarray, group: Int[np.ndarray, "observations"], size: int) -> list[np.ndarray]:
    """The logarithm of the number, mean, lowest and highest value of each group; groups come one after the other."""
    count = np.bincount(group, minlength=size)
    some, starts = count > 0, np.cumsum(count) - count
    low, high = np.full((2, size), np.nan)
    low[some], high[some] = (ends.reduceat(value, starts[some]) for ends in (np.minimum, np.maximum))
    mean = np.where(some, np.bincount(group, value, minlength=size) / np.maximum(count, 1), np.nan)
    return [np.log1p(count), mean, low, high]


class Steps(eqx.Module):
    """Statistics as steps: first for each whether it is known, then whether it is above its first threshold, and so on.

    Of the `n` statistics, number `k % n` is in feature `k`.
    """

    thresholds: Float[Any, "quantiles statistics"]

    @staticmethod
    def fit(statistics: Float[np.ndarray, "samples statistics"]) -> "Steps":
        ordered = np.sort(statistics.astype(np.float32), axis=0)  # what is not known comes last
        known, columns = (~np.isnan(ordered)).sum(axis=0), np.arange(ordered.shape[1])
        thresholds = np.zeros((QUANTILES, ordered.shape[1]), np.float32)
        for step in range(QUANTILES):
            place = ((step + 1) / (QUANTILES + 1) * np.maximum(known - 1, 0)).astype(int)
            above = np.minimum(place + 1, np.maximum(known - 1, 0))
            # Between two series of the training set, where rounding decides nothing.
            thresholds[step] = (ordered[place, columns] + ordered[above, columns]) / 2
        return Steps(np.where(known > 0, thresholds, 0.0).astype(np.float32))

    def __call__(self, statistics: Float[np.ndarray, "samples statistics"]) -> Float[np.ndarray, "samples features"]:
        """1, 0, or NaN where a statistic is not known."""
        seen = statistics.astype(np.float32)
        missing = np.isnan(seen)
        out = np.empty((len(seen), len(self.thresholds) + 1, seen.shape[1]), np.float32)
        out[:, 0] = ~missing
        for step, row in enumerate(np.asarray(self.thresholds), 1):
            out[:, step] = np.where(missing, np.nan, seen > row)
        return out.reshape(len(seen), -1)
