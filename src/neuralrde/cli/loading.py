"""From a word on the command line to series and their division."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset, Split, by_group, column_names, given, load, random_split, read, stratified
from ..datasets.table import USUAL, find_roles
from .config import Settings, settings_of
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


def with_channels(settings: Settings, data: Dataset) -> Settings:
    """The settings with the channels by name, if they are columns of a table: another table may have more or less."""
    table, names = settings.table, column_names(settings.data or "", settings.table.get("header"))
    if not names:
        return settings
    given = {role: table[role] for role in USUAL if str(table.get(role)) in names}
    columns = find_roles(
        [name for name in names if name], settings.data, columns=table.get("columns"), **given
    ).channels
    # One row of a wide table alone does not tell that it is a series; x0 is what its one channel is called.
    wide = data.series.channels == ("x0",) != columns
    told = {"wide": True} if wide else {"columns": list(columns)} if data.series.channels == columns else {}
    return replace(settings, table={**table, **told})


def open_for(run: Path, word: str | None, flags: dict[str, Any], *, classifier: bool) -> Dataset:
    """Data for a trained model: tables are read as the run's own was, where the flags do not say otherwise.

    A run without a word about data is given its own. The model knows whether whole numbers are classes.
    """
    file = run / "settings.toml"
    own = settings_of(file, table={}, model={}) if file.exists() else None
    task = "classification" if classifier else "regression"
    if word is None:
        if own is None:
            raise Refusal(
                f"Got {run} and no DATA; expected DATA too, because only the folder of a run knows what it was "
                "trained on.",
                WRONG_USE,
            )
        word, told = own.data or "", own.table
    else:
        told = {} if own is None else _still_told(own.table, word)
    told = _but_named(told, flags)
    return open_data(word, {**told, **flags, "task": task} if Path(word).expanduser().exists() else flags)


def _but_named(told: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """A column that a flag names has that role, and not the one that it had in the run."""
    named = {flags.get(role) for role in USUAL} | set(flags.get("columns", ()))
    told = {role: value for role, value in told.items() if role not in USUAL or value not in named}
    if "columns" in told:
        told["columns"] = [name for name in told["columns"] if name not in named]
    return told


def _still_told(table: dict[str, Any], word: str) -> dict[str, Any]:
    """What a run was told of its table and is true of another: the target is there, or is still to come."""
    names = column_names(word, table.get("header"))
    usual = [name for name in names if name.lower() in USUAL["target"]]
    target = ("target", "per_time") if (str(table["target"]) in names if "target" in table else usual) else ()
    roles = ("id", "time", "columns", "wide", "header", *target)
    return {role: table[role] for role in roles if names and role in table}


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
