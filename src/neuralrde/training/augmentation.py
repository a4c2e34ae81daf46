"""Augmentations: other versions of the training series, with targets that move along.

What an epoch sees is drawn from (seed, epoch) alone, so that a resumed training sees the same.
"""

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Shaped

from ..paths import Series
from ..paths.checks import check_flag, check_whole, is_number
from ..registry import Registry
from .examples import Examples

# Factors of the speed: what is slower has hundreds of times as many points, and is a mistake.
_SLOWEST, _FASTEST = 0.01, 100.0
_MOST_VERSIONS, _MOST_SPEEDS = 1000, 99


@dataclass(frozen=True)
class AbstractAugmentation(abc.ABC):
    """An augmentation that estimators can take: a frozen dataclass with `draw` and `apply`.

    Args:
        versions: how many versions of the training set an estimator makes. Every epoch draws one of each series.
    """

    versions: int = field(default=6, kw_only=True)

    def __post_init__(self):
        check_whole("versions", self.versions, high=_MOST_VERSIONS)

    @abc.abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """The random numbers that decide about the versions of `count` series, a row for each."""

    @abc.abstractmethod
    def apply(self, series: Series, drawn: Shaped[np.ndarray, "series ..."]) -> Series:
        """Another version of each series."""

    @property
    def scales_targets(self) -> bool:
        """Whether targets change with the series. Classes cannot."""
        return False

    def factors(self, drawn: Shaped[np.ndarray, "series ..."]) -> np.ndarray:
        """What each series' target is multiplied by; asked for only with `scales_targets`."""
        return np.ones(len(drawn))

    def test_versions(self, series: Series) -> Iterator[tuple[Series, float]]:
        """The versions of new series that are predicted from, an odd number, and what their targets are multiplied by.

        By default the series as they are. Of several predictions a regressor takes the median, a classifier the mean.
        """
        yield series, 1.0

    def targets(self, target: np.ndarray, drawn: Shaped[np.ndarray, "series ..."]) -> np.ndarray:
        """The targets that belong to the versions."""
        return (target.T * self.factors(drawn)).T.astype(target.dtype) if self.scales_targets else target

    def __call__(self, series: Series, target: np.ndarray, rng: np.random.Generator) -> tuple[Series, np.ndarray]:
        drawn = self.draw(len(series), rng)
        return self.apply(series, drawn), self.targets(target, drawn)


@dataclass(frozen=True)
class TimeStretch(AbstractAugmentation):
    """Plays each series faster or slower, each by its own factor; a target that is a rate changes with it.

    For a model to see the speed, time must be a channel in a fixed unit (`TimeChannel` fitted on the original series).

    Args:
        slowest, fastest: factors, drawn evenly on a logarithmic scale.
        rate: whether the target is a rate, such as beats per minute, and is multiplied by the factor.
        versions: how many versions of the training set an estimator makes. Every epoch draws one of each series.
        speeds: an odd number of speeds at which an estimator plays new series; a regressor predicts the median, which
            leaves out the speeds at which a rhythm is taken for its double.

    >>> series = Series.from_array(np.arange(12.0)[None, :, None])
    >>> stretched, target = TimeStretch(0.5, 2.0, rate=True)(series, np.array([60.0]), np.random.default_rng(0))
    >>> bool(np.isclose(np.diff(stretched.values[0, :2, 0]) * 60.0, target)[0])
    True
    """

    slowest: float = 0.7
    fastest: float = 1.4
    rate: bool = False
    speeds: Sequence[float] = field(default=(1.0,), kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "speeds", tuple(self.speeds))
        slowest, fastest = self.slowest, self.fastest
        if not (is_number(slowest) and is_number(fastest) and _SLOWEST <= slowest <= 1 <= fastest <= _FASTEST):
            raise ValueError(
                f"Got slowest={slowest} and fastest={fastest}; expected {_SLOWEST:g} <= slowest <= 1 <= fastest <= "
                f"{_FASTEST:g}, factors of the speed. Write for example TimeStretch(0.7, 1.4)."
            )
        check_flag("rate", self.rate)
        known = all(is_number(speed) and slowest <= speed <= fastest for speed in self.speeds)
        if not known or len(self.speeds) % 2 == 0 or len(self.speeds) > _MOST_SPEEDS:
            raise ValueError(
                f"Got speeds={self.speeds}; expected an odd number of speeds from slowest={slowest:g} to "
                f"fastest={fastest:g}: others were not trained on, and an even number has no prediction in the middle. "
                "Write for example speeds=(0.8, 1.0, 1.25)."
            )

    @property
    def scales_targets(self) -> bool:
        return self.rate

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return np.exp(rng.uniform(np.log(self.slowest), np.log(self.fastest), count))

    def apply(self, series: Series, drawn: Shaped[np.ndarray, "series ..."]) -> Series:
        return stretch_time(series, drawn)

    def factors(self, drawn: Shaped[np.ndarray, "series ..."]) -> np.ndarray:
        return drawn

    def test_versions(self, series: Series) -> Iterator[tuple[Series, float]]:
        for speed in self.speeds:
            yield series if speed == 1.0 else stretch_time(series, speed), speed if self.rate else 1.0


AUGMENTATIONS = Registry("augmentation", AbstractAugmentation, {"time-stretch": TimeStretch})


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
class RandomChoice:
    """Training examples in several versions; every epoch draws one version of each example.

    They can be of augmented series, or shifted windows (`window_cuts(series, step=..., shift=...)`) of one path.

    Args:
        versions: several `Examples`, with the same examples in the same order; targets may differ.
        seed: seed of the draws.

    >>> low, high = (Examples((np.full((4, 1), value),), np.arange(4)) for value in (0.0, 1.0))
    >>> RandomChoice([low, high]).epoch(0).inputs[0].ravel().tolist()
    [0.0, 1.0, 0.0, 0.0]
    """

    versions: Sequence[Examples]
    seed: int = 0

    def __post_init__(self):
        if len({len(version) for version in self.versions}) != 1:
            raise ValueError(
                f"Got versions of {[len(version) for version in self.versions]} examples; expected the same examples "
                "in each, at least one version."
            )
        object.__setattr__(self, "versions", with_as_many_windows(self.versions))

    def __len__(self) -> int:
        return len(self.versions[0])

    def epoch(self, number: int) -> Examples:
        """The examples of an epoch; the seed and the number alone decide."""
        drawn = np.random.default_rng([self.seed, number, 2]).integers(len(self.versions), size=len(self))

        def one_of_each(*leaves):
            chosen = np.array(leaves[0])
            for version, leaf in enumerate(leaves[1:], 1):
                chosen[drawn == version] = np.asarray(leaf)[drawn == version]
            return chosen

        return jax.tree.map(one_of_each, *self.versions)


def with_as_many_windows(versions: Sequence[Examples]) -> list[Examples]:
    """The versions, padded with windows in which nothing happens, so that all have the same shape."""
    # The log-signatures: a number of an example's fold may come after them.
    place = max((i for i, array in enumerate(versions[0].inputs) if array.ndim > 2), default=-1)
    place %= len(versions[0].inputs)
    shapes = [[array.shape[1:] for array in version.inputs] for version in versions]
    if all(shape == shapes[0] for shape in shapes) and all(version.windows is None for version in versions):
        return list(versions)
    for shape in shapes:
        if shape[:place] + shape[place + 1 :] != shapes[0][:place] + shapes[0][place + 1 :]:
            raise ValueError(
                f"Got versions with inputs of shapes {shapes[0]} and {shape}; expected them to differ in the number of "
                "windows only, because windows without a change can be put after the others. Train such a model, "
                "`CubicCDE` for example, on one version."
            )
    most, padded = max(shape[place][0] for shape in shapes), []
    for version in versions:
        inputs = list(version.inputs)
        windows = inputs[place].shape[1]
        count = np.full(len(version), windows) if version.windows is None else np.asarray(version.windows)
        inputs[place] = np.pad(inputs[place], [(0, 0), (0, most - windows)] + [(0, 0)] * (inputs[place].ndim - 2))
        padded.append(Examples(tuple(inputs), version.target, windows=count.astype(np.int32), weight=version.weight))
    return padded
