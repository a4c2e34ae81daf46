"""How the data are divided: as in the paper, at random, by person, or in folds."""

import jax
import numpy as np

from neuralrde.datasets import Dataset, Split, by_group, random_split

FOLDS = 5


def divide(data: Dataset, split: str, seed: int) -> Split:
    """Training, validation and test rows.

    Args:
        split: "paper" pools training and test set and divides them 70/15/15 at random, the same way for every seed
            (NumPy draws the rows; the authors' own rows are not known); "random" does the same, by the seed; "group"
            keeps all windows of a patient, or all words of a speaker, together; "folds" is fold `seed % 5` of
            repetition `seed // 5`, stratified by class, for data too few for a single test set; "walker" and "torch"
            are those of Walker et al. (2024) and of LogSig-SSM by their seeds, for data made `unique`.

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
    if split == "walker":
        return walker_split(len(data), seed)
    if split == "torch":
        return torch_split(len(data), seed)
    return _fold(data, seed)


def walker_split(count: int, seed: int) -> Split:
    """70/15/15 as Walker et al. draw it with JAX, in whose versions of that time random bits came in another order.

    >>> walker_split(236, 2345)
    Split(train 165, validation 35, test 36)
    """
    with jax.threefry_partitionable(False):
        key = jax.random.split(jax.random.split(jax.random.PRNGKey(seed), 4)[0])[0]
        return _parts(np.asarray(jax.random.permutation(key, count)))


def torch_split(count: int, seed: int) -> Split:
    """70/15/15 as LogSig-SSM draws it: what `torch.randperm(count)` gives after `torch.manual_seed(seed)`.

    >>> torch_split(236, 2345).train[:5].tolist()
    [12, 135, 78, 191, 96]
    """
    order, bits = np.arange(count), np.random.RandomState(seed)
    for i in range(count - 1):
        other = i + int.from_bytes(bits.bytes(4), "little") % (count - i)
        order[i], order[other] = order[other], order[i]
    return _parts(order)


def _parts(order: np.ndarray) -> Split:
    first, second = int(0.7 * len(order)), int(0.85 * len(order))
    return Split(order[:first], order[first:second], order[second:])


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
