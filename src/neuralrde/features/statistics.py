"""Seven plain statistics of each channel, of whole series and of what has been seen until each point.

They are the mean, standard deviation, lowest and highest value, the mean absolute change, the standard deviation of the
changes, and last minus first value. Missing values are left out: a change is from one known value to the next.
"""

import numpy as np
from jaxtyping import Bool, Float

from ..paths import Series

NAMES = ("mean", "deviation", "lowest", "highest", "mean absolute change", "deviation of changes", "last minus first")

# Numbers that are worked on at once, for memory.
_PIECE = 2_000_000


def summary_statistics(series: Series) -> Float[np.ndarray, "samples features"]:
    """The seven statistics of each channel; NaN where a channel of a series has no value at all.

    >>> series = Series.from_arrays([[1.0, np.nan, 3.0, 2.0], [5.0]])
    >>> summary_statistics(series).round(2).tolist()
    [[2.0, 0.82, 1.0, 3.0, 1.5, 1.5, 1.0], [5.0, 0.0, 5.0, 5.0, 0.0, 0.0, 0.0]]
    """
    return np.concatenate([_summary(series.values[piece], series.valid[piece]) for piece in pieces(series)])


def pieces(series: Series) -> list[slice]:
    """Rows that are worked on at once."""
    rows = max(1, _PIECE // series.values[0].size)
    return [slice(start, start + rows) for start in range(0, len(series), rows)]


def running_statistics(series: Series) -> Float[np.ndarray, "points features"]:
    """For each real point, the seven statistics of its series so far, and each channel's latest value.

    A row knows nothing of later points, so that a model of it can be asked at any time.

    >>> running_statistics(Series.from_array([[1.0, 3.0]])).tolist()
    [[1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0], [2.0, 1.0, 1.0, 3.0, 2.0, 0.0, 2.0, 3.0]]
    """
    return np.concatenate(
        [_running(values[:length]) for values, length in zip(series.values, series.lengths, strict=True)]
    )


def _summary(values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    values = values.astype(np.float64)
    known = valid[..., None] & ~np.isnan(values)
    changes, changed, latest, first = _changes(values, known)
    features = [
        *_mean_and_spread(np.where(known, values, 0.0), known),
        values.min(axis=1, where=known, initial=np.inf),
        values.max(axis=1, where=known, initial=-np.inf),
        np.abs(changes).sum(axis=1) / np.maximum(changed.sum(axis=1), 1),
        _mean_and_spread(changes, changed)[1],
        latest[:, -1] - first,
    ]
    absent = ~known.any(axis=1)
    return np.concatenate([np.where(absent, np.nan, feature) for feature in features], axis=1)


def _mean_and_spread(values: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the known values; the others are 0."""
    count = np.maximum(known.sum(axis=1), 1)
    mean = values.sum(axis=1) / count
    off = np.where(known, values - mean[:, None], 0.0)
    return mean, np.sqrt((off**2).sum(axis=1) / count)


def _changes(values: np.ndarray, known: Bool[np.ndarray, "..."]) -> tuple[np.ndarray, ...]:
    """Changes from one known value to the next (0 where there is none), where they are, latest and first values."""
    points = np.arange(values.shape[1])[:, None]
    last = np.maximum.accumulate(np.where(known, points, -1), axis=1)
    latest = np.take_along_axis(values, np.maximum(last, 0), axis=1)
    first = np.take_along_axis(values, known.argmax(axis=1)[:, None], axis=1)[:, 0]
    changed = known[:, 1:] & (last[:, :-1] >= 0)
    changes = np.where(changed, values[:, 1:] - latest[:, :-1], 0.0)
    return changes, changed, np.where(last >= 0, latest, np.nan), first


def _running(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.float64)
    known = ~np.isnan(values)
    changes, changed, latest, first = (array[0] for array in _changes(values[None], known[None]))
    # A deviation is the same around any number; around one of the values its squares lose fewest digits.
    seen = np.maximum(known.cumsum(axis=0), 1)
    off = np.where(known, values - first, 0.0)
    mean = off.cumsum(axis=0) / seen
    spread = np.sqrt(np.maximum((off**2).cumsum(axis=0) / seen - mean**2, 0.0))
    nothing = np.zeros((1, values.shape[1]))  # there is no change to the first point
    changes, changed = (np.concatenate([nothing, array]) for array in (changes, changed))
    count = np.maximum(changed.cumsum(axis=0), 1)
    moved = changes.cumsum(axis=0) / count
    features = [
        mean + first,
        spread,
        np.minimum.accumulate(np.where(known, values, np.inf)),
        np.maximum.accumulate(np.where(known, values, -np.inf)),
        np.abs(changes).cumsum(axis=0) / count,
        np.sqrt(np.maximum((changes**2).cumsum(axis=0) / count - moved**2, 0.0)),
        latest - first,
        latest,
    ]
    absent = ~known.cumsum(axis=0).astype(bool)
    return np.concatenate([np.where(absent, np.nan, feature) for feature in features], axis=1)
