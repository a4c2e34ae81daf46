"""How the data are divided: as in the paper, at random, by person, or in folds."""

import numpy as np

from neuralrde.datasets import Dataset, Split, by_group, random_split

FOLDS = 5


def divide(data: Dataset, split: str, seed: int) -> Split:
    """Training, validation and test rows.

    Args:
        split: "paper" pools training and test set and divides them 70/15/15 at random, the same way for every seed
            (NumPy draws the rows; the authors' own rows are not known); "random" does the same, by the seed; "group"
            keeps all windows of a patient, or all words of a speaker, together; "folds" is fold `seed % 5` of
            repetition `seed // 5`, stratified by class, for data too few for a single test set.

    >>> from neuralrde.datasets import spirals
    >>> divide(spirals(samples=40, length=5), "folds", seed=7)
    Split(train 27, validation 5, test 8)
    """
    if split == "paper":
        return random_split(data, seed=0)
    if split == "random":
        return random_split(data, seed=seed)
    if split == "group":
        return by_group(data, seed=seed)
    return _fold(data, seed)


def shuffled(split: Split) -> Split:
    """The same parts, each in one fixed random order, as scikit-learn's splits return them.

    Where nothing is shuffled between epochs, this order decides which examples share a batch; and neighbouring windows
    of a recording are far from a random sample.

    >>> shuffled(Split(np.arange(5), np.arange(5, 7), np.arange(7, 9))).train.tolist()
    [2, 4, 3, 0, 1]
    """
    return Split(*(np.random.default_rng(0).permutation(rows) for rows in split))


def _fold(data: Dataset, seed: int) -> Split:
    repetition, fold = divmod(seed, FOLDS)
    rng = np.random.default_rng(repetition)
    order = rng.permutation(len(data))
    if data.classes is not None:
        order = order[np.argsort(np.asarray(data.target)[order], kind="stable")]  # dealt out class by class
    part = np.empty(len(data), int)
    part[order] = np.arange(len(data)) % FOLDS
    test, rest = np.flatnonzero(part == fold), rng.permutation(np.flatnonzero(part != fold))
    held_out = max(1, round(0.15 * len(rest)))
    return Split(np.sort(rest[held_out:]), np.sort(rest[:held_out]), test)
