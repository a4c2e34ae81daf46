"""From a word on the command line to series and their division."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset, Split, by_group, given, load, random_split, read, stratified
from .errors import WRONG_USE, Refusal

# What a file is called by people who have mistyped it, and not what a data set is called.
_ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".pq", ".npz", ".ts", ".arff", ".gz")
_VALIDATION = 0.15


def open_data(word: str | None, table: dict[str, Any]) -> Dataset:
    """The file or folder of this name, or else the data set."""
    if not word:
        raise Refusal("Got no DATA; expected a file, a folder, or a name that `neuralrde data list` shows.", WRONG_USE)
    path = Path(word).expanduser()
    if path.exists():
        return read(path, **table)
    if os.sep in word or word.lower().endswith(_ENDINGS):
        raise Refusal(f"There is no file or folder {word}.")
    if table:
        name = next(iter(table))
        raise Refusal(
            f"Got --{name.replace('_', '-')} for the data set {word}; expected it for files only. Leave it out, or "
            "give the path of a file that exists.",
            WRONG_USE,
        )
    return load(word)


def divided(data: Dataset, how: str, seed: int) -> tuple[Split, str]:
    """Training, validation and test set, and a sentence about them."""
    if how == "auto":
        classes = data.classes is not None and not data.per_time
        own = data.split is not None and (data.split == "train").any()
        how = "given" if own else "group" if data.groups is not None else "class" if classes else "random"
    if how == "given":
        own = data.split is not None and (data.split == "validation").any()
        split = given(data, validation=0.0 if own else _VALIDATION, seed=seed)
        told = "as the data's source gives it" + ("" if own else f", {_VALIDATION:.0%} of the training set to validate")
    elif how == "group":
        split, told = by_group(data, seed=seed), "70/15/15 by group, so that no group is in two parts"
    elif how == "class":
        split, told = stratified(data, seed=seed), "70/15/15 at random, each class in proportion"
    else:
        split, told = random_split(data, seed=seed), "70/15/15 at random"
    twins = f"; {split.leaked} test or validation samples have a twin elsewhere" if split.leaked else ""
    return split, f"{told}{twins}"


def targets(data: Dataset) -> np.ndarray:
    """What the estimators are trained on: names of classes, so that a model knows them in whatever order."""
    if data.target is None:
        raise Refusal(
            "Got data without a target; expected one. Name its column with --target, or the column `target` in the "
            "file."
        )
    if data.classes is None:
        return np.asarray(data.target)
    if (np.asarray(data.target)[data.series.valid if data.per_time else ...] < 0).any():
        raise Refusal("Got samples without a class; expected a class for each. Leave those samples out of the file.")
    return np.asarray(data.classes)[data.target]
