"""How data are divided: into training, validation and test part, or into folds; and a sentence about it."""

from collections.abc import Iterator

import numpy as np

from ..datasets import Dataset, Split, by_group, duplicates, given, random_split, stratified
from .errors import WRONG_USE, Refusal
from .screen import count

DIVIDES = ("auto", "given", "group", "class", "random", "order")
_USUAL, _VALIDATION = (0.7, 0.15, 0.15), 0.15


def divided(data: Dataset, how: str, seed: int) -> tuple[Split, str]:
    """Training, validation and test part, and a sentence about them."""
    if how == "auto":
        own = data.split is not None and (data.split == "train").any()
        how = "given" if own else _suitable(data)
    if how == "given":
        own = data.split is not None and (data.split == "validation").any()
        split = given(data, validation=0.0 if own else _VALIDATION, seed=seed)
        told = "as the data's source gives it" + ("" if own else f", {_VALIDATION:.0%} of the training set to validate")
    else:
        split = _divide(data, how, _USUAL, seed)
        told = {
            "group": "70/15/15 by group, so that no group is in two parts",
            "class": "70/15/15 at random, each class in proportion",
            "random": "70/15/15 at random",
            "order": "70/15/15 in the order of time, the latest to test",
        }[how]
    has = "has" if split.leaked == 1 else "have"
    twins = f"; {count(split.leaked, 'test or validation sample')} {has} a twin elsewhere" if split.leaked else ""
    return split, f"{told}{twins}"


def divided_for_all(data: Dataset, how: str, seed: int) -> Split:
    """A training and a validation part, and nothing to test on."""
    return _divide(data, _suitable(data) if how == "auto" else how, (1 - _VALIDATION, _VALIDATION, 0.0), seed)


def folds(data: Dataset, number: int, how: str, seed: int) -> tuple[Iterator[Split], str]:
    """As many splits; each sample is in the test part of one of them. And how they were made."""
    if how == "auto":
        how = _suitable(data)
    if how in ("given", "order"):
        raise Refusal(
            f"Got --folds with --divide {how}; expected group, class or random, because each sample is tested once.",
            WRONG_USE,
        )
    told = {"group": "by group", "class": "each class in proportion", "random": "at random"}[how]
    return _folds(data, number, how, seed), told


def _folds(data: Dataset, number: int, how: str, seed: int) -> Iterator[Split]:
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    # Twins stay together, and so do the samples of a group.
    units = duplicates(data.series)
    if how == "group":
        units = np.unique(np.asarray(data.groups), return_inverse=True)[1].ravel()
    if (different := len(np.unique(units))) < number:
        what = count(different, "group" if how == "group" else "different sample")
        raise Refusal(f"Got --folds {number} for {what}; expected at most one fold for each.", WRONG_USE)
    kind = StratifiedGroupKFold if how == "class" else GroupKFold
    rows, target = np.arange(len(data)), np.asarray(data.target) if how == "class" else None
    for rest, test in kind(number, shuffle=True, random_state=seed).split(rows, target, units):
        inner = _divide(data[rest], how, (1 - _VALIDATION, _VALIDATION, 0.0), seed)
        yield Split(rest[inner.train], rest[inner.validation], test)


def _suitable(data: Dataset) -> str:
    classes = data.classes is not None and not data.per_time
    return "group" if data.groups is not None else "class" if classes else "random"


def _divide(data: Dataset, how: str, fractions: tuple[float, float, float], seed: int) -> Split:
    if how == "order":
        return in_order(data, fractions)
    divide = {"group": by_group, "class": stratified, "random": random_split}[how]
    try:
        return divide(data, fractions, seed=seed)
    except ValueError as error:
        if "set empty" not in str(error):
            raise
        what, different = count(len(data), "sample"), len(np.unique(duplicates(data.series)))
        what += f", of which {different:,} {'is' if different == 1 else 'are'} different" * (different < len(data))
        what += f" of {count(len(np.unique(np.asarray(data.groups))), 'group')}" if how == "group" else ""
        raise Refusal(
            f"Got {what}, too few for a training, a validation and a test part; expected some for each. Give more "
            "samples, or a column with --split that says train, validation or test."
        ) from None


def in_order(data: Dataset, fractions: tuple[float, float, float] = _USUAL) -> Split:
    """The earliest samples to train on, the latest to test: by their first times, or else in the order of the file."""
    times = data.series.times
    order = np.arange(len(data)) if times is None else np.argsort(times[:, 0], kind="stable")
    ends = np.round(np.cumsum(fractions) * len(data)).astype(int)
    parts = np.split(order, ends[:2])
    if any(len(part) == 0 < share for part, share in zip(parts, fractions, strict=True)):
        raise Refusal(f"Got {count(len(data), 'sample')}, too few for a training, a validation and a test part.")
    return Split(*(np.sort(part) for part in parts))
