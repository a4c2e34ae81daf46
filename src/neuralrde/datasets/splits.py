"""Training, validation and test sets: at random, by class, by group, as given. Twins stay together.

Samples with the same content would be learned in one part and asked for in the other, so they always come
into the same part; the same holds for the samples of a group in `by_group`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from jaxtyping import Int

from neuralrde.paths import Series

from .dataset import PARTS, Dataset

Fractions = Sequence[float]
_USUAL = (0.7, 0.15, 0.15)


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


def random_split(dataset: Dataset, fractions: Fractions = _USUAL, *, seed: int = 0) -> Split:
    """Divide the samples at random.

    >>> from neuralrde.datasets import spirals
    >>> random_split(spirals(samples=100, length=5))
    Split(train 70, validation 15, test 15)

    Args:
        dataset: whose samples to divide.
        fractions: of the training, validation and test set; any but the first may be 0.
        seed: of NumPy's default generator; the same seed divides in the same way.
    """
    twins = duplicates(dataset.series)
    return _divide(twins, np.zeros(len(dataset), int), twins, fractions, seed)


def stratified(dataset: Dataset, fractions: Fractions = _USUAL, *, seed: int = 0) -> Split:
    """Divide the samples of each class by the fractions, to within one sample.

    Every class has a sample in the training set. Twins may cost some exactness. Arguments as in
    `random_split`.
    """
    if dataset.classes is None or dataset.per_time:
        raise ValueError(
            f"Got a data set with the task {dataset.task}; expected one class for each sample, to keep their "
            "proportions. Write `random_split(dataset)`."
        )
    twins = duplicates(dataset.series)
    return _divide(twins, np.asarray(dataset.target), twins, fractions, seed)


def by_group(dataset: Dataset, fractions: Fractions = _USUAL, *, seed: int = 0) -> Split:
    """Divide the groups (patients, speakers) at random, so that no group is in two parts.

    The fractions are of samples, met as nearly as whole groups can. Arguments as in `random_split`.
    """
    if dataset.groups is None:
        raise ValueError(
            "Got a data set without groups; expected them. Write `Dataset(..., groups=patients)`, or "
            '`read(path, group="patient")`.'
        )
    twins = duplicates(dataset.series)
    units = _joined(np.unique(dataset.groups, return_inverse=True)[1].ravel(), twins)
    return _divide(units, np.zeros(len(dataset), int), twins, fractions, seed)


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
            "Got a data set whose source gives no split; expected one. Write `random_split(dataset)`, "
            "`stratified(dataset)` or `by_group(dataset)`."
        )
    train, own, test = (np.flatnonzero(dataset.split == part) for part in PARTS)
    if validation:
        if len(own):
            raise ValueError(
                f"Got validation={validation} for a data set with a validation set of {len(own)}; expected 0."
            )
        classes = dataset.classes is not None and not dataset.per_time
        divide = by_group if dataset.groups is not None else stratified if classes else random_split
        inner = divide(dataset[train], (1 - validation, validation, 0.0), seed=seed)
        train, own = train[inner.train], train[inner.validation]
    return _with_twins((train, own, test), duplicates(dataset.series))


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


def _divide(units: np.ndarray, strata: np.ndarray, twins: np.ndarray, fractions: Fractions, seed: int) -> Split:
    """Divide units (samples with the same number) within each stratum."""
    shares = _as_fractions(fractions)
    rng = np.random.default_rng(seed)
    numbers, first, unit, sizes = np.unique(units, return_index=True, return_inverse=True, return_counts=True)
    owed = np.zeros(3)  # what rounding kept from each part in the strata so far
    of_unit = np.zeros(len(numbers), int)
    for stratum in np.unique(strata[first]):
        members = rng.permutation(np.flatnonzero(strata[first] == stratum))
        room, owed = _rounded(shares * sizes[members].sum(), owed)
        for member in members:
            of_unit[member] = np.argmax(room)
            room[of_unit[member]] -= sizes[member]
    part = of_unit[unit.ravel()]
    rows = tuple(np.flatnonzero(part == p) for p in range(3))
    empty = [name for name, got, share in zip(PARTS, rows, shares, strict=True) if share > 0 and len(got) == 0]
    if empty:
        raise ValueError(
            f"Got {len(units)} samples in {len(numbers)} indivisible units for the fractions "
            f"{tuple(fractions)}, which leaves the {empty[0]} set empty; expected enough for each "
            "part. Give more samples, or a fraction of 0 for a part that you do not need."
        )
    return _with_twins(rows, twins)


def _rounded(wanted: np.ndarray, owed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers next to those wanted, of the same sum, the first at least 1; and what is then owed."""
    room = np.floor(wanted + 1e-9)
    rest = wanted - room
    for _ in range(round(wanted.sum() - room.sum())):
        can = np.where(rest > 1e-9, rest + owed, -np.inf)
        p = 0 if room[0] == 0 else int(np.argmax(can))
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


def _joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The finest units that divide neither those of `a` nor those of `b`."""
    joined, before = a, np.full_like(a, -1)
    while (joined != before).any():
        before = joined
        for units in (a, b):
            lowest = np.full(units.max() + 1, len(units))
            np.minimum.at(lowest, units, joined)
            joined = lowest[units]
    return joined


def _with_twins(rows: Sequence[np.ndarray], twins: np.ndarray) -> Split:
    part = np.zeros(len(twins), int)
    for p, numbers in enumerate(rows):
        part[numbers] = p
    return Split(
        *rows,
        duplicates=int((twins != np.arange(len(twins))).sum()),
        leaked=int((part != part[twins]).sum()),
    )
