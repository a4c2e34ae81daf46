"""What every channel and every span of time contributed to a linear function of features, in exact arithmetic.

A feature is a number of a whole series. How far it lies from its mean, times its coefficient, is what it contributed;
a block of features says how that is divided. Shares are means over windows, so theirs divides over the windows, and
within a window over its mixture of channels and its points, in proportion to how far each is from its mean there.
A log-signature of the path belongs to its letters' channels, and evenly to the time that it spans. Statistics belong to
their channel, and to no time.

A block has a function `(series, offsets, slopes, bins) -> (channels + 1, bins + 1, outputs)` for one series, whose sum
is `offsets @ slopes`. The last row is of no channel, the last column of no time.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from ..paths import Series
from ..signatures.lyndon import lyndon_words
from .features import SeriesFeatures, Standardised, path_depth, statistic_names
from .observations import QUANTILES
from .random_windows import (
    GROUP,
    KIND,
    LAG,
    PARTS,
    SPAN,
    RandomFeatures,
    RandomWindows,
    window_log_signatures,
    window_starts,
)

# Standard deviations that are added to what a channel does, so that a window in which nothing happens divides evenly.
_STILL = 1e-3

Divided = Float[np.ndarray, "rows columns outputs"]


def contributions(
    features: SeriesFeatures,
    series: Series,
    regular: Series,
    coefficients: Float[np.ndarray, "features outputs"],
    bins: int,
    static: Float[np.ndarray, "samples numbers"] | None = None,
    static_owners: Int[np.ndarray, "numbers"] | None = None,
) -> Float[np.ndarray, "samples rows columns outputs"]:
    """The parts of `features(series, regular) @ coefficients`, which sum to it.

    Args:
        features: fitted.
        series, regular: as `features` takes them.
        coefficients: of all its features.
        bins: spans of time, of one length, from a series' first point to its last.
        static, static_owners: the numbers of a table beside the series, and the column of each: a row for each column
            comes after those of the channels and the one of no channel.
    """
    rows, channels = range(len(series)), len(series.channels)
    owners = [channels if one is None else one for _, one in statistic_names(channels, features.steps is not None)]
    apart = 0 if static_owners is None else int(static_owners.max()) + 1
    windows = lambda parts: lambda row, *rest: of_windows(parts, features.random, regular[row], *rest)
    statistics = lambda owners: lambda row, *rest: of_statistics(owners, channels + apart, *rest)
    divide: dict[str, Callable[..., Divided]] = {
        "shares": windows(1),
        "parts": windows(PARTS),
        "path": lambda row, *rest: of_path(channels, *rest),
        "statistics": statistics(np.array(owners)),
        "steps": statistics(np.tile(owners, QUANTILES + 1)),
    }
    if static_owners is not None:
        divide["static"] = statistics(channels + 1 + static_owners)
    found, first = np.zeros((len(series), channels + 1 + apart, bins + 1, coefficients.shape[1])), 0
    for name, values in features.raw(series, regular, static).items():
        own = np.asarray(coefficients[first : first + values.shape[1]], np.float64)
        first += values.shape[1]
        offsets, steepness = _lines(features.blocks[name], values)
        parts = (divide[name](slice(row, row + 1), offsets[row], steepness[row][:, None] * own, bins) for row in rows)
        divided = np.stack(list(parts))
        found[:, : divided.shape[1]] += divided
    return found


def _lines(standardised: Standardised, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features less their mean, and the factors that make of them what a linear model sees, which may be cut off."""
    offsets = np.nan_to_num(values.astype(np.float64) - standardised.mean)
    seen = standardised(values).astype(np.float64)
    return offsets, np.divide(seen, offsets, out=np.zeros_like(offsets), where=offsets != 0)


def of_windows(
    parts: int, random: RandomFeatures, regular: Series, offsets: np.ndarray, slopes: np.ndarray, bins: int
) -> Divided:
    """Those of shares of windows, for one regular series: of all, or of the windows of each part."""
    drawn, points, first = random.drawn, int(regular.lengths[0]), 0
    found = np.zeros((len(random.mean) + 1, bins + 1, slopes.shape[1]))
    seen = random.seen(regular)
    offsets, slopes = (array.reshape(parts, -1, *array.shape[1:]) for array in (offsets, slopes))
    for draw, logs in enumerate(window_log_signatures(drawn, seen, regular.lengths, drawn.windows)):
        happened = _happened(logs * drawn.scales[draw, : logs.shape[1]], drawn, draw)
        if parts > 1:  # the first threshold only
            happened = happened[:, : logs.shape[1] + drawn.maps.shape[2]]
        own = slice(first, first := first + happened.shape[1])
        cuts = -(-np.arange(parts + 1) * len(logs) // parts)
        each = np.zeros((len(logs), slopes.shape[2]))
        for part, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                # Every window has the same part, and what it has beyond the others.
                inside = happened[begin:end]
                beyond = offsets[part, own] + inside - inside.mean(axis=0)
                each[begin:end] = beyond @ slopes[part, own] / (end - begin)
        kind, lag, span = (int(drawn.plan[draw, column]) for column in (KIND, LAG, SPAN))
        starts = window_starts(regular.lengths, span, drawn.windows)[0]
        ends = np.minimum(starts + span, points - 1) + 1
        starts = np.maximum(starts - lag, 0)
        weights = np.abs(drawn.mixtures[draw]).sum(axis=1)
        chosen = np.flatnonzero(weights)
        size = (np.abs(seen[kind][0, chosen, :points]) + _STILL) * weights[chosen, None]
        before = np.concatenate([[0.0], np.cumsum(size.sum(axis=0), dtype=np.float64)])
        each /= (before[ends] - before[starts])[:, None]
        rates = np.zeros((points + 1, each.shape[1]))
        np.add.at(rates, starts, each)
        np.subtract.at(rates, ends, each)
        divided = size[:, :, None] * np.cumsum(rates[:points], axis=0)
        found[chosen, :bins] += binned(divided, np.arange(points + 1) / points, bins)
    return found


def _happened(scaled: np.ndarray, drawn: RandomWindows, draw: int) -> Float[np.ndarray, "windows features"]:
    """What each window adds to the draw's features, which are the means over windows: see `shares`."""
    words = scaled.shape[1]
    values = np.concatenate([scaled, scaled @ drawn.maps[draw, :words]], axis=1)
    above = [values > row[: values.shape[1]] for row in drawn.thresholds[draw]]
    competitors = scaled @ drawn.competitors[draw, :words]
    groups = competitors.reshape(len(competitors), -1, GROUP)
    ends = (groups == groups.max(axis=2, keepdims=True), groups == groups.min(axis=2, keepdims=True))
    won = np.concatenate([one.reshape(competitors.shape) for one in ends], axis=1)
    roots = np.sqrt(won.mean(axis=0))
    return np.concatenate([*above, won / np.where(roots > 0, roots, 1.0)], axis=1)


def of_path(channels: int, offsets: np.ndarray, slopes: np.ndarray, bins: int) -> Divided:
    """Those of log-signatures of a series and its parts: a word's letters share it alike, time aside."""
    words = lyndon_words(channels + 1, path_depth(channels))
    owned = np.zeros((channels + 1, len(words)))
    for number, word in enumerate(words):
        letters = [letter - 1 for letter in word if letter] or [channels]
        np.add.at(owned[:, number], letters, 1 / len(letters))
    each, first = (offsets[:, None] * slopes).reshape(-1, len(words), slopes.shape[1]), 0
    found = np.zeros((channels + 1, bins + 1, slopes.shape[1]))
    while first < len(each):
        count = first + 1  # 1, 2, 4, ... parts
        parts = np.einsum("cw,pwo->cpo", owned, each[first : first + count])
        found[:, :bins] += binned(parts, np.arange(count + 1) / count, bins)
        first += count
    return found


def of_statistics(
    owners: Int[np.ndarray, "features"], channels: int, offsets: np.ndarray, slopes: np.ndarray, bins: int
) -> Divided:
    """Those of statistics, or of their steps, each of which belongs to one channel, or to none."""
    found = np.zeros((channels + 1, bins + 1, slopes.shape[1]))
    np.add.at(found[:, bins], owners, offsets[:, None] * slopes)
    return found


def binned(
    parts: Float[np.ndarray, "channels spans outputs"], ends: Float[np.ndarray, "ends"], bins: int
) -> Float[np.ndarray, "channels bins outputs"]:
    """What falls into each of some bins of one length, of parts that are spread evenly over their spans.

    >>> binned(np.array([[[4.0], [1.0]]]), np.array([0.0, 0.8, 1.0]), 2)[0, :, 0].round(9).tolist()
    [2.5, 2.5]

    Args:
        parts: of each span.
        ends: where spans begin and end; bins divide what lies between the first and the last.
    """
    sums = np.concatenate([np.zeros_like(parts[:, :1]), np.cumsum(parts, axis=1)], axis=1)
    places = np.linspace(ends[0], ends[-1], bins + 1)
    after = np.clip(np.searchsorted(ends, places, side="left"), 1, len(ends) - 1)
    width = ends[after] - ends[after - 1]
    share = np.clip((places - ends[after - 1]) / np.where(width > 0, width, 1.0), 0.0, 1.0)[None, :, None]
    reached = sums[:, after - 1] * (1 - share) + sums[:, after] * share
    reached[:, -1] = sums[:, -1]  # all of it, also where everything happened at once
    return np.diff(reached, axis=1)
