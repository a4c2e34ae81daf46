"""Targets of series: classes by their numbers, or numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets.targets import guess_task, sorted_names
from .rows import SourceError


@dataclass(frozen=True)
class Labels:
    """`target` is `(series,)` numbers of classes from 0, or `(series, outputs)` numbers."""

    target: np.ndarray
    classes: list[Any] | None

    @property
    def task(self) -> str:
        return "regression" if self.classes is None else "classification"


def as_labels(given: Sequence[Any], task: str | None, classes: list[Any] | None = None) -> Labels:
    """Labels as they stand in a file: classes or numbers, by the same rule as `neuralrde.read`, unless `task` decides.

    Args:
        given: one per series, or a list of several.
        task: "classification" or "regression"; None decides.
        classes: those of another store, whose numbers are to mean the same here.

    >>> as_labels(["ill", "well", "ill"], None)
    Labels(target=array([0, 1, 0], dtype=int32), classes=['ill', 'well'])
    >>> as_labels([0.5, 1.25], None).target.tolist()
    [[0.5], [1.25]]
    """
    array: Any = np.array(given)
    if array.dtype.kind == "U":
        array = np.char.strip(array)
        if (array == "").any():
            raise _absent(int((array == "").argmax()))
        if task is None:
            task = guess_task(np.unique(array).tolist(), len(array))[0]
        if task == "regression":
            try:
                array = array.astype(np.float64)
            except ValueError:
                raise SourceError(
                    f"Got the target {str(array[0])!r} in a regression; expected numbers. Say "
                    'task="classification" if targets are names of classes.'
                ) from None
    elif task is None:
        distinct = np.unique(array)
        whole = array.ndim == 1 and array.dtype.kind in "iub"
        task = guess_task(distinct.astype(str).tolist(), len(array))[0] if whole else "regression"
    if task == "classification":
        if array.ndim > 1:
            raise SourceError("Got several targets for a classification; expected one. Name one target.")
        if array.dtype.kind == "f":
            if np.isnan(array).any():
                raise _absent(int(np.isnan(array).argmax()))
            array = array.astype(np.int64) if (array == np.round(array)).all() else array
        found, target = np.unique(array, return_inverse=True)
        if classes is not None:
            return Labels(_numbers(found.tolist(), classes)[target].astype(np.int32), classes)
        names: list[Any] = found.tolist()
        if found.dtype.kind == "U":  # numbers by size, words by the alphabet
            ordered = sorted_names(names)
            target = np.array([ordered.index(name) for name in names])[target]
            names = list(ordered)
        return Labels(target.astype(np.int32), names)
    numbers = array.astype(np.float64).reshape(len(array), -1)
    absent = np.isnan(numbers).all(axis=1)
    if absent.any() or np.isinf(numbers).any():
        raise _absent(int((absent | np.isinf(numbers).any(axis=1)).argmax()))
    return Labels(numbers.astype(np.float32), None)


def _numbers(labels: list[Any], classes: list[Any]) -> np.ndarray:
    places = {str(name): number for number, name in enumerate(classes)}
    unknown = [name for name in labels if str(name) not in places]
    if unknown:
        raise SourceError(
            f"Got the class {unknown[0]!r}; expected one of {classes[:10]}, the classes of the store that this one is "
            "to be like. Leave its series out."
        )
    return np.array([places[str(name)] for name in labels])


def _absent(series: int) -> SourceError:
    return SourceError(
        f"Got no target for series {series} of the data; expected one for each, because nothing can be learned "
        "without. Leave such series out, or name no target for a store to predict from."
    )
