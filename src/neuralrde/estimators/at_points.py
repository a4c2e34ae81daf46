"""Targets at every point of series: one array, as long as the longest series, or an array for each series."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from ..paths import Series, window_counts, window_cuts
from .inputs import check_as_many, dimensions, is_list_of_series

# Cutting at labels too may at most so many times multiply the windows, and with them the work.
_MOST_TIMES = 2


def are_at_points(y: Any, series: Series, *, expected: bool = False) -> bool:
    """Whether labels are one a point: as wide as the series are long, or an array for each of them.

    With `expected` wider ones are too: a part of the series may be shorter than the rows that were made for all.
    """
    if is_list_of_series(y):
        one_each = all(labels.size == 1 for labels in y) and series.values.shape[1] > 1
        return all(labels.ndim == 1 for labels in y) and not one_each
    if dimensions(y) != 2 or np.shape(y)[1] < 2:
        return False
    length = series.values.shape[1]
    return np.shape(y)[1] == length or ((expected or series.ragged) and np.shape(y)[1] > length)


def labels_at_points(
    y: Any, series: Series
) -> tuple[Shaped[np.ndarray, "samples length"], Bool[np.ndarray, "samples length"]]:
    """Labels, and where they are known: not in padding, and not where they are NaN, None or empty.

    >>> series = Series.from_arrays([[1.0, 2.0, 3.0], [4.0]])
    >>> labels, known = labels_at_points([np.array(["calm", "", "wild"]), np.array(["calm"])], series)
    >>> known.tolist()
    [[True, False, True], [True, False, False]]
    """
    check_as_many(series, y)
    if is_list_of_series(y):
        _check_lengths(y, series)
        flat = np.concatenate(y)
        labels = np.full(series.valid.shape, flat[0], flat.dtype)
        labels[series.valid] = flat
    else:
        labels = np.array(y)[:, : series.values.shape[1]]
    known = series.valid & ~_is_none(labels)
    if not known.any():
        raise ValueError("Got no label at any point; expected some, because nothing can be learned without.")
    labels[~known] = labels[known][0]  # any one will do, and an array of one kind can be sorted
    return np.array(labels.tolist()) if labels.dtype == object else labels, known


def numbers_at_points(y: Any, series: Series, *, expected: bool = False) -> Any:
    """Targets `(n, length, outputs)`, NaN in padding, from an array for each series or from rows that are too long.

    Arrays are `(length, outputs)`, or `(length,)` where they differ in length. All else is given back as it came.
    """
    length = series.values.shape[1]
    if is_list_of_series(y) and (all(target.ndim == 2 for target in y) or len({np.shape(target) for target in y}) > 1):
        check_as_many(series, y)
        _check_lengths(y, series)
        columns = [target.reshape(len(target), -1) for target in y]
        target = np.full((*series.valid.shape, columns[0].shape[1]), np.nan)
        target[series.valid] = np.concatenate(columns)
        return target
    wider = dimensions(y) == 3 and np.shape(y)[1] > length
    return np.asarray(y)[:, :length] if wider and (expected or series.ragged) else y


def are_known(target: Shaped[np.ndarray, "samples length ..."]) -> Bool[np.ndarray, "samples length"]:
    """At which points there is a target: a class from 0, or a number for at least one output.

    >>> are_known(np.array([[0, -1, 2]])).tolist(), are_known(np.array([[[1.0, np.nan], [np.nan, np.nan]]])).tolist()
    ([[True, False, True]], [[True, False]])
    """
    return np.asarray(target >= 0 if target.dtype.kind == "i" else ~np.isnan(target).all(axis=-1))


def share_at_cuts(prepared: Series, known: Bool[np.ndarray, "samples length"], **cut: Any) -> tuple[bool, float]:
    """Whether to cut at labels too, and the share of labels that then stand at a window's end and are used.

    Sparse labels are cut at, so that each counts. Where they are dense, cutting at each would make many short windows
    out of the long ones that were asked for; then only those that stand at windows' ends are used.

    >>> series, known = Series.from_array(np.zeros((1, 9))), np.zeros((1, 9), bool)
    >>> known[:, 5] = True
    >>> share_at_cuts(series, known, step=4), share_at_cuts(series, ~known, step=4)
    ((True, 1.0), (False, 0.375))
    """
    cuts = window_cuts(prepared, **cut)
    missed = known.copy()
    np.put_along_axis(missed, np.broadcast_to(cuts, (len(known), cuts.shape[-1])), False, axis=1)
    windows = max(1, int(window_counts(prepared, cuts).sum()))
    if missed.sum() <= (_MOST_TIMES - 1) * windows:
        return True, 1.0
    return False, float(1 - missed.sum() / known.sum())


def point_weights(weights: Any, series: Series) -> Float[np.ndarray, "samples length"]:
    """From one weight a series, or one a point, or none."""
    given = np.ones(len(series)) if weights is None else np.asarray(weights, np.float64)
    return np.broadcast_to(given.reshape(len(series), -1), series.valid.shape)


def _check_lengths(y: Any, series: Series) -> None:
    lengths = np.array([len(targets) for targets in y])
    if (lengths != series.lengths).any():
        wrong = int(np.argmax(lengths != series.lengths))
        raise ValueError(
            f"Got {lengths[wrong]} targets for series {wrong} of {series.lengths[wrong]} points; expected one a point."
        )


def _is_none(labels: np.ndarray) -> np.ndarray:
    if labels.dtype == object:
        return np.array([label is None or label == "" or label != label for label in labels.flat]).reshape(labels.shape)
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    return labels == "" if labels.dtype.kind == "U" else np.zeros(labels.shape, bool)
