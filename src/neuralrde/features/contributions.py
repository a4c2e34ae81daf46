"""What every channel and every span of time contributed to a linear function of features, in exact arithmetic.

A feature is a number of a whole series. How far it lies from its mean, times its coefficient, is what it contributed;
a block of features says how that is divided. Shares are means over windows, so theirs divides over the windows, and
within a window over its mixture of channels and its points, in proportion to how far each is from its mean there.
Statistics belong to their channel, and to no time.

A block has a function `(series, offsets, slopes, bins) -> (channels + 1, bins + 1, outputs)` for one series, whose sum
is `offsets @ slopes`. The last row is of no channel, the last column of no time.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from ..paths import Series
from .features import SeriesFeatures, Standardised, all_statistics, statistic_names
from .random_windows import GROUP, KIND, LAG, SPAN, RandomFeatures, RandomWindows, window_log_signatures, window_starts

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
    rows, channels, sparse = range(len(series)), len(series.channels), features.steps is not None
    statistics = all_statistics(series, sparse)
    owners = np.array([channels if one is None else one for _, one in statistic_names(channels, sparse)])
    blocks: list[tuple[Standardised, np.ndarray, Callable[..., Divided]]] = [
        (
            features.shares,
            features.random(regular),
            lambda row, *rest: of_windows(features.random, regular[row], *rest),
        ),
        (features.statistics, statistics, lambda row, *rest: of_statistics(owners, channels, *rest)),
    ]
    if features.steps is not None and features.stepped is not None:
        steps = features.steps(statistics)
        owners_of_steps = np.tile(owners, steps.shape[1] // len(owners))
        blocks.append((features.stepped, steps, lambda row, *rest: of_statistics(owners_of_steps, channels, *rest)))
    apart = 0
    if features.static is not None and static is not None and static_owners is not None:
        apart, rows_of_columns = int(static_owners.max()) + 1, channels + 1 + static_owners
        divide_static = lambda row, *rest: of_statistics(rows_of_columns, channels + apart, *rest)
        blocks.append((features.static, static, divide_static))
    found, first = np.zeros((len(series), channels + 1 + apart, bins + 1, coefficients.shape[1])), 0
    for standardised, values, divide in blocks:
        own = np.asarray(coefficients[first : first + values.shape[1]], np.float64)
        first += values.shape[1]
        offsets, steepness = _lines(standardised, values)
        parts = (divide(slice(row, row + 1), offsets[row], steepness[row][:, None] * own, bins) for row in rows)
        divided = np.stack(list(parts))
        found[:, : divided.shape[1]] += divided
    return found


def _lines(standardised: Standardised, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features less their mean, and the factors that make of them what a linear model sees, which may be cut off."""
    offsets = np.nan_to_num(values.astype(np.float64) - standardised.mean)
    seen = standardised(values).astype(np.float64)
    return offsets, np.divide(seen, offsets, out=np.zeros_like(offsets), where=offsets != 0)


def of_windows(random: RandomFeatures, regular: Series, offsets: np.ndarray, slopes: np.ndarray, bins: int) -> Divided:
    """Those of shares of windows, for one regular series."""
    drawn, points, first = random.drawn, int(regular.lengths[0]), 0
    found = np.zeros((len(random.mean) + 1, bins + 1, slopes.shape[1]))
    seen = random._seen(regular)
    for draw, logs in enumerate(window_log_signatures(drawn, seen, regular.lengths, drawn.windows)):
        own = slice(first, first := first + drawn.counts[draw])
        # Every window has the same part, and what it has beyond the others.
        happened = _happened(logs * drawn.scales[draw, : logs.shape[1]], drawn, draw)
        each = (offsets[own] + happened - happened.mean(axis=0)) @ slopes[own] / len(logs)
        kind, lag, span = (int(drawn.plan[draw, column]) for column in (KIND, LAG, SPAN))
        starts = window_starts(regular.lengths, span, drawn.windows)[0]
        ends = np.minimum(starts + span, points - 1) + 1
        starts = np.maximum(starts - lag, 0)
        weights = np.abs(drawn.mixtures[draw]).sum(axis=1)
        chosen = np.flatnonzero(weights)
        size = (np.abs(seen[kind][0, chosen, :points]) + _STILL) * weights[chosen, None]
        before = np.concatenate([[0.0], np.cumsum(size.sum(axis=0), dtype=np.float64)])
        each /= (before[ends] - before[starts])[:, None]
        rates = np.zeros((points + 1, slopes.shape[1]))
        np.add.at(rates, starts, each)
        np.subtract.at(rates, ends, each)
        parts = size[:, :, None] * np.cumsum(rates[:points], axis=0)
        found[chosen, :bins] += binned(parts, np.arange(points + 1) / points, bins)
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
