"""Samples, and their division into training and validation sets: at random, by class, by group, or in order."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int, Shaped

from .._types import OnePerSeries, Selection
from ..datasets import Dataset, by_group, random_split, stratified
from ..errors import setting, warn
from ..paths import Series
from ..training import AbstractAugmentation
from ..transforms import Transform
from .sources import SampleSource

# Fewer series do not decide when to stop or which weights to keep: an accuracy of 0.8 has a standard error of 0.07 with
# 30 of them and of 0.16 with 6, more than most epochs differ by.
FEWEST_TO_DECIDE = 30
_TRIES = 10


@dataclass(frozen=True)
class Samples:
    """A source of series, their targets, how much each counts, and the group of each."""

    source: SampleSource
    target: np.ndarray
    weight: np.ndarray | None = None
    groups: np.ndarray | None = None
    fold: Int[np.ndarray, "samples"] | None = None
    """The member of an ensemble that leaves each out; -1 for none."""

    @property
    def series(self) -> Series:
        return self.source.series

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, rows: Selection) -> "Samples":
        others = (None if array is None else array[rows] for array in (self.weight, self.groups, self.fold))
        return Samples(self.source[rows], self.target[rows], *others)

    def weighted_by(self, weight: np.ndarray | None) -> "Samples":
        """Let each count so many times. One that does not count at all is left out, as if it had not been given."""
        if weight is None:
            return self
        weight = weight if self.weight is None else weight * self.weight
        found, counts = replace(self, weight=weight), weight > 0
        if not counts.any():
            raise ValueError(
                "Got sample_weight or class_weight that is zero for all series; expected some above, to learn from."
            )
        return found if counts.all() else found[counts]

    def prepared(self, transform: Transform) -> "Samples":
        return replace(self, source=self.source.prepared(transform))

    @property
    def units(self) -> int:
        """How many series there are, or groups: what is wrong for one series of a patient is wrong for the others."""
        return len(self) if self.groups is None else len(np.unique(self.groups))


@dataclass(frozen=True)
class AugmentedSamples:
    """A training set in the versions that an augmentation makes of it. The seed alone decides them; none is kept."""

    augmentation: AbstractAugmentation
    samples: Samples
    seed: int

    def __len__(self) -> int:
        return self.augmentation.versions

    def targets(self) -> np.ndarray:
        """The targets of all versions, for statistics."""
        return np.concatenate([self._target(self._drawn(number)) for number in range(len(self))])

    def prepared(self, number: int, transform: Transform) -> Samples:
        """One version, prepared for the model."""
        drawn = self._drawn(number)
        version = self.samples.source.prepared(lambda series: transform(self.augmentation.apply(series, drawn)))
        return replace(self.samples, source=version, target=self._target(drawn))

    def _drawn(self, number: int) -> np.ndarray:
        return self.augmentation.draw(len(self.samples), np.random.default_rng([self.seed, number, 3]))

    def _target(self, drawn: np.ndarray) -> np.ndarray:
        return self.augmentation.targets(self.samples.target, drawn)


def divide(
    series: Series,
    target: Shaped[np.ndarray, "samples ..."],
    *,
    fraction: float,
    groups: Shaped[np.ndarray, "samples"] | None = None,
    shuffle: bool = True,
    seed: int = 0,
) -> tuple[Int[np.ndarray, "train"], Int[np.ndarray, "validation"]]:
    """Rows to train on, and rows to validate with. Warns and gives none of the latter if the series cannot be divided.

    Args:
        target: where it is a class for each series, classes are kept in proportion.
        fraction: the share of the series to validate with.
        groups: series of one group stay together; raises if that is impossible.
        shuffle: False validates with the last series, in their given order.
        seed: decides the shuffling.

    >>> divide(Series.from_array(np.zeros((10, 5))), np.zeros(10), fraction=0.2, shuffle=False)[1]
    array([8, 9])
    """
    classes = target if target.dtype.kind == "i" and target.ndim == 1 else None
    every = np.arange(len(series))
    try:
        if not shuffle:
            first = _last_part(len(series), fraction, groups)
            rows, held_out = every[:first], every[first:]
        else:
            rows, held_out = _shuffled(series, classes, fraction, groups, seed)
    except ValueError as error:
        if groups is not None:
            raise ValueError(f"Got groups= that leave no validation set. {error}") from None
        warn(f"Trained without a validation set, because none can be divided off. {error}")
        return every, every[:0]
    if classes is not None and (lost := np.setdiff1d(classes[held_out], classes[rows])).size:
        why = "have groups of their own" if shuffle else "come last"
        raise ValueError(
            f"Got {len(lost)} of {len(np.unique(classes))} classes whose series {why}, so that dividing off a "
            "validation set leaves them without a series to train on. Give validation=(X, y), or "
            + ("other groups." if shuffle else "series in another order.")
        )
    return rows, held_out


def folds(
    target: Shaped[np.ndarray, "samples ..."],
    number: int,
    *,
    groups: Shaped[np.ndarray, "samples"] | None = None,
    shuffle: bool = True,
    seed: int = 0,
) -> Int[np.ndarray, "samples"]:
    """The fold of each series. Every member of an ensemble leaves out one fold; series with -1 are left out by nobody.

    Classes are dealt out evenly, and a class of a single series is left out by nobody. Groups stay together.

    >>> folds(np.array([0, 0, 1, 1, 1, 2]), 2, seed=1).tolist()
    [0, 1, 0, 1, 0, -1]
    """
    rng, count = np.random.default_rng(seed), len(target)
    found = np.full(count, -1, np.int32)
    if groups is not None:
        _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        filled = np.zeros(number, int)
        for one in rng.permutation(len(sizes)) if shuffle else np.arange(len(sizes)):
            found[group == one] = filled.argmin()
            filled[filled.argmin()] += sizes[one]
        return found
    if not shuffle:
        return (np.arange(count) * number // count).astype(np.int32)
    classes = target if target.dtype.kind == "i" and target.ndim == 1 else np.zeros(count, int)
    dealt = 0
    for one in np.unique(classes):
        rows = rng.permutation(np.flatnonzero(classes == one))
        if len(rows) > 1:
            found[rows] = (dealt + np.arange(len(rows))) % number
            dealt += len(rows)
    return found


def _shuffled(
    series: Series, classes: np.ndarray | None, fraction: float, groups: np.ndarray | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    dataset = Dataset(series, classes, task=None if classes is None else "classification", groups=groups)
    parts = (1 - fraction, fraction, 0.0)
    if groups is None:
        rows, held_out, _ = (random_split if classes is None else stratified)(dataset, parts, seed=seed)
        return rows, held_out
    # Groups are not divided by class: look for a division that leaves every class something to train on.
    for number in range(_TRIES):
        rows, held_out, _ = by_group(dataset, parts, seed=seed + number)
        if classes is None or np.isin(classes[held_out], classes[rows]).all():
            break
    return rows, held_out


def _last_part(count: int, fraction: float, groups: np.ndarray | None) -> int:
    """Where the last part begins: as near to the fraction as possible without cutting through a group."""
    wanted = count - round(count * fraction)
    free = np.ones(count, bool)
    free[0] = False
    if groups is not None:
        _, first, number = np.unique(groups, return_index=True, return_inverse=True)
        last = np.zeros(len(first), int)
        np.maximum.at(last, number.ravel(), np.arange(count))
        for begin, end in zip(first, last, strict=True):
            free[begin + 1 : end + 1] = False
    if not free.any():
        raise ValueError(
            f"Every place to divide {count} series in their order cuts through a group. Order the "
            f"series by group, or write {setting('shuffle', True)}."
        )
    places = np.flatnonzero(free)
    return int(places[np.abs(places - wanted).argmin()])


def check_groups(groups: OnePerSeries, count: int) -> Shaped[np.ndarray, "samples"] | None:
    """One group per series."""
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.shape != (count,):
        raise ValueError(f"Got groups of shape {groups.shape} for {count} series; expected ({count},), one per series.")
    return groups


def check_several_groups(samples: Samples) -> None:
    if samples.groups is not None and samples.units < 2:
        raise ValueError(
            f"Got groups that are all {samples.groups.tolist()[0]!r}; expected at least two, because a whole group is "
            "left out to judge what is learned from the others. Leave `groups` out if series may be left out one by "
            "one."
        )
