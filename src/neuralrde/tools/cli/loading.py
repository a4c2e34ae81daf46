"""From a word on the command line to series, or to a store of them; their targets, and their parts."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._write import Values
from ...datasets import Dataset, Split, column_names, endings, folds, given, in_order, load, read
from ...datasets.splits import USUAL as FRACTIONS
from ...datasets.splits import WAYS, usual_way
from ...datasets.table import USUAL
from ...errors import few
from ...paths import Series
from .console import WRONG_USE, Refusal, count
from .flags import Table
from .settings import RunSettings, settings_of

if TYPE_CHECKING:
    from ..stores import Store

# Of another table than the run's own, these may be wrong: labels in another file are not its labels, and a series
# without a target is no reason to predict nothing for it. The target is kept if the other table has its column.
_NOT_KEPT = ("target", "per_time", "group", "split", "labels", "labels_id", "drop_unlabelled", "task", "name")
_VALIDATION = 0.15


def open_data(word: str | None, table: Table) -> Dataset:
    """The file or folder of this name, or else the data set."""
    if not word:
        raise Refusal(
            f"Got no DATA; expected a file ({', '.join(endings())}), a folder, or a name that `neuralrde data list` "
            "shows.",
            WRONG_USE,
        )
    path = Path(word).expanduser()
    if path.exists():
        return read(path, **table)
    if os.sep in word or word.lower().endswith((*endings(), ".gz")):  # a file, mistyped, and no data set
        raise Refusal(f"There is no file or folder {word}.")
    if table:
        raise Refusal(
            f"Got --{next(iter(table)).replace('_', '-')} for the data set {word}; expected it for files only. Leave "
            "it out, or give the path of a file that exists.",
            WRONG_USE,
        )
    return load(word)


def open_store(settings: RunSettings) -> tuple["Store", Dataset]:
    """The store that settings name, and a data set to divide in its place. Settings that need series are refused.

    The stand-in has the store's ids, targets and groups, and one number for each series.
    """
    from ..stores import Store

    store = Store(str(settings.data))
    wrong = None
    if settings.folds:
        wrong = "--folds", "one training"
    elif settings.closed_form:
        wrong = "--model closed-form", "a neural model, because the closed form needs whole series"
    elif settings.table:
        flag = f"--{next(iter(settings.table)).replace('_', '-')}"
        wrong = flag, "it in `neuralrde prepare`, which has read the table"
    elif store.task is None:
        wrong = "a store without a target", "one that was prepared with --target"
    if wrong is not None:
        raise Refusal(f"Got {wrong[0]} for a store; expected {wrong[1]}.", WRONG_USE)
    target, classes = store.target, store.classes
    if target is not None and classes is None:
        target = np.asarray(target, np.float64)
        target = target[:, 0] if target.shape[1] == 1 else target
    series = Series.from_array(np.arange(float(len(store)))[:, None], ids=store.ids)
    names = None if classes is None else [str(one) for one in classes]
    name = Path(str(settings.data).rstrip("/")).name
    return store, Dataset(series, target, task=store.task, classes=names, groups=store.groups, name=name)  # type: ignore


def with_channels(settings: RunSettings, data: Dataset) -> RunSettings:
    """The settings with the channels by name, if they are columns of a table: another table may have more or less."""
    table, names = settings.table, column_names(settings.data or "", settings.table.get("header"))
    channels = data.series.channels
    if names and data.static is not None:
        table = {**table, "static": list(data.static.columns)}
        settings = replace(settings, table=table)
    if not names or "sensor" in table:
        return settings
    if not _lacking(channels, names):
        kept = {name: value for name, value in table.items() if name != "one_hot"}
        return replace(settings, table={**kept, "columns": list(channels)})
    # Many columns are one channel: x0 has those without a name of their own, acc has acc_0, acc_1, ... One row alone
    # does not tell that it is a series.
    wide = channels == ("x0",) or any(name.startswith(channels) for name in names)
    return replace(settings, table={**table, "wide": True}) if wide else settings


def open_for(run: Path, word: str | None, flags: Table, *, task: str) -> Dataset:
    """Data for a trained model: tables are read as the run's own was, where the flags do not say otherwise.

    A run without a word about data is given its own. The model knows whether whole numbers are classes.
    """
    own = _settings_in(run)
    if word is None and own is None:
        raise Refusal(
            f"Got {run} and no DATA; expected DATA too, because only the folder of a run knows what it was trained on.",
            WRONG_USE,
        )
    table, names = {} if own is None else own.table, []
    if word is None:
        word = (own and own.data) or ""
    else:
        # What is said of the run's own table and is true of this one: the target is there, or is still to come.
        names = column_names(word, table.get("header"))
        usual = any(name.lower() in USUAL["target"] for name in names)
        there = set(_listed(table["target"])) <= set(names) if "target" in table else usual
        kept = ("target", "per_time") if there and "labels" not in table else ()
        table = {role: value for role, value in table.items() if names and (role in kept or role not in _NOT_KEPT)}
    if own is not None and "labels" in flags:  # another table of labels, of the same kind
        table |= {role: own.table[role] for role in ("labels_id", "target") if role in own.table}
    # A column that a flag names has that role, and not the one that it had in the run.
    named = {name for role in (*USUAL, "columns") for name in _listed(flags.get(role))}
    table = {role: value for role, value in table.items() if role not in USUAL or not named & set(_listed(value))}
    if "columns" in table and "columns" not in flags:
        table["columns"] = [name for name in table["columns"] if name not in named]
        if names and (absent := _lacking(table["columns"], names)):
            raise Refusal(
                f"{word} has no column {few(absent, 5)}, which the model in {run} was trained on; its columns are "
                f"{few(names)}. Rename the column that holds it."
            )
    return open_data(word, {**table, **flags, "task": task} if Path(word).expanduser().exists() else flags)


def static_of(model: Any, data: Dataset) -> Values:
    """The table beside the series, as an argument, if the model was fitted with one."""
    return {} if model.fitted_.inputs.static is None else {"static": {} if data.static is None else data.static}


def is_runs_own(run: Path, word: str | None) -> bool:
    """Whether DATA is what the run was trained on, by its name or path."""
    own = _settings_in(run)
    return own is not None and (word is None or own.data in (word, str(Path(word).expanduser().resolve())))


def _settings_in(run: Path) -> RunSettings | None:
    file = run / "settings.toml"
    return settings_of(file, table={}, estimator={}) if file.exists() else None


def _lacking(channels: Iterable[str], names: list[str]) -> list[str]:
    """The channels that no column holds. `sex=f` is the word f of the column sex."""
    return [name for name in channels if name not in names and name.partition("=")[0] not in names]


def _listed(value: object) -> list[str]:
    """One name or several, as strings."""
    return [] if value is None else list(map(str, value)) if isinstance(value, list) else [str(value)]


def targets(data: Dataset) -> np.ndarray:
    """What the estimators are trained on: names of classes, so that a model knows them in whatever order."""
    if data.target is None:
        raise Refusal(
            "Got data without a target; expected one. Name its column with --target, or the column `target` in the "
            "file."
        )
    target = np.asarray(data.target)
    if data.classes is None:
        return target
    if not data.per_time and (target < 0).any():
        row = int(np.flatnonzero(target < 0)[0])
        who = f"sample {row}" if data.series.ids is None else f"id {data.series.ids[row]}"
        raise Refusal(
            f"Got no class for {who}; expected one for each. Leave such samples out, with --drop-unlabelled if the "
            "file is a table."
        )
    # Points need not have a class; an empty name is none.
    return np.where(target < 0, "", np.asarray(data.classes)[target])


def divided(data: Dataset, how: str, seed: int) -> tuple[Split, str]:
    """Training, validation and test part, and a sentence about them."""
    if how == "auto":
        how = "given" if data.split is not None and (data.split == "train").any() else usual_way(data)
    split = _divide(data, how, FRACTIONS, seed)
    if how == "given":
        own = data.split is not None and (data.split == "validation").any()
        sentence = "as the data's source gives it" + (
            "" if own else f", {_VALIDATION:.0%} of the training set to validate"
        )
    else:
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
    return _divide(data, usual_way(data) if how == "auto" else how, (1 - _VALIDATION, _VALIDATION, 0.0), seed)


def divided_into_folds(data: Dataset, number: int, how: str, seed: int) -> tuple[list[Split], str]:
    """So many splits, and how they were made; each sample is in the test part of one of them."""
    how = usual_way(data) if how == "auto" else how
    if how not in WAYS:
        raise Refusal(
            f"Got --folds with --divide {how}; expected group, class or random, because each sample is tested once.",
            WRONG_USE,
        )
    sentence = {"group": "by group", "class": "each class in proportion", "random": "at random"}[how]
    return folds(data, number, by=how, validation=_VALIDATION, seed=seed), sentence  # type: ignore


def _divide(data: Dataset, how: str, fractions: tuple[float, float, float], seed: int) -> Split:
    if how == "given":
        own = data.split is not None and (data.split == "validation").any()
        return given(data, validation=0.0 if own else _VALIDATION, seed=seed)
    if how == "order":  # groups may be in several parts: a forecast is of those that are known
        return in_order(data, fractions, by_time=True, keep_groups=False)
    return WAYS[how](data, fractions, seed=seed)
