"""From a word on the command line to series, or to a store of them, and their targets."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..datasets import Dataset, column_names, endings, load, read
from ..datasets.roles import USUAL
from ..paths import Series
from .console import WRONG_USE, Refusal
from .settings import RunSettings, settings_of

if TYPE_CHECKING:
    from ..stores import Store

# Of another table than the run's own, these may be wrong: labels in another file are not its labels, and a series
# without a target is no reason to predict nothing for it. The target is kept if the other table has its column.
_NOT_KEPT = ("target", "per_time", "group", "split", "labels", "labels_id", "drop_unlabelled", "task", "name")


def open_data(word: str | None, table: dict[str, Any]) -> Dataset:
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
        name = next(iter(table))
        raise Refusal(
            f"Got --{name.replace('_', '-')} for the data set {word}; expected it for files only. Leave it out, or "
            "give the path of a file that exists.",
            WRONG_USE,
        )
    return load(word)


def open_store(settings: RunSettings) -> tuple["Store", Dataset]:
    """The store that settings name, and a data set to divide in its place. Settings that need series are refused."""
    from ..stores import Store

    store = Store(str(settings.data))
    _check_possible(settings, store)
    return store, _stand_in(store, Path(str(settings.data).rstrip("/")).name)


def _check_possible(settings: RunSettings, store: "Store") -> None:
    """Refuse settings that need whole series."""
    wrong = None
    if settings.folds:
        wrong = "--folds", "one training"
    elif settings.closed_form:
        wrong = "--model closed-form", "a neural model, because the closed form needs whole series"
    elif settings.table:
        wrong = (
            f"--{next(iter(settings.table)).replace('_', '-')}",
            "it in `neuralrde prepare`, which has read the table",
        )
    elif store.task is None:
        wrong = "a store without a target", "one that was prepared with --target"
    if wrong is not None:
        raise Refusal(f"Got {wrong[0]} for a store; expected {wrong[1]}.", WRONG_USE)


def _stand_in(store: "Store", name: str) -> Dataset:
    """A data set with the store's ids, targets and groups, and one number in place of each series.

    It can be divided like any other, and knows what is true.
    """
    series = Series.from_array(np.arange(float(len(store)))[:, None], ids=store.ids)
    target, classes = store.target, store.classes
    if target is not None and classes is None:
        target = np.asarray(target, np.float64)
        target = target[:, 0] if target.shape[1] == 1 else target
    names = None if classes is None else [str(one) for one in classes]
    return Dataset(series, target, task=store.task, classes=names, groups=store.groups, name=name)  # type: ignore


def with_channels(settings: RunSettings, data: Dataset) -> RunSettings:
    """The settings with the channels by name, if they are columns of a table: another table may have more or less."""
    table, names = settings.table, column_names(settings.data or "", settings.table.get("header"))
    if not names or "sensor" in table:
        return settings
    # `sex=f` is the word f of the column sex.
    if all(name in names or name.partition("=")[0] in names for name in data.series.channels):
        kept = {name: value for name, value in table.items() if name != "one_hot"}
        return replace(settings, table={**kept, "columns": list(data.series.channels)})
    # One row of a wide table alone does not tell that it is a series.
    return replace(settings, table={**table, "wide": True}) if _is_wide(data, names) else settings


def _is_wide(data: Dataset, names: list[str]) -> bool:
    """Whether a channel has many columns: x0 has those without a name of their own, or acc has acc_0, acc_1, ..."""
    return data.series.channels == ("x0",) or any(name.startswith(data.series.channels) for name in names)


def open_for(run: Path, word: str | None, flags: dict[str, Any], *, classifier: bool) -> Dataset:
    """Data for a trained model: tables are read as the run's own was, where the flags do not say otherwise.

    A run without a word about data is given its own. The model knows whether whole numbers are classes.
    """
    file = run / "settings.toml"
    own = settings_of(file, table={}, estimator={}) if file.exists() else None
    task = "classification" if classifier else "regression"
    if word is None:
        if own is None:
            raise Refusal(
                f"Got {run} and no DATA; expected DATA too, because only the folder of a run knows what it was "
                "trained on.",
                WRONG_USE,
            )
        word, table = own.data or "", own.table
    else:
        table = {} if own is None else _still_true(own.table, word)
    if own is not None and "labels" in flags:  # another table of labels, of the same kind
        table = table | {role: own.table[role] for role in ("labels_id", "target") if role in own.table}
    table = _but_named(table, flags)
    _check_columns(table, flags, word, run)
    return open_data(word, {**table, **flags, "task": task} if Path(word).expanduser().exists() else flags)


def _check_columns(table: dict[str, Any], flags: dict[str, Any], word: str, run: Path) -> None:
    """Refuse a table that lacks what the model needs."""
    names = column_names(word, table.get("header")) if "columns" in table and "columns" not in flags else []
    absent = [name for name in table.get("columns", ()) if name not in names and name.partition("=")[0] not in names]
    if names and absent:
        some = ", ".join(map(repr, absent[:5])) + (" ..." if len(absent) > 5 else "")
        raise Refusal(
            f"{word} has no column {some}, which the model in {run} was trained on; its columns are {names[:12]}. "
            "Rename the column that holds it."
        )


def _but_named(table: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """A column that a flag names has that role, and not the one that it had in the run."""
    named = {name for role in USUAL for name in _listed(flags.get(role))} | set(flags.get("columns", ()))
    table = {role: value for role, value in table.items() if role not in USUAL or not named & set(_listed(value))}
    if "columns" in table:
        table["columns"] = [name for name in table["columns"] if name not in named]
    return table


def _still_true(table: dict[str, Any], word: str) -> dict[str, Any]:
    """What is said of a run's table and is true of another: the target is there, or is still to come."""
    names = column_names(word, table.get("header"))
    usual = [name for name in names if name.lower() in USUAL["target"]]
    there = all(name in names for name in _listed(table["target"])) if "target" in table else usual
    kept = ("target", "per_time") if there and "labels" not in table else ()
    return {role: value for role, value in table.items() if names and (role in kept or role not in _NOT_KEPT)}


def _listed(value: Any) -> list[str]:
    """One name or several, as strings."""
    return [] if value is None else [str(name) for name in value] if isinstance(value, list) else [str(value)]


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
        who = np.flatnonzero(target < 0)[0]
        raise Refusal(
            f"Got no class for {sample_name(data, who)}; expected one for each. Leave such samples out, with "
            "--drop-unlabelled if the file is a table."
        )
    # Points need not have a class; an empty name is none.
    return np.where(target < 0, "", np.asarray(data.classes)[target])


def sample_name(data: Dataset, row: int) -> str:
    """What a person knows a sample by."""
    return f"sample {row}" if data.series.ids is None else f"id {data.series.ids[row]}"


def is_runs_own(run: Path, word: str | None) -> bool:
    """Whether DATA is what the run was trained on, by its name or path."""
    file = run / "settings.toml"
    if not file.exists():
        return False
    own = settings_of(file, table={}, estimator={}).data
    return word is None or word == own or str(Path(word).expanduser().resolve()) == own
