"""What a table says once for a series, though perhaps in each of its rows: target, group and split.

And how series and labels become a data set, with a sentence about how the table was understood.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..targets import Task, guess_task, number_classes
from ..text import is_no_label, number
from .table import Table, TableOptions


@dataclass(frozen=True)
class Labels:
    """Text for each series, "" where there is none."""

    names: tuple[str, ...]  # of the targets' columns
    targets: tuple[np.ndarray, ...]
    groups: np.ndarray | None
    split: np.ndarray | None

    @property
    def labelled(self) -> np.ndarray | None:
        """Whether a series has all its targets; None if there is no target at all."""
        if not self.targets:
            return None
        return np.all([column != "" for column in self.targets], axis=0)

    def target(self, task: Task | None) -> tuple[dict[str, Any], str]:
        """Arguments of `Dataset` for the series that have a target, and a sentence about them."""
        if not self.targets:
            return {}, ""
        there = self.labelled
        columns = [column[there] for column in self.targets]
        named = ", ".join(f"`{name}`" for name in self.names)
        if len(columns) > 1:
            if task == "classification":
                raise ValueError(
                    f'Got the targets {named} for a classification; expected one, or `task="regression"` with numbers.'
                )
            values = np.stack(
                [_numbers(column, name) for column, name in zip(columns, self.names, strict=True)], axis=1
            )
            return {"target": values, "task": "regression"}, f"targets {named} (real numbers)"
        [column] = columns
        chosen, why = guess_task(sorted(set(column)), len(column)) if task is None else (task, "as asked")
        if chosen == "regression":
            said = "real numbers" if why == "numbers with a fraction" else f"real numbers: {why}"
            return {"target": _numbers(column, self.names[0]), "task": chosen}, f"target {named} ({_said(said, why)})"
        target, classes = number_classes(column)
        said = f"{len(classes)} class{'' if len(classes) == 1 else 'es'}"
        said += {"words": "", "as asked": ", as asked"}.get(why, f": {why}")
        return {"target": target, "classes": classes}, f"target {named} ({_said(said, why)})"


def _said(kind: str, why: str) -> str:
    """Where whole numbers were counted, how to have it otherwise."""
    if "distinct whole" not in why:
        return kind
    other = "regression" if "class" in kind else "classification"
    return f'{kind}; `task="{other}"` to change'


def _numbers(column: np.ndarray, name: str) -> np.ndarray:
    values = np.full(len(column), np.nan)
    for i, cell in enumerate(column):
        try:
            values[i] = number(cell)
        except ValueError:
            raise ValueError(
                f"Got {cell[:40]!r} in a regression, in column {name!r}; expected numbers. Write "
                '`task="classification"` if the targets are names of classes.'
            ) from None
    return values


def per_series(table: Table, options: TableOptions, owner, ids, samples: int, *, targets: bool = True) -> Labels:
    """The labels of each series; ReadError if its rows contradict each other, or say nothing."""
    roles = table.roles
    found = [_one_each(table, name, "target", owner, ids, samples) for name in (roles.target if targets else ())]
    empty = [not (column != "").any() for column in found]
    if found and all(empty):
        table.notes.append(f"no target: {', '.join(f'`{name}`' for name in roles.target)} is empty")
        found = []
    labels = Labels(
        roles.target if found else (),
        tuple(found),
        _given(table, roles.group, "group", owner, ids, samples),
        _given(table, roles.split, "split", owner, ids, samples),
    )
    labelled = labels.labelled
    if labelled is not None and not labelled.all() and not options.drop_unlabelled:
        i, more = int(np.argmin(labelled)), int((~labelled).sum()) - 1
        raise table.error(
            f"Got nothing for {who(ids, i)}{f' (and {more} more)' if more else ''} in column {roles.target[0]!r}; "
            "expected a target for each series. Write `drop_unlabelled=True` to leave such series out."
        )
    return labels


def _given(table: Table, name: str | None, role: str, owner, ids, samples: int) -> np.ndarray | None:
    if name is None:
        return None
    column = _one_each(table, name, role, owner, ids, samples)
    if (column == "").any():
        i = int(np.argmax(column == ""))
        raise table.error(f"Got nothing for {who(ids, i)} in column {name!r}; expected a {role}.")
    return text_array(column)


def _one_each(table: Table, name: str, role: str, owner, ids, samples: int) -> np.ndarray:
    import pandas as pd

    codes, distinct = pd.factorize(table.frame[name].astype(object))
    texts = np.array(["" if is_no_label(label) else str(label) for label in distinct] + [""], dtype=object)
    there = texts[codes] != ""
    label = np.full(samples, -1)
    label[owner[there][::-1]] = codes[there][::-1]  # the first row of a series comes last
    differs = there & (codes != label[owner])
    if differs.any():
        row = int(np.argmax(differs))
        i = int(owner[row])
        hint = ""
        if role == "target":
            hint = " Write `per_time=True` for a target at each point"
            hint += ", or `wide=True` if a row is a series." if table.roles.id is None else "."
        elif table.roles.id is None:
            hint = f" Write `id={name!r}` if it says which series a row belongs to."
        raise table.error(
            f"Got for {who(ids, i)} both {texts[label[i]]!r} and {texts[codes[row]]!r} in column {name!r}; expected "
            f"one for all its rows.{hint}",
            row,
        )
    return texts[label]


def who(ids, i: int) -> str:
    return f"series {i}" if ids is None or ids[i] is None else f"id {ids[i]}"


@dataclass(frozen=True)
class PointTargets:
    """Targets at points as columns of numbers, NaN where there is none; of classes, their numbers."""

    columns: list[np.ndarray]
    classes: tuple[str, ...] | None
    why: str


def per_point(table: Table, task: Task | None) -> PointTargets:
    """The targets at the points of a long table."""
    names = table.roles.target
    if not names:
        raise ValueError('Got `per_time=True` without a target; expected one, `target="column"`.')
    columns = []
    for name in names:
        labels = table.frame[name].astype(object).to_numpy()
        there = np.array([not is_no_label(label) for label in labels])
        column = np.full(len(labels), np.nan)
        if len(names) == 1:
            known = labels[there].astype(str)
            chosen, why = guess_task(np.unique(known).tolist(), len(known)) if task is None else (task, "as asked")
            if chosen == "classification":
                column[there], classes = number_classes(known)
                return PointTargets([column], classes, _said(f"{len(classes)} classes: {why}", why))
        elif task == "classification":
            raise ValueError(f"Got the targets {list(names)} for a classification; expected one.")
        column[there] = _numbers(labels[there], name)
        columns.append(column)
    return PointTargets(columns, None, "real numbers")


def owners(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """For each row the number of its series, and the series' ids in the order in which they appear."""
    import pandas as pd

    if table.roles.id is None:
        return np.zeros(len(table.frame), np.int64), np.array([None], dtype=object)
    owner, ids = pd.factorize(table.frame[table.roles.id])
    return owner, np.asarray(ids, dtype=object)


def finish(table, options, series, labels: Labels, targets, task, name, unit, reading: str) -> Dataset:
    """Targets, groups and parts put beside the series, and the sentence completed."""
    roles = table.roles
    there: Any  # which series have a target; None if there is none to have
    if targets is not None:
        values = np.where(series.valid[..., None], series.values[..., len(roles.channels) :], np.nan)
        series = replace(series, values=series.values[..., : len(roles.channels)], channels=roles.channels)
        target = np.nan_to_num(values[..., 0], nan=-1).astype(np.int64) if targets.classes else values
        fields: dict[str, Any] = {"target": target, "classes": targets.classes}
        said = f"target {listed(roles.target, quoted=True)} at each point ({targets.why})"
        known = np.asarray(target >= 0) if targets.classes else np.asarray(~np.isnan(target).all(axis=2))
        there = known.any(axis=1)
    else:
        fields, said = labels.target(task)
        there = labels.labelled
    parts = [reading, *([said] if said else [])]
    groups, split = labels.groups, labels.split
    if options.drop_unlabelled and there is not None and not there.all():
        if not there.any():
            raise ValueError("Got no series with a target; expected some. Leave `drop_unlabelled` out.")
        table.notes.append(f"{int((~there).sum())} series without a target left out")
        series = series[there]
        groups, split = (None if one is None else one[there] for one in (groups, split))
        if targets is not None:  # `labels.target` has left them out already
            fields["target"] = fields["target"][there]
    reading = "; ".join([", ".join(parts), *table.notes])
    return Dataset(series, **fields, groups=groups, split=split, name=name, time_unit=unit, reading=reading)


def time_said(table: Table, kind: str) -> str:
    return "" if table.roles.time is None else f"time from `{table.roles.time}` ({kind})"


def joined(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)


def listed(names: Sequence[str], *, quoted: bool = False) -> str:
    names = [f"`{name}`" if quoted else name for name in names]
    return ", ".join(names if len(names) <= 8 else [*names[:6], f"... ({len(names)} in all)"])


def text_array(texts: np.ndarray) -> np.ndarray:
    """Strings as NumPy keeps them, in equal widths, unless one long one would make them large."""
    widest = max((len(text) for text in texts), default=0)
    return texts if 4 * widest * len(texts) > 2**26 else np.array([str(text) for text in texts])
