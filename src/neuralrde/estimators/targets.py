"""Targets: labels or numbers, of whole series or at every point of them.

Targets at every point are one array, as long as the longest series, or an array for each series.
"""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from ..paths import Series, Windows, window_counts
from ..training import label_scale
from .inputs import check_as_many, dimensions, is_list_of_series
from .parameters import check_choice, check_number

# Cutting at labels too may multiply the windows, and with them the work, by this factor at most.
_MOST_TIMES = 2


class ClassTargets(ClassifierMixin):
    """Labels: learns which there are, and scores by the share that is right.

    For an estimator with `predict_proba` and the parameter `class_weight`. It learns `classes_`, `outputs_`, and
    `per_time_`: whether there is a label at every point.
    """

    classes_: np.ndarray
    outputs_: int
    per_time_: bool
    class_weight: Any
    _all_classes: Any = None
    """Those that are to be learned, if y may lack some of them."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, `(n, classes)`, or `(n, length, classes)` for labels at each point."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each series, or of each point."""
        likely = self.predict_proba(X).argmax(axis=-1)
        return self.classes_[likely]

    def _proba_from(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities from what a model puts out."""
        raise NotImplementedError

    def _predicted_from(self, outputs: np.ndarray, interval: None = None) -> np.ndarray:
        if interval is not None:
            raise ValueError(f"Got interval={interval!r} for a classifier; expected None. Write `predict_proba`.")
        return self.classes_[self._proba_from(outputs).argmax(axis=-1)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of series, or of points, whose label is right."""
        predicted, source = self.predict(X), self._source(X, reset=False)  # type: ignore
        y = _given(source.targets(self, y))
        if not self.per_time_:
            return float(np.average(predicted == np.asarray(y).reshape(predicted.shape), weights=sample_weight))
        series = source.series
        if not are_at_points(y, series, expected=True):
            raise ValueError(f"Got labels of shape {np.shape(y)}; expected one at every point, as in `fit`.")
        labels, known = labels_at_points(y, series)
        weights = point_weights(sample_weight, series)
        return float(np.average((predicted == labels)[known], weights=weights[known]))

    def _check_targets(self, y: Any, series: Series, *, reset: bool) -> np.ndarray:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        per_time = are_at_points(y, series, expected=not reset and self.per_time_)
        if per_time:
            labels, known = labels_at_points(y, series)
        else:
            check_as_many(series, y)
            labels = column_or_1d(y, warn=True)
            _check_one_type(labels)
            check_classification_targets(labels)
            known = np.ones(len(labels), bool)
        if reset:
            self.per_time_ = per_time
            self.classes_ = np.unique(labels[known] if self._all_classes is None else self._all_classes)
            self.outputs_ = len(self.classes_)
            if self.outputs_ < 2:
                raise ValueError(
                    f"Got only one class, {self.classes_.tolist()[0]!r}; expected at least two classes to tell apart."
                )
        elif per_time != self.per_time_:
            raise ValueError(f"Got labels of shape {labels.shape}; expected them as in the first `fit`.")
        elif self._all_classes is not None and not np.array_equal(np.unique(self._all_classes), self.classes_):
            raise ValueError(
                f"Got classes={self._all_classes!r}; expected {self.classes_.tolist()}, as in the first call."
            )
        target = np.searchsorted(self.classes_, labels)
        unknown = self.classes_[np.minimum(target, self.outputs_ - 1)] != labels
        if unknown.any() and not per_time:
            raise ValueError(
                f"Got the label {str(labels[unknown][0])!r}; expected one of {self.classes_.tolist()}, the classes of "
                "the training set. Leave its samples out, or divide the data in another way."
            )
        return np.where(unknown | ~known, -1, target).astype(np.int32)

    def _weights(self, target: np.ndarray, training: np.ndarray) -> np.ndarray | None:
        """How much each target counts by its class; "balanced" counts those of the training set."""
        if self.class_weight is None:
            return None
        if self.per_time_:
            raise ValueError("Got class_weight with labels at each point; expected None there.")
        if isinstance(self.class_weight, dict):
            if unknown := set(self.class_weight) - set(self.classes_.tolist()):
                raise ValueError(
                    f"Got class_weight for {sorted(unknown, key=str)}; expected labels among {self.classes_.tolist()}."
                )
            for label, value in self.class_weight.items():
                check_number(f"class_weight[{label!r}]", value, high=float(np.finfo(np.float32).max))
            weights = np.array([self.class_weight.get(label, 1.0) for label in self.classes_.tolist()], np.float32)
        else:
            counts = np.bincount(training, minlength=self.outputs_)
            weights = (len(training) / (self.outputs_ * np.maximum(counts, 1))).astype(np.float32)
        return weights[target]

    def _check_parameters(self) -> SimpleNamespace:
        if not isinstance(self.class_weight, dict):
            check_choice("class_weight", self.class_weight, ["balanced", None])
        return super()._check_parameters()  # type: ignore

    def _check_learned(self, parts: SimpleNamespace, numbers: int) -> None:
        super()._check_learned(parts, numbers)  # type: ignore
        if len(self.classes_) != self.outputs_:
            raise ValueError(f"Got {len(self.classes_)} classes and {self.outputs_} outputs; expected one for each")


class NumberTargets(RegressorMixin):
    """Numbers, one or several: learns how many there are, and scores by R squared.

    For an estimator with `predict`. It learns `outputs_`, `one_dimensional_` and `per_time_`: whether there are targets
    at every point.
    """

    outputs_: int
    one_dimensional_: bool
    per_time_: bool

    def predict(self, X: Any) -> Any:
        """A number, or one for each output, of each series; or of each point of it."""
        raise NotImplementedError

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination, R squared, where targets are known; the mean over outputs."""
        predicted, source = self.predict(X), self._source(X, reset=False)  # type: ignore
        series: Series = source.series
        y = np.asarray(numbers_at_points(_given(source.targets(self, y)), series, expected=self.per_time_))
        if not self.per_time_:
            y = y.reshape(predicted.shape) if y.size == predicted.size else y
        if y.shape != predicted.shape:
            raise ValueError(
                f"Got targets of shape {y.shape}; expected {predicted.shape}, "
                f"{'one at every point' if self.per_time_ else 'one per series'}, as in `fit`."
            )
        if self.per_time_:
            real, weights = series.valid, point_weights(sample_weight, series)
        else:
            real = np.ones(len(series), bool)
            weights = real.astype(np.float64) if sample_weight is None else np.asarray(sample_weight, np.float64)
        y, predicted, weights = (array[real].reshape(real.sum(), -1) for array in (y, predicted, weights))
        scores = []
        for target, output in zip(y.T, predicted.T, strict=True):
            if (known := ~np.isnan(target)).any():
                scores.append(r2_score(target[known], output[known], sample_weight=weights[known, 0]))
        return float(np.mean(scores))

    def _check_targets(self, y: Any, series: Series, *, reset: bool) -> np.ndarray:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        y = numbers_at_points(y, series, expected=not reset and self.per_time_)
        per_time = dimensions(y) == 3
        check_as_many(series, y)
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        target = check_array(y, ensure_2d=False, allow_nd=True, input_name="y", **checks)
        if not per_time and target.size == len(target):  # of several outputs some may be unknown
            assert_all_finite(target, input_name="y")
        if not per_time and (unknown := np.isnan(target).reshape(len(target), -1).all(axis=1)).any():
            raise ValueError(
                f"Got no target for series {int(unknown.argmax())}; expected at least one known output per series. "
                "Leave series without a target out."
            )
        if per_time and target.shape[1] != series.values.shape[1]:
            raise ValueError(
                f"Got targets of shape {target.shape} for series of up to {series.values.shape[1]} points; expected "
                "(n, length, outputs), one for each point (NaN where there is none)."
            )
        if reset and target.ndim == 2 and target.shape[1] > 1 and target.shape == series.values.shape[:2]:
            warnings.warn(
                f"Got targets of shape {target.shape} for series of {target.shape[1]} points, and takes them for "
                f"{target.shape[1]} outputs of the whole series. For a target at every point, predicted from the past "
                "alone, write `y[..., None]`.",
                stacklevel=6,
            )
        if reset:
            self.per_time_, self.one_dimensional_ = per_time, target.ndim == 1
            self.outputs_ = 1 if target.ndim == 1 else target.shape[-1]
        target = target.reshape(len(target), -1) if target.ndim < 3 else target
        if per_time != self.per_time_ or target.shape[-1] != self.outputs_:
            raise ValueError(f"Got targets of shape {np.shape(y)}; expected them as in the first `fit`.")
        if per_time:
            target = np.where(series.valid[..., None], target, np.nan)
        if (largest := np.abs(target).max(where=~np.isnan(target), initial=0.0)) > np.finfo(np.float32).max:
            raise ValueError(
                f"Got targets up to {largest:.3g}; expected at most {np.finfo(np.float32).max:.3g}, because models "
                "compute in float32. Take other units, or the logarithm."
            )
        if reset:
            label_scale(target)  # before float32 would round away what they differ by
        return target.astype(np.float32)

    def _check_learned(self, parts: SimpleNamespace, numbers: int) -> None:
        super()._check_learned(parts, numbers)  # type: ignore
        if self.one_dimensional_ and (self.per_time_ or self.outputs_ != 1):
            raise ValueError(f"Got one_dimensional_=True with {self.outputs_} outputs; expected one, of whole series")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _given(y: Any) -> Any:
    if y is None:
        raise ValueError("Got no y; expected the targets to compare predictions with.")
    return y


def are_at_points(y: Any, series: Series, *, expected: bool = False) -> bool:
    """Whether there is one label per point: rows as wide as the series are long, or an array for each series.

    With `expected` rows may be wider: some of the series may be shorter than the rows that were made for all.
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
    """The points that have a target: a class from 0, or a number for at least one output.

    >>> are_known(np.array([[0, -1, 2]])).tolist(), are_known(np.array([[[1.0, np.nan], [np.nan, np.nan]]])).tolist()
    ([[True, False, True]], [[True, False]])
    """
    return np.asarray(target >= 0 if target.dtype.kind == "i" else ~np.isnan(target).all(axis=-1))


def share_at_cuts(prepared: Series, known: Bool[np.ndarray, "samples length"], windows: Windows) -> tuple[bool, float]:
    """Whether to cut at labels too, and the share of labels that then stand at a window's end and are used.

    Sparse labels are cut at, so that each counts. Where they are dense, cutting at each would make many short windows
    out of the long ones that were asked for; then only those that stand at windows' ends are used.

    >>> series, known = Series.from_array(np.zeros((1, 9))), np.zeros((1, 9), bool)
    >>> known[:, 5] = True
    >>> share_at_cuts(series, known, Windows(step=4)), share_at_cuts(series, ~known, Windows(step=4))
    ((True, 1.0), (False, 0.375))
    """
    cuts = windows.cuts(prepared)
    missed = known.copy()
    np.put_along_axis(missed, np.broadcast_to(cuts, (len(known), cuts.shape[-1])), False, axis=1)
    count = max(1, int(window_counts(prepared, cuts).sum()))
    if missed.sum() <= (_MOST_TIMES - 1) * count:
        return True, 1.0
    return False, float(1 - missed.sum() / known.sum())


def point_weights(weights: Any, series: Series) -> Float[np.ndarray, "samples length"]:
    """A weight for every point, from one per series, one per point, or none."""
    given = np.ones(len(series)) if weights is None else np.asarray(weights, np.float64)
    return np.broadcast_to(given.reshape(len(series), -1), series.valid.shape)


def _check_lengths(y: Any, series: Series) -> None:
    lengths = np.array([len(targets) for targets in y])
    if (lengths != series.lengths).any():
        wrong = int(np.argmax(lengths != series.lengths))
        raise ValueError(
            f"Got {lengths[wrong]} targets for series {wrong} of {series.lengths[wrong]} points; expected one target "
            "per point."
        )


def _is_none(labels: np.ndarray) -> np.ndarray:
    if labels.dtype == object:
        return np.array([label is None or label == "" or label != label for label in labels.flat]).reshape(labels.shape)
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    return labels == "" if labels.dtype.kind == "U" else np.zeros(labels.shape, bool)


def _check_one_type(labels: np.ndarray) -> None:
    kinds = sorted({type(label).__name__ for label in labels.tolist()}) if labels.dtype == object else []
    if len(kinds) > 1:
        raise ValueError(
            f"Got labels of the types {kinds}; expected one type, because classes are sorted. Write for example "
            "`[str(label) for label in y]`, and leave series without a label out."
        )
