"""Targets: labels or numbers, of whole series or at every point of them.

Targets at every point are one array, as long as the longest series, or an array for each series.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score, roc_curve
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from .._types import OnePerSeries, Options, Plain, SeriesLike, TableLike, TargetLike
from ..errors import ParameterError, warn
from ..paths import Series, Windows, window_counts
from ..paths.checks import check_number, check_whole
from ..training import label_scale
from .inputs import check_as_many, dimensions, is_list_of_series
from .parameters import Learned

# Cutting at labels too may multiply the windows, and with them the work, by this factor at most.
_MOST_TIMES = 2


@dataclass(frozen=True, eq=False)
class TargetCoding:
    """How targets become numbers: labels by their place among the classes, numbers as they are."""

    outputs: int
    """Numbers to predict for a series, or classes to tell apart."""
    per_time: bool = False
    """Whether there is a target at every point."""
    classes: np.ndarray | None = None
    """The labels in order; None for regression."""
    one_dimensional: bool = False
    """Whether y was `(n,)`, and predictions are too."""

    def __post_init__(self):
        check_whole("outputs", self.outputs, high=2**31)
        if self.classes is not None:
            if len(self.classes) < 2 or not np.array_equal(np.unique(self.classes), self.classes):
                raise ValueError(f"Got classes={self.classes!r}; expected at least two different labels, in order.")
            if len(self.classes) != self.outputs:
                raise ValueError(f"Got {len(self.classes)} classes and {self.outputs} outputs; expected one for each")
        if self.one_dimensional and (self.per_time or self.outputs != 1 or self.classes is not None):
            raise ValueError(f"Got one_dimensional=True with {self.outputs} outputs; expected one, of whole series")

    @property
    def task(self) -> str:
        return "regression" if self.classes is None else "classification"


class ClassTargets(ClassifierMixin):
    """Labels: `predict`, `predict_proba` and the share of right labels, for an estimator with `class_weight`."""

    classes_ = Learned[np.ndarray]("targets.classes")
    class_weight: dict | str | None
    threshold: dict | str | None
    threshold_ = Learned[float | None]("threshold")
    _task = "classification"

    def predict_proba(self, X: SeriesLike, *, static: TableLike = None) -> np.ndarray:
        """The probability of each class, `(n, classes)`, or `(n, length, classes)` for labels at each point."""
        outputs = self._outputs(X, static)  # type: ignore
        return self.fitted_.probabilities(outputs)  # type: ignore

    def predict(self, X: SeriesLike, *, static: TableLike = None) -> np.ndarray:
        """The label of each series, or of each point: the most likely one, or as `threshold_` says."""
        probabilities = self.predict_proba(X, static=static)
        return self.fitted_.labels(probabilities)  # type: ignore

    def score(
        self, X: SeriesLike, y: TargetLike = None, sample_weight: OnePerSeries = None, *, static: TableLike = None
    ) -> float:
        """The share of series, or of points, whose label is right."""
        predicted = self.predict(X, static=static)
        source, y = self._source_and_targets(X, y, static)  # type: ignore
        if not self.fitted_.targets.per_time:  # type: ignore
            return float(np.average(predicted == np.asarray(y).reshape(predicted.shape), weights=sample_weight))
        series = source.series
        if not are_at_points(y, series, expected=True):
            raise ValueError(f"Got labels of shape {np.shape(y)}; expected one at every point, as in `fit`.")
        labels, known = labels_at_points(y, series)
        weights = point_weights(sample_weight, series)
        return float(np.average((predicted == labels)[known], weights=weights[known]))

    def _code_targets(
        self, y: TargetLike, series: Series, coding: TargetCoding | None, classes: TargetLike = None
    ) -> tuple[np.ndarray, TargetCoding]:
        """Labels as numbers from 0, -1 where none is known, by the coding of an earlier `fit` or a new one.

        Args:
            y: labels of the series, or of their points.
            series: the series that they belong to.
            coding: of an earlier `fit`.
            classes: all labels, if y may lack some of them.
        """
        per_time = are_at_points(y, series, expected=coding is not None and coding.per_time)
        if per_time:
            labels, known = labels_at_points(y, series)
        else:
            check_as_many(series, y)
            labels = column_or_1d(y, warn=True)
            _check_one_type(labels)
            check_classification_targets(labels)
            known = np.ones(len(labels), bool)
        if coding is None:
            labels_in_order = np.unique(labels[known] if classes is None else classes)
            if len(labels_in_order) < 2:
                raise ValueError(
                    f"Got only one class, {labels_in_order.tolist()[0]!r}; expected at least two classes to tell apart."
                )
            coding = TargetCoding(len(labels_in_order), per_time, labels_in_order)
        assert coding.classes is not None
        if per_time != coding.per_time:
            raise ValueError(f"Got labels of shape {labels.shape}; expected them as in the first `fit`.")
        if classes is not None and not np.array_equal(np.unique(classes), coding.classes):
            raise ValueError(f"Got classes={classes!r}; expected {coding.classes.tolist()}, as in the first call.")
        target = np.searchsorted(coding.classes, labels)
        unknown = (coding.classes[np.minimum(target, coding.outputs - 1)] != labels) & known
        if unknown.any():
            raise ValueError(
                f"Got the label {str(labels[unknown][0])!r}; expected one of {coding.classes.tolist()}, the classes of "
                "the training set. Leave its samples out, or divide the data in another way."
            )
        return np.where(known, target, -1).astype(np.int32), coding

    def _check_parameters(self) -> Self:
        if not isinstance(self.class_weight, dict) and self.class_weight not in ("balanced", None):
            raise ParameterError("class_weight", self.class_weight, 'None, "balanced" or a dictionary of weights')
        check_threshold(self.threshold)
        return super()._check_parameters()  # type: ignore


def class_weights(
    class_weight: dict | str | None, coding: TargetCoding, target: np.ndarray, training: np.ndarray
) -> np.ndarray | None:
    """How much each target counts by its class; "balanced" counts the classes of the training set."""
    if class_weight is None:
        return None
    if coding.per_time:
        raise ValueError("Got class_weight with labels at each point; expected None there.")
    assert coding.classes is not None
    labels = coding.classes.tolist()
    if isinstance(class_weight, dict):
        if unknown := set(class_weight) - set(labels):
            raise ValueError(f"Got class_weight for {sorted(unknown, key=str)}; expected labels among {labels}.")
        for label, value in class_weight.items():
            check_number(f"class_weight[{label!r}]", value, high=float(np.finfo(np.float32).max))
        weights = np.array([class_weight.get(label, 1.0) for label in labels], np.float32)
    else:
        counts = np.bincount(training, minlength=coding.outputs)
        weights = (len(training) / (coding.outputs * np.maximum(counts, 1))).astype(np.float32)
    return weights[target]


_GOALS, _SHARES = ("f1", "balanced_accuracy"), ("sensitivity", "specificity")


def check_threshold(goal: Plain) -> None:
    """Raise unless `chosen_threshold` knows this goal."""
    good = goal is None or (isinstance(goal, str) and goal in _GOALS)
    if isinstance(goal, dict) and len(goal) == 1 and next(iter(goal)) in _SHARES:
        check_number("threshold", next(iter(goal.values())), high=1.0, above=True)
        good = True
    if not good:
        raise ParameterError("threshold", goal, 'None, "f1", "balanced_accuracy" or such as {"sensitivity": 0.9}')


def check_threshold_suits(goal: Plain, coding: TargetCoding) -> None:
    """Raise if a threshold is asked for where there is no single one."""
    if goal is None or (coding.outputs == 2 and not coding.per_time):
        return
    got = "labels at each point" if coding.per_time else f"{coding.outputs} classes"
    raise ValueError(
        f"Got threshold={goal!r} with {got}; expected two classes, one per series, because a threshold is the "
        "probability from which on the second one is predicted. Leave `threshold` out, or join classes into two."
    )


def chosen_threshold(
    goal: dict | str | None,
    probability: Float[np.ndarray, "samples"] | None,
    target: Int[np.ndarray, "samples"],
) -> float | None:
    """The probability of the second class from which on to predict it, so that left-out series reach a goal.

    It lies between two of the probabilities. None stands for no goal, and for the more likely class.

    >>> probability, target = np.array([0.125, 0.25, 0.5, 0.75]), np.array([0, 0, 1, 1])
    >>> chosen_threshold("f1", probability, target), chosen_threshold({"specificity": 0.5}, probability, target)
    (0.375, 0.1875)

    Args:
        goal: "f1" or "balanced_accuracy", to be as high as possible; {"sensitivity": 0.9}, to be at least so high,
            with the highest specificity, or the other way round.
        probability: of the second class, predicted without the series itself; None if no series were left out.
        target: 0 or 1.
    """
    if goal is None:
        return None
    if probability is None or len(np.unique(target)) < 2:
        raise ValueError(
            f"Got threshold={goal!r}, and too few series to leave some of both classes out; expected some, to choose "
            "it by. Leave `threshold` out, or give `validation=(X, y)`."
        )
    false, true, places = roc_curve(target, probability, drop_intermediate=False)
    if isinstance(goal, dict):
        (name, share), enough = next(iter(goal.items())), 1e-9
        found = int(np.argmax(true >= share - enough))  # the first that is sensitive enough, and the last specific one
        found = found if name == "sensitivity" else int(np.flatnonzero(1 - false >= share - enough)[-1])
    elif goal == "f1":
        positive, negative = (target == 1).sum(), (target == 0).sum()
        found = int(np.argmax(2 * true * positive / (positive + true * positive + false * negative)))
    else:
        found = int(np.argmax(true - false))
    ends = np.clip([*places, 0.0], 0.0, 1.0)
    return float(ends[found] + ends[found + 1]) / 2


class NumberTargets(RegressorMixin):
    """Numbers, one or several, for series or for their points: `predict`, intervals, and R squared."""

    _task = "regression"
    class_weight: ClassVar[None] = None
    threshold: ClassVar[None] = None

    def predict(self, X: SeriesLike, interval: float | None = None, *, static: TableLike = None) -> Any:
        """A number, or one for each output, of each series; or of each point of it.

        Args:
            X: as in `fit`.
            interval: the share of targets that an interval should hold, such as 0.9. Then the result is a pair: the
                predictions, and the intervals with their lower and upper ends on the last axis.
            static: the table beside X, if `fit` had one.
        """
        outputs = self._outputs(X, static)  # type: ignore
        return self.fitted_.predictions(outputs, interval)  # type: ignore

    def score(
        self, X: SeriesLike, y: TargetLike = None, sample_weight: OnePerSeries = None, *, static: TableLike = None
    ) -> float:
        """The coefficient of determination, R squared, where targets are known; the mean over outputs."""
        predicted = self.predict(X, static=static)
        source, y = self._source_and_targets(X, y, static)  # type: ignore
        series, per_time = source.series, self.fitted_.targets.per_time  # type: ignore
        y = np.asarray(numbers_at_points(y, series, expected=per_time))
        if not per_time:
            y = y.reshape(predicted.shape) if y.size == predicted.size else y
        if y.shape != predicted.shape:
            raise ValueError(
                f"Got targets of shape {y.shape}; expected {predicted.shape}, "
                f"{'one at every point' if per_time else 'one per series'}, as in `fit`."
            )
        if per_time:
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

    def _code_targets(
        self, y: TargetLike, series: Series, coding: TargetCoding | None, classes: None = None
    ) -> tuple[np.ndarray, TargetCoding]:
        """Targets in float32, NaN where none is known, by the coding of an earlier `fit` or a new one."""
        y = numbers_at_points(y, series, expected=coding is not None and coding.per_time)
        per_time = dimensions(y) == 3
        check_as_many(series, y)
        checks: Options = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
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
        first = coding is None
        if first and target.ndim == 2 and target.shape[1] > 1 and target.shape == series.values.shape[:2]:
            warn(
                f"Got targets of shape {target.shape} for series of {target.shape[1]} points, and takes them for "
                f"{target.shape[1]} outputs of the whole series. For a target at every point, predicted from the past "
                "alone, write `y[..., None]`.",
            )
        one_dimensional = target.ndim == 1
        target = target.reshape(len(target), -1) if target.ndim < 3 else target
        if coding is None:
            coding = TargetCoding(target.shape[-1], per_time, one_dimensional=one_dimensional)
        if per_time != coding.per_time or target.shape[-1] != coding.outputs:
            raise ValueError(f"Got targets of shape {np.shape(y)}; expected them as in the first `fit`.")
        if per_time:
            target = np.where(series.valid[..., None], target, np.nan)
        if (largest := np.abs(target).max(where=~np.isnan(target), initial=0.0)) > np.finfo(np.float32).max:
            raise ValueError(
                f"Got targets up to {largest:.3g}; expected at most {np.finfo(np.float32).max:.3g}, because models "
                "compute in float32. Take other units, or the logarithm."
            )
        if first:
            label_scale(target)  # before float32 would round away what they differ by
        return target.astype(np.float32), coding

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def are_at_points(y: TargetLike, series: Series, *, expected: bool = False) -> bool:
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
    y: TargetLike, series: Series
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


def numbers_at_points(y: TargetLike, series: Series, *, expected: bool = False) -> Any:
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


def share_at_cuts(prepared: Series, known: Bool[np.ndarray, "samples length"], windows: Windows) -> float:
    """The share of labels that stand at a window's end and are used; 1 if windows are to end at labels too.

    Sparse labels are cut at, so that each counts. Where they are dense, cutting at each would make many short windows
    out of the long ones that were asked for; then only those that stand at windows' ends are used.

    >>> series, known = Series.from_array(np.zeros((1, 9))), np.zeros((1, 9), bool)
    >>> known[:, 5] = True
    >>> share_at_cuts(series, known, Windows(step=4)), share_at_cuts(series, ~known, Windows(step=4))
    (1.0, 0.375)
    """
    cuts = windows.cuts(prepared)
    missed = known.copy()
    np.put_along_axis(missed, np.broadcast_to(cuts, (len(known), cuts.shape[-1])), False, axis=1)
    count = max(1, int(window_counts(prepared, cuts).sum()))
    if missed.sum() <= (_MOST_TIMES - 1) * count:
        return 1.0
    return float(1 - missed.sum() / known.sum())


def point_weights(weights: OnePerSeries, series: Series) -> Float[np.ndarray, "samples length"]:
    """A weight for every point, from one per series, one per point, or none."""
    given = np.ones(len(series)) if weights is None else np.asarray(weights, np.float64)
    return np.broadcast_to(given.reshape(len(series), -1), series.valid.shape)


def _check_lengths(y: TargetLike, series: Series) -> None:
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
