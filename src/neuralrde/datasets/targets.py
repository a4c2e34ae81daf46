"""What is to be predicted: labels as numbers of classes, or real numbers."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .._write import Values
from ..errors import ParameterError, few, setting
from .files import number

Task = Literal["classification", "regression"]


def as_target(
    target: ArrayLike, task: Task | None, classes: Sequence[str] | None, shape: tuple[int, ...]
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """The target of series of a shape as numbers, and the names of the classes if it is numbers of classes."""
    if task not in (None, "classification", "regression"):
        raise ParameterError("task", task, '"classification", "regression" or None, to decide')
    target = np.asarray(target)
    if classes is not None:
        classes = tuple(str(name) for name in classes)
        if len(set(classes)) < len(classes):
            raise ValueError(f"Got the classes {list(classes)}, one of them twice; expected different names.")
        numbered = target.dtype.kind in "iu" and ((target >= -1) & (target < len(classes))).all()
        if not numbered or task == "regression":
            raise ValueError(
                f"Got a target that does not number the {len(classes)} classes {few(classes, 10)}; "
                "expected whole numbers from 0. Leave `classes` out to have labels numbered."
            )
        target = target.astype(np.int64, copy=False)
    elif is_classes(target, task):
        target, classes = number_classes(target)
    else:
        target = _as_real(target)
        if np.isinf(target).any():
            raise ValueError("Got an infinite target; expected finite numbers, because no loss is finite there.")
    at_points = 2 if classes else 3  # axes of a target at each point
    if target.ndim > at_points or (target.ndim == at_points and target.shape[1] != shape[1]):
        outputs = "" if classes else "(samples, outputs), "
        raise ValueError(
            f"Got a target of shape {target.shape} for series of shape {shape}; expected (samples,), {outputs}"
            f"or (samples, length{'' if classes else ', outputs'})."
        )
    absent = (target < 0) if classes else np.isnan(target)
    if target.ndim < at_points and absent.any():
        raise ValueError(
            f"Got no target (NaN or -1) for sample {int(np.argwhere(absent)[0][0])} (and {int(absent.sum()) - 1} "
            "more); expected one for each sample, because nothing can be learned without. Leave such samples out."
        )
    return target, classes


def is_classes(target: np.ndarray, task: Task | None) -> bool:
    """Whether labels are taken for names of classes, unless `task` decides: see `guess_task`; floats are numbers."""
    if task is not None:
        return task == "classification"
    if target.dtype.kind in "bf":
        return target.dtype.kind == "b"
    return guess_task(np.unique(target.astype(str)).tolist(), target.size)[0] == "classification"


def guess_task(distinct: Sequence[str], samples: int) -> tuple[Task, str]:
    """Guess the task from the distinct labels and the number of samples; and say why.

    Words are classes, and numbers with a fraction are a regression. Whole numbers (1, or 1.0 as a column that once
    had a gap spells it) are counted. Up to two of them, or none beyond -1 to 10, are classes. So are up to ten
    others, and any that count from 0 or 1 without a gap, if two samples or more share each of them on average.
    All else is a regression: a heart rate, an age.

    >>> guess_task(["1", "2", "3"], 90)
    ('classification', '3 distinct whole numbers')
    >>> guess_task([str(age) for age in range(30, 71)], 69)
    ('regression', '41 distinct whole numbers')
    """
    if not all(map(is_number_text, distinct)):
        return "classification", "words"
    if any(_CODE.fullmatch(label.strip()) for label in distinct):
        return "classification", "codes such as 01"
    if not all(_WHOLE.fullmatch(label.strip()) for label in distinct):
        return "regression", "numbers with a fraction"
    whole = sorted({int(label.strip().split(".")[0]) for label in distinct if len(label) < 30})
    count, shared = len(distinct), samples >= 2 * len(distinct)
    counted = bool(whole) and whole[0] in (0, 1) and whole == list(range(whole[0], whole[0] + count))
    small = bool(whole) and whole[0] >= -1 and whole[-1] <= 10
    few = count <= 2 or small or (shared and (count <= 10 or counted))
    return "classification" if few else "regression", f"{count} distinct whole number{'' if count == 1 else 's'}"


_WHOLE = re.compile(r"[+-]?\d+(\.0*)?", re.ASCII)
_CODE = re.compile(r"0\d+", re.ASCII)


def is_number_text(label: object) -> bool:
    """Whether a label is written as a number."""
    try:
        number(str(label))
    except ValueError:
        return False
    return True


def classes_or_numbers(
    labels: np.ndarray, name: str, task: Task | None
) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    """Labels in text as numbers of classes and the classes' names, or as real numbers and None; and in words why.

    >>> classes_or_numbers(np.array(["b", "a", "b"]), "ill", None)
    (array([1, 0, 1]), ('a', 'b'), '2 classes')
    >>> classes_or_numbers(np.array(["0.5", "2"]), "age", None)
    (array([0.5, 2. ]), None, 'real numbers')
    """
    chosen, why = guess_task(np.unique(labels).tolist(), len(labels)) if task is None else (task, "as asked")
    other = "regression" if chosen == "classification" else "classification"
    change = f"; {setting('task', other)} to change" if "distinct whole" in why else ""
    if chosen == "regression":
        why = "" if why == "numbers with a fraction" else f": {why}"
        return _as_real(labels, f", in column {name!r}"), None, f"real numbers{why}{change}"
    target, classes = number_classes(labels)
    why = {"words": "", "as asked": ", as asked"}.get(why, f": {why}")
    return target, classes, f"{len(classes)} class{'' if len(classes) == 1 else 'es'}{why}{change}"


def describe_target(
    columns: dict[str, np.ndarray], labelled: np.ndarray | None, task: Task | None
) -> tuple[Values, str]:
    """Arguments of `Dataset` for columns of labels in text, where there are any, and a sentence about them."""
    if not columns:
        return {}, ""
    columns = {name: labels[labelled] for name, labels in columns.items()}
    named = ", ".join(f"`{name}`" for name in columns)
    if len(columns) > 1:
        if task == "classification":
            raise ValueError(
                f"Got the targets {named} for a classification; expected one, or "
                f"{setting('task', 'regression')} with numbers."
            )
        values = np.stack([_as_real(labels, f", in column {name!r}") for name, labels in columns.items()], axis=1)
        return {"target": values, "task": "regression"}, f"targets {named} (real numbers)"
    [(name, labels)] = columns.items()
    target, classes, described = classes_or_numbers(labels, name, task)
    fields = {"target": target, "classes": classes, "task": None if classes else "regression"}
    return fields, f"target {named} ({described})"


def _as_real(labels: np.ndarray, where: str = "") -> np.ndarray:
    """Labels as real numbers, in their shape; ValueError names one that is none."""
    if labels.dtype.kind in "bfiu":
        return labels.astype(np.float64, copy=False)
    values = np.empty(labels.size)
    for i, label in enumerate(labels.ravel()):
        try:
            values[i] = number(str(label))
        except ValueError:
            raise ValueError(
                f"Got {str(label)[:40]!r} in a regression{where}; expected numbers. Write "
                f"{setting('task', 'classification')} if the targets are names of classes."
            ) from None
    return values.reshape(labels.shape)


def number_classes(target: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as numbers of classes, and the names of the classes.

    >>> number_classes(np.array(["b", "a", "b"]))
    (array([1, 0, 1]), ('a', 'b'))
    """
    names = np.array([_name(str(label)) for label in target.ravel()], dtype=object)
    classes = sorted_names(set(names))
    place = {name: number for number, name in enumerate(classes)}
    return np.array([place[name] for name in names], dtype=np.int64).reshape(target.shape), classes


def _name(label: str) -> str:
    """1.0, as tables with gaps have it, is the class 1."""
    if not re.fullmatch(r"-?\d+\.0*", label):
        return label
    whole = label.split(".")[0]
    return whole if whole.strip("-0") else "0"


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of classes in order: numbers by size, words by the alphabet."""
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))
