"""Predictions beside what is true, and the metrics that people report of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

_BINS = 10


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions and what is true, one row per series, or one per point whose target is known.

    Args:
        true: names of classes `(rows,)`, or numbers `(rows, outputs)`.
        predicted: in the same form.
        units: the number of the series, or of the group (patient, speaker), that each row belongs to. Rows of one
            unit are not independent.
        unit: what a unit is called: "series", or "group".
        probability: of each class.
        classes: their names, in the order of `probability`.
    """

    true: Shaped[np.ndarray, "rows ..."]
    predicted: Shaped[np.ndarray, "rows ..."]
    units: Int[np.ndarray, "rows"]
    unit: str = "series"
    probability: Float[np.ndarray, "rows classes"] | None = None
    classes: tuple[str, ...] | None = None

    @property
    def is_classes(self) -> bool:
        """Whether these are classes, and not numbers."""
        return self.true.dtype.kind not in "fc"


def measures(found: Predictions) -> dict[str, Any]:
    """Accuracy and its kin, or errors in the unit of the target.

    >>> found = Predictions(np.array([[1.0], [2.0]]), np.array([[1.0], [4.0]]), np.arange(2))
    >>> {name: round(value, 3) for name, value in measures(found).items()}
    {'samples': 2, 'rmse': 1.414, 'mae': 1.0, 'r2': -7.0}
    """
    from sklearn import metrics

    result: dict[str, Any] = {"samples": len(found.true)}
    if found.is_classes:
        true, predicted = found.true.astype(str), found.predicted.astype(str)
        result["accuracy"] = float((true == predicted).mean())
        result["balanced_accuracy"] = float(
            np.mean([(predicted[true == name] == name).mean() for name in np.unique(true)])
        )
        result["macro_f1"] = float(metrics.f1_score(true, predicted, average="macro", zero_division=0.0))  # type: ignore
        if found.probability is not None:
            result["log_loss"] = _log_loss(found.probability, true, found.classes or ())
        return result
    true, predicted = (np.asarray(array, float).reshape(len(found.true), -1) for array in (found.true, found.predicted))
    result["rmse"] = float(np.sqrt(((predicted - true) ** 2).mean()))
    result["mae"] = float(np.abs(predicted - true).mean())
    result["r2"] = float(metrics.r2_score(true, predicted)) if len(true) > 1 else float("nan")
    return result


def title_of(metric: str) -> str:
    """What people call a metric.

    >>> title_of("rmse"), title_of("macro_f1"), title_of("balanced_accuracy")
    ('RMSE', 'macro F1', 'balanced accuracy')
    """
    return {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "macro_f1": "macro F1"}.get(metric, metric.replace("_", " "))


def _log_loss(probability: np.ndarray, true: np.ndarray, classes: tuple[str, ...]) -> float:
    column = {name: k for k, name in enumerate(classes)}
    # A class that the model has never seen has probability 0; the loss of that is large, and finite.
    likely = [row[column[name]] if name in column else 0.0 for row, name in zip(probability, true, strict=True)]
    return float(-np.log(np.maximum(likely, 1e-12)).mean()) + 0.0  # no minus before a zero


def calibration_error(probability: Float[np.ndarray, "n classes"], right: Bool[np.ndarray, "n"]) -> float:
    """The expected calibration error: the mean gap between how sure the predictions are and how often they are right.

    Predictions are binned by the probability of the predicted class, ten bins of one width (Guo et al. 2017, On
    calibration of modern neural networks). With few samples it is above 0 for a perfect model too.

    >>> calibration_error(np.array([[0.8, 0.2]] * 10), np.array([True] * 6 + [False] * 4))
    0.2
    """
    sure = probability.max(axis=1)
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, sure - right, minlength=_BINS)
    return round(float(np.abs(gaps).sum() / len(right)), 12)
