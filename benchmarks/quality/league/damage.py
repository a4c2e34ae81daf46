"""Damage to series: points dropped, values missing, ends cut off. The same for every classifier.

What is damaged depends on the set's name, the kind of damage and the seed alone.
"""

import zlib
from collections.abc import Callable

import numpy as np

from neuralrde import Series

DROPPED_SHARE = 0.5
MISSING_SHARE = 0.3
SHORTEST_CUT = 0.6


def damaged(series: Series, kind: str, *, name: str, seed: int) -> Series:
    """The series after damage of a kind, or as they are if it is "none"."""
    if kind not in DAMAGES:
        raise ValueError(f"Got the damage {kind!r}; expected one of {', '.join(DAMAGES)}.")
    # Not `hash`, which differs from process to process.
    return DAMAGES[kind](series, np.random.default_rng([zlib.crc32(f"{name} {kind}".encode()), seed]))


def dropped(series: Series, rng: np.random.Generator) -> Series:
    """Without half of each series' points, drawn at random; the first and the last stay, and times tell the gaps."""
    rows, times = [], []
    for values, clock, length in zip(series.values, series.clock, series.lengths, strict=True):
        inner = np.arange(1, length - 1)
        gone = rng.choice(inner, min(len(inner), int(length * DROPPED_SHARE)), replace=False)
        kept = np.delete(np.arange(length), gone)
        rows.append(values[kept])
        times.append(clock[kept])
    return Series.from_arrays(rows, times=times, channels=series.channels)


def missing(series: Series, rng: np.random.Generator) -> Series:
    """With 30 % of the values of each channel of each series missing, drawn at random for each channel by itself."""
    drawn = np.where(series.valid[..., None], rng.random(series.values.shape), np.inf)
    place = drawn.argsort(axis=1).argsort(axis=1)  # the place of each value among those of its channel
    count = np.round(MISSING_SHARE * series.lengths).astype(int)
    values = np.where(place < count[:, None, None], np.float32("nan"), series.values)
    return Series(values, times=series.times, lengths=series.lengths, channels=series.channels)


def cut(series: Series, rng: np.random.Generator) -> Series:
    """The beginning of each series: a share of it between 60 and 100 %, drawn at random."""
    share = rng.uniform(SHORTEST_CUT, 1.0, len(series))
    lengths = np.ceil(share * series.lengths).astype(int)
    longest = lengths.max()
    times = None if series.times is None else series.times[:, :longest]
    return Series(series.values[:, :longest], times=times, lengths=lengths, channels=series.channels)


DAMAGES: dict[str, Callable[[Series, np.random.Generator], Series]] = {
    "none": lambda series, rng: series,
    "dropped": dropped,
    "missing": missing,
    "cut": cut,
}
