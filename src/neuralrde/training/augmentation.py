"""Augmentations: other versions of the training series, drawn anew in every epoch, with targets that move along.

An augmentation is a function of (series, target, generator). `Augmented` makes examples of it for `fit`: what an epoch
sees is drawn from (seed, epoch) alone, so that a resumed training sees the same. Log-signatures are computed anew each
time; they are quick enough.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..paths import Series
from .examples import Examples


@runtime_checkable
class Augmentation(Protocol):
    def __call__(self, series: Series, target: np.ndarray, rng: np.random.Generator) -> tuple[Series, np.ndarray]: ...


@dataclass(frozen=True)
class TimeStretch:
    """Plays each series faster or slower, each by its own factor; a target that is a rate changes with it.

    A faster series has fewer points, so the resulting series differ in length. For a model to see the speed, time must
    be a channel in a fixed unit (`TimeChannel` fitted on the original series).

    Args:
        slowest, fastest: factors, drawn evenly on a logarithmic scale.
        rate: whether the target is a rate, such as beats per minute, and is multiplied by the factor.

    >>> series = Series.from_array(np.arange(12.0)[None, :, None])
    >>> stretched, target = TimeStretch(0.5, 2.0, rate=True)(series, np.array([60.0]), np.random.default_rng(0))
    >>> bool(np.isclose(np.diff(stretched.values[0, :2, 0]) * 60.0, target)[0])
    True
    """

    slowest: float = 0.7
    fastest: float = 1.4
    rate: bool = False

    def __post_init__(self):
        if not 0 < self.slowest <= 1 <= self.fastest:
            raise ValueError(
                f"Got slowest={self.slowest} and fastest={self.fastest}; expected 0 < slowest <= 1 <= fastest, factors "
                "of the speed. Write for example TimeStretch(0.7, 1.4)."
            )

    def __call__(self, series, target, rng):
        speeds = self.speeds(len(series), rng)
        return stretch_time(series, speeds), (target.T * speeds).T.astype(target.dtype) if self.rate else target

    def speeds(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """So many factors."""
        return np.exp(rng.uniform(np.log(self.slowest), np.log(self.fastest), count))


def stretch_time(series: Series, speeds: np.ndarray | float) -> Series:
    """Each series at a speed: point j is where the original is at j times the speed, by linear interpolation.

    >>> stretch_time(Series.from_array([[0.0, 1.0, 2.0, 3.0, 4.0]]), 2.0).values[0, :, 0].tolist()
    [0.0, 2.0, 4.0]
    """
    interval = _interval(series)
    speeds = np.broadcast_to(np.asarray(speeds, np.float64), len(series))
    lengths = ((series.lengths - 1) / speeds + 1e-9).astype(np.int64) + 1
    values = np.zeros((len(series), lengths.max(), series.values.shape[2]), series.values.dtype)
    for i, (speed, length) in enumerate(zip(speeds, lengths, strict=True)):
        old = series.values[i, : series.lengths[i]]
        for channel in range(old.shape[1]):
            values[i, :length, channel] = np.interp(speed * np.arange(length), np.arange(len(old)), old[:, channel])
        values[i, length:] = values[i, length - 1]
    times = None if series.times is None else series.times[:, :1] + interval * np.arange(lengths.max())
    return Series(values, times=times, lengths=lengths, channels=series.channels, ids=series.ids)


def _interval(series: Series) -> float:
    """The time between two points of evenly sampled series."""
    if series.times is None:
        return 1.0
    gaps = np.diff(series.times, axis=1)[series.valid[:, 1:]]
    if not np.allclose(gaps, gaps.mean(), rtol=1e-3):
        raise ValueError(
            f"Got series with irregular times, from {gaps.min():g} to {gaps.max():g} apart; expected evenly sampled "
            "ones, because a stretched series is sampled anew at the same interval. Leave TimeStretch out."
        )
    return float(gaps.mean())


@dataclass(frozen=True, eq=False)
class Augmented:
    """Training examples that are drawn anew in every epoch, for `fit`.

    Args:
        series, target: the original series and targets.
        steps: augmentations, one after the other.
        examples: a function that makes `Examples` from augmented series and targets: it prepares them, cuts them, and
            computes log-signatures.
        seed: seed of the draws.
    """

    series: Series
    target: np.ndarray
    steps: Sequence[Augmentation]
    examples: Callable[[Series, np.ndarray], Examples]
    seed: int = 0

    def __len__(self) -> int:
        return len(self.series)

    def epoch(self, number: int) -> Examples:
        """The examples of an epoch."""
        rng = np.random.default_rng([self.seed, number, 1])
        series, target = self.series, self.target
        for step in self.steps:
            series, target = step(series, target, rng)
        return self.examples(series, target)
