"""How data are divided: into training, validation and test part, or into folds; and a sentence about it."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..datasets import Dataset, Split, duplicates, folds, given, in_order
from ..datasets.splits import USUAL, WAYS, TooFewSamples, usual_way
from .console import WRONG_USE, Refusal, count

_VALIDATION = 0.15


def _check(data: Dataset, how: str) -> None:
    """Refuse a way to divide that the data do not allow."""
    wrong = ""
    if how == "given" and data.split is None:
        wrong = "whose source gives no split; expected one. Give --divide random, class, group or order."
    elif how == "group" and data.groups is None:
        wrong = "without groups; expected them. Name their column with --group."
    elif how == "class" and (data.classes is None or data.per_time):
        wrong = f"with the task {data.task}; expected one class for each sample. Give --divide random."
    if wrong:
        raise Refusal(f"Got a data set {wrong}")


def divided(data: Dataset, how: str, seed: int) -> tuple[Split, str]:
    """Training, validation and test part, and a sentence about them."""
    if how == "auto":
        own = data.split is not None and (data.split == "train").any()
        how = "given" if own else usual_way(data)
    _check(data, how)
    if how == "given":
        own = data.split is not None and (data.split == "validation").any()
        with _too_few(data, usual_way(data)):
            split = given(data, validation=0.0 if own else _VALIDATION, seed=seed)
        sentence = "as the data's source gives it"
        sentence += "" if own else f", {_VALIDATION:.0%} of the training set to validate"
    else:
        split = _divide(data, how, USUAL, seed)
        sentence = {
            "group": "70/15/15 by group, so that no group is in two parts",
            "class": "70/15/15 at random, each class in proportion",
            "random": "70/15/15 at random",
            "order": "70/15/15 in the order of time, the latest to test",
        }[how]
    has = "has" if split.leaked == 1 else "have"
    twins = f"; {count(split.leaked, 'test or validation sample')} {has} a twin elsewhere" if split.leaked else ""
    return split, f"{sentence}{twins}"


def divided_for_all(data: Dataset, how: str, seed: int) -> Split:
    """A training and a validation part, and nothing to test on."""
    how = usual_way(data) if how == "auto" else how
    _check(data, how)
    return _divide(data, how, (1 - _VALIDATION, _VALIDATION, 0.0), seed)


def divided_into_folds(data: Dataset, number: int, how: str, seed: int) -> tuple[list[Split], str]:
    """As many splits; each sample is in the test part of one of them. And how they were made."""
    if how == "auto":
        how = usual_way(data)
    if how not in WAYS:
        raise Refusal(
            f"Got --folds with --divide {how}; expected group, class or random, because each sample is tested once.",
            WRONG_USE,
        )
    different = len(np.unique(np.asarray(data.groups) if how == "group" else duplicates(data.series)))
    if different < number:
        what = count(different, "group" if how == "group" else "different sample")
        raise Refusal(f"Got --folds {number} for {what}; expected at most one fold for each.", WRONG_USE)
    sentence = {"group": "by group", "class": "each class in proportion", "random": "at random"}[how]
    with _too_few(data, how):
        return folds(data, number, by=how, validation=_VALIDATION, seed=seed), sentence  # type: ignore


def _divide(data: Dataset, how: str, fractions: tuple[float, float, float], seed: int) -> Split:
    with _too_few(data, how):
        if how == "order":  # groups may be in several parts: a forecast is of those that are known
            return in_order(data, fractions, by_time=True, keep_groups=False)
        return WAYS[how](data, fractions, seed=seed)


@contextmanager
def _too_few(data: Dataset, how: str) -> Iterator[None]:
    """Say in the command line's words that there is not enough to divide."""
    try:
        yield
    except TooFewSamples:
        what, different = count(len(data), "sample"), len(np.unique(duplicates(data.series)))
        what += f", of which {different:,} {'is' if different == 1 else 'are'} different" * (different < len(data))
        what += f" of {count(len(np.unique(np.asarray(data.groups))), 'group')}" if how == "group" else ""
        raise Refusal(
            f"Got {what}, too few for a training, a validation and a test part; expected some for each. Give more "
            "samples, or a column with --split that says train, validation or test."
        ) from None
