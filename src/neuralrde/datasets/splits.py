"""Training, validation and test sets: at random, by class, by group, in order, as given. Twins stay together.

Samples with the same content would be learned in one part and asked for in the other, so they always come
into the same part; the same holds for the samples of a group in `by_group`, `in_order` and `folds`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

import numpy as np
from jaxtyping import Int

from ..errors import setting
from ..paths import Series
from ..paths.checks import check_whole
from .dataset import PARTS, Dataset

Fractions = Sequence[float]
Way = Literal["group", "class", "random"]
USUAL = (0.7, 0.15, 0.15)


@dataclass(frozen=True, eq=False)
class Split:
    """Numbers of the samples in the training, validation and test set, in increasing order.

    It unpacks, `train, validation, test = split`. `duplicates` counts the samples that have an earlier twin;
    `leaked` those of them whose twin is in another part, which only a given split can have.
    """

    train: Int[np.ndarray, "train"]
    validation: Int[np.ndarray, "validation"]
    test: Int[np.ndarray, "test"]
    duplicates: int = field(default=0, kw_only=True)
    leaked: int = field(default=0, kw_only=True)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.train, self.validation, self.test))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part} {len(rows)}" for part, rows in zip(PARTS, self, strict=True))
        twins = f"; {self.duplicates} duplicates" if self.duplicates else ""
        leaks = f", {self.leaked} of them in another part than their twin" if self.leaked else ""
        return f"Split({sizes}{twins}{leaks})"


def random_split(dataset: Dataset, fractions: Fractions = USUAL, *, seed: int = 0) -> Split:
    """Divide the samples at random.

    >>> from neuralrde.datasets import spirals
    >>> random_split(spirals(samples=100, length=5))
    Split(train 70, validation 15, test 15)

    Args:
        dataset: whose samples to divide.
        fractions: of the training, validation and test set; any but the first may be 0.
        seed: of NumPy's default generator; the same seed divides in the same way.
    """
    return _divide(dataset, "random", fractions, seed)


def stratified(dataset: Dataset, fractions: Fractions = USUAL, *, seed: int = 0) -> Split:
    """Divide the samples of each class by the fractions, to within one sample; arguments as in `random_split`.

    Every class has a sample in the training set. Twins may cost some exactness.
    """
    if not _has_classes(dataset):
        raise ValueError(
            f"Got a data set with the task {dataset.task}; expected one class for each sample, to keep their "
            "proportions. Divide it at random."
        )
    return _divide(dataset, "class", fractions, seed)


def by_group(dataset: Dataset, fractions: Fractions = USUAL, *, seed: int = 0) -> Split:
    """Divide the groups (patients, speakers) at random, so that no group is in two parts.

    The fractions are of samples, met as nearly as whole groups can. Arguments as in `random_split`.
    """
    if dataset.groups is None:
        raise ValueError(
            f"Got a data set without groups; expected them. Name their column, {setting('group', 'patient')}, or give "
            "them to `Dataset`."
        )
    return _divide(dataset, "group", fractions, seed)


WAYS = {"group": by_group, "class": stratified, "random": random_split}


def in_order(
    dataset: Dataset, fractions: Fractions = USUAL, *, by_time: bool = False, keep_groups: bool = True
) -> Split:
    """Divide the samples in the order in which they come: the first are to train on, the last to test.

    This is how a forecast is judged, by what comes later, so the samples must be in the order of time. A group, and
    samples with the same content, come where the first of them comes.

    >>> from neuralrde.datasets import spirals
    >>> in_order(spirals(samples=10, length=5), (0.6, 0.2, 0.2)).test.tolist()
    [8, 9]

    Args:
        dataset: whose samples to divide.
        fractions: of the training, validation and test set; any but the first may be 0.
        by_time: order the samples by their first times, if they have times.
        keep_groups: whether a group stays in one part; False lets a model forecast the groups it knows.
    """
    units, twins = _units(dataset, "group" if keep_groups else "random")
    shares, times = _as_fractions(fractions), dataset.series.times if by_time else None
    order = np.arange(len(units)) if times is None else np.argsort(times[:, 0], kind="stable")
    _, first, unit, sizes = np.unique(units[order], return_index=True, return_inverse=True, return_counts=True)
    appearance = np.argsort(first)
    before = np.zeros(len(first), int)
    before[appearance] = np.cumsum(sizes[appearance]) - sizes[appearance]
    ends = np.cumsum(_rounded(shares * len(units), np.zeros(3), keep_first=True)[0])
    part = np.zeros(len(units), int)
    part[order] = np.searchsorted(ends, before, side="right")[unit.ravel()]
    return _as_split(part, shares, units, twins)


def folds(
    dataset: Dataset, k: int = 5, *, by: Way | None = None, validation: float = 0.0, seed: int = 0
) -> list[Split]:
    """Divide the samples into `k` folds of about the same size: each is the test set of one split.

    >>> from neuralrde.datasets import spirals
    >>> folds(spirals(samples=10, length=5), 5)[0]
    Split(train 8, validation 0, test 2)

    Args:
        dataset: whose samples to divide.
        k: how many folds, at least 2.
        by: "group" keeps every group in one fold, "class" gives each fold its share of every class, and "random"
            does neither; None takes "group" if there are groups, else "class" if there are classes.
        validation: the fraction of each training set to take out as a validation set, in the same way.
        seed: of NumPy's default generator; the same seed divides in the same way.
    """
    check_whole("k", k, low=2, high=np.inf)
    by = by or usual_way(dataset)
    units, twins = _units(dataset, by)
    fold = _assigned(units, _strata(dataset, by), np.full(k, 1 / k), seed)
    if len(np.unique(fold)) < k:
        counted = _counted(units, twins)
        raise ValueError(f"Got {counted} for {k} folds, too few for each to have some. Take fewer folds.")
    splits = []
    for number in range(k):
        rows = _with_validation(dataset, np.flatnonzero(fold != number), validation, by, seed)
        splits.append(_with_twins((*rows, np.flatnonzero(fold == number)), twins))
    return splits


def given(dataset: Dataset, *, validation: float = 0.0, seed: int = 0) -> Split:
    """The split of the data's source; a validation set can be taken out of its training set.

    Args:
        dataset: with a `split`.
        validation: the fraction of the training set to take: by group if there are groups, else by class if
            there are classes, else at random.
        seed: for this.
    """
    if dataset.split is None:
        raise ValueError(
            f"Got a data set whose source gives no split; expected one. Name its column, {setting('split')}, or divide "
            "it at random, by class, by group or in order."
        )
    train, held_out, test = (np.flatnonzero(dataset.split == part) for part in PARTS)
    if validation and len(held_out):
        got = f"validation={validation} for a data set with a validation set of {len(held_out)}"
        raise ValueError(f"Got {got}; expected 0.")
    if validation:
        train, held_out = _with_validation(dataset, train, validation, usual_way(dataset), seed)
    return _with_twins((train, held_out, test), duplicates(dataset.series))


def duplicates(series: Series) -> Int[np.ndarray, "samples"]:
    """For each sample the number of the first sample with the same values and times, to the last bit.

    >>> duplicates(Series.from_array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
    [0, 1, 0]
    """
    first: dict[bytes, int] = {}
    twins = np.arange(len(series))
    for i, length in enumerate(series.lengths):
        content = blake2b(series.values[i, :length].tobytes(), digest_size=16)
        if series.times is not None:
            content.update(series.times[i, :length].tobytes())
        twins[i] = first.setdefault(content.digest(), i)
    return twins


def usual_way(dataset: Dataset) -> Way:
    """By group if there are groups, so that none is divided; else by class if there are classes; else at random."""
    return "group" if dataset.groups is not None else "class" if _has_classes(dataset) else "random"


def _has_classes(dataset: Dataset) -> bool:
    return dataset.classes is not None and not dataset.per_time


def _units(dataset: Dataset, by: Way) -> tuple[np.ndarray, np.ndarray]:
    """A number for each sample, the same for those that must stay together; and its first twin."""
    twins = duplicates(dataset.series)
    if by != "group" or dataset.groups is None:
        return twins, twins
    groups = np.unique(dataset.groups, return_inverse=True)[1].ravel()
    units, before = groups, np.full_like(groups, -1)
    while (units != before).any():  # the finest units that divide neither groups nor twins
        before = units
        for numbers in (groups, twins):
            lowest = np.full(numbers.max() + 1, len(numbers))
            np.minimum.at(lowest, numbers, units)
            units = lowest[numbers]
    return units, twins


def _strata(dataset: Dataset, by: Way) -> np.ndarray:
    return np.asarray(dataset.target) if by == "class" else np.zeros(len(dataset), int)


def _with_validation(
    dataset: Dataset, train: np.ndarray, validation: float, by: Way, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """A training set, and the validation set that is taken out of it."""
    if not validation:
        return train, train[:0]
    inner = WAYS[by](dataset[train], (1 - validation, validation, 0.0), seed=seed)
    return train[inner.train], train[inner.validation]


def _divide(dataset: Dataset, by: Way, fractions: Fractions, seed: int) -> Split:
    units, twins = _units(dataset, by)
    shares = _as_fractions(fractions)
    return _as_split(_assigned(units, _strata(dataset, by), shares, seed, keep_first=True), shares, units, twins)


def _assigned(
    units: np.ndarray, strata: np.ndarray, shares: np.ndarray, seed: int, *, keep_first: bool = False
) -> np.ndarray:
    """The part of each sample, drawn so that every part has its share of every stratum, and no unit is divided."""
    rng = np.random.default_rng(seed)
    numbers, first, unit, sizes = np.unique(units, return_index=True, return_inverse=True, return_counts=True)
    owed = np.zeros(len(shares))  # what rounding kept from each part in the strata so far
    of_unit, taken = np.zeros(len(numbers), int), np.zeros(len(shares))
    for stratum in np.unique(strata[first]):
        members = rng.permutation(np.flatnonzero(strata[first] == stratum))
        room, owed = _rounded(shares * sizes[members].sum(), owed, keep_first=keep_first)
        for member in members:
            # Where several parts have the same room, folds take one that is empty, so that none stays so.
            chosen = int(np.argmax(room if keep_first else room - taken / (len(units) + 1)))
            of_unit[member] = chosen
            room[chosen] -= sizes[member]
            taken[chosen] += sizes[member]
    return of_unit[unit.ravel()]


def _rounded(wanted: np.ndarray, owed: np.ndarray, *, keep_first: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sizes rounded to integers of the same sum, and the rounding error carried on; the first may need 1 at least."""
    room = np.floor(wanted + 1e-9)
    rest = wanted - room
    for _ in range(round(wanted.sum() - room.sum())):
        can = np.where(rest > 1e-9, rest + owed, -np.inf)
        p = 0 if keep_first and room[0] == 0 else int(np.argmax(can))
        room[p] += 1
        rest[p] -= 1
    return room, owed + rest


def _as_fractions(fractions: Fractions) -> np.ndarray:
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.shape != (3,) or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-6 or shares[0] == 0:
        raise ValueError(
            f"Got fractions={fractions!r}; expected three that add up to 1, of the training, validation and "
            "test set, the first above 0. Write fractions=(0.7, 0.15, 0.15)."
        )
    return shares / shares.sum()


def _as_split(part: np.ndarray, shares: np.ndarray, units: np.ndarray, twins: np.ndarray) -> Split:
    rows = tuple(np.flatnonzero(part == p) for p in range(3))
    empty = [name for name, got, share in zip(PARTS, rows, shares, strict=True) if share > 0 and len(got) == 0]
    if empty:
        percent = " / ".join(f"{100 * share:.3g} %" for share in shares)
        raise ValueError(
            f"Got {_counted(units, twins)} to divide into {' / '.join(PARTS)} = {percent}, which leaves the {empty[0]} "
            f"set empty, too few for each part. Give more samples, or name a column with {setting('split')}."
        )
    return _with_twins(rows, twins)


def _with_twins(rows: Sequence[np.ndarray], twins: np.ndarray) -> Split:
    part = np.zeros(len(twins), int)
    for p, numbers in enumerate(rows):
        part[numbers] = p
    copies, leaked = twins != np.arange(len(twins)), part != part[twins]
    return Split(*rows, duplicates=int(copies.sum()), leaked=int(leaked.sum()))


def _counted(units: np.ndarray, twins: np.ndarray) -> str:
    """How much there is to divide, in words."""
    samples, different, groups = len(units), len(np.unique(twins)), len(np.unique(units))
    copies = f" ({samples - different} of them copies, which stay with the first)" if different < samples else ""
    grouped = f" in {groups} group{'' if groups == 1 else 's'}" if groups < different else ""
    return f"{samples} sample{'' if samples == 1 else 's'}{grouped}{copies}"
