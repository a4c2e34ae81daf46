"""Augmentations: other versions of the training series, drawn anew in every epoch, with targets that move along.

An augmentation is a function of (series, target, generator). `Augmented` makes examples of it for `fit`: what an epoch
sees is drawn from (seed, epoch) alone, so that a resumed training sees the same. Log-signatures are computed anew each
time; they are quick enough.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..paths import Series
from .examples import Examples


class Augmentation(Protocol):
    def __call__(self, series: Series, target: np.ndarray, rng: np.random.Generator) -> tuple[Series, np.ndarray]: ...


@dataclass(frozen=True)
class TimeStretch:
    """Plays a piece of each series faster or slower, by a factor of its own; a target that is a rate moves along.

    All pieces come out at one length, that of the series divided by `fastest`, so that the fastest piece is the whole
    series. Where there is nothing to draw, for validation and in use, `plain` takes pieces of the same length at their
    own speed.

    Args:
        slowest, fastest: factors, drawn evenly on a logarithmic scale.
        rate: whether the target is a rate, such as beats a minute, and is multiplied by the factor.

    >>> series = Series.from_array(np.arange(12.0)[None, :, None])
    >>> stretched, target = TimeStretch(0.5, 2.0, rate=True)(series, np.array([60.0]), np.random.default_rng(0))
    >>> stretched.values.shape, bool(np.isclose(np.diff(stretched.values[0, :2, 0]) * 60.0, target)[0])
    ((1, 6, 1), True)
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
        count, length = len(series), self.length(series)
        factors = np.exp(rng.uniform(np.log(self.slowest), np.log(self.fastest), count))
        room = series.values.shape[1] - 1 - factors * (length - 1)
        starts = rng.uniform(0.0, 1.0, count) * np.maximum(room, 0.0)
        factor = factors.reshape(-1, *[1] * (np.ndim(target) - 1))
        target = (target * factor).astype(target.dtype) if self.rate else target
        return _pieces(series, starts, factors, length), target

    def plain(self, series: Series, where: float = 0.5) -> Series:
        """A piece at its own speed; `where` from 0, at the beginning, to 1, at the end."""
        length = self.length(series)
        starts = np.full(len(series), round(where * (series.values.shape[1] - length)), float)
        return _pieces(series, starts, np.ones(len(series)), length)

    def length(self, series: Series) -> int:
        if series.ragged or not _evenly_sampled(series):
            raise ValueError(
                "Got series of different lengths, or with irregular times; expected evenly sampled ones of one length, "
                "because pieces of one length are taken. Leave TimeStretch out, or cut the series to one length first."
            )
        return int((series.values.shape[1] - 1) / self.fastest) + 1


def _evenly_sampled(series: Series) -> bool:
    if series.times is None:
        return True
    gaps = np.diff(series.times, axis=1)
    return bool(np.allclose(gaps, gaps.mean(), rtol=1e-3))


def _pieces(series: Series, starts: np.ndarray, factors: np.ndarray, length: int) -> Series:
    """`length` points from each start on, `factor` apart, by linear interpolation."""
    values, most = series.values, series.values.shape[1] - 2
    out = np.empty((len(series), length, values.shape[2]), values.dtype)
    for i, (start, factor) in enumerate(zip(starts, factors, strict=True)):  # one by one: what is read stays in cache
        position = start + factor * np.arange(length)
        left = np.minimum(position.astype(np.int64), most)
        share = (position - left).astype(values.dtype)[:, None]
        before = values[i, left]
        out[i] = before + share * (values[i, left + 1] - before)
    return Series(out, channels=series.channels, ids=series.ids)


@dataclass(frozen=True, eq=False)
class Augmented:
    """Training examples that are drawn anew in every epoch, for `fit`.

    Args:
        series, target: as they are.
        steps: augmentations, one after the other.
        examples: makes examples of augmented series and targets: prepares, cuts, takes log-signatures.
        seed: of what is drawn.
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
