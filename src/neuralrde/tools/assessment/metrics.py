"""Predictions beside what is true, the metrics that people report of them, and the metrics' intervals."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from ..._write import Values

_BINS = 10  # of the calibration error
_RARE = 0.2  # A class with a smaller share is rare, and accuracy says little of it.
_Z = 1.959963984540054  # the 97.5 % quantile of the normal distribution
_REPLICATES = 2000  # of a bootstrap
_DRAWN = 4_000_000  # units that a bootstrap draws at once, for memory


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


def measures(found: Predictions) -> Values:
    """Accuracy and its kin, or errors in the unit of the target.

    >>> found = Predictions(np.array([[1.0], [2.0]]), np.array([[1.0], [4.0]]), np.arange(2))
    >>> {name: round(value, 3) for name, value in measures(found).items()}
    {'samples': 2, 'rmse': 1.414, 'mae': 1.0, 'r2': -7.0}
    """
    from sklearn import metrics

    result: Values = {"samples": len(found.true)}
    if found.is_classes:
        true, predicted = found.true.astype(str), found.predicted.astype(str)
        result["accuracy"] = float((true == predicted).mean())
        result["balanced_accuracy"] = float(
            np.mean([(predicted[true == one] == one).mean() for one in np.unique(true)])
        )
        result["macro_f1"] = float(metrics.f1_score(true, predicted, average="macro", zero_division=0.0))  # type: ignore
        if found.probability is not None:
            column = {name: k for k, name in enumerate(found.classes or ())}
            # A class that the model has never seen has probability 0; the loss of that is large, and finite.
            rows = zip(found.probability, true, strict=True)
            likely = [row[column[name]] if name in column else 0.0 for row, name in rows]
            result["log_loss"] = float(-np.log(np.maximum(likely, 1e-12)).mean()) + 0.0  # no minus before a zero
            result |= rare_measures(found)
        return result
    true, predicted = (np.asarray(array, float).reshape(len(found.true), -1) for array in (found.true, found.predicted))
    result["rmse"] = float(np.sqrt(((predicted - true) ** 2).mean()))
    result["mae"] = float(np.abs(predicted - true).mean())
    result["r2"] = float(metrics.r2_score(true, predicted)) if len(true) > 1 else float("nan")
    return result


def rare_class(found: Predictions) -> tuple[str, np.ndarray, np.ndarray] | None:
    """Of two classes, the rarer one if its share is below a fifth: its name, where it is true, and its probability."""
    if not found.is_classes or found.probability is None or found.classes is None or len(found.classes) != 2:
        return None
    there = [found.true.astype(str) == name for name in found.classes]
    rarer = int(np.argmin([one.sum() for one in there]))
    if not 0 < there[rarer].sum() < _RARE * len(found.true):
        return None
    return found.classes[rarer], there[rarer], found.probability[:, rarer]


def rare_measures(found: Predictions) -> dict[str, float]:
    """What tells of a rare class more than accuracy does: AUROC, average precision, Brier score, sensitivity.

    >>> true, sure = np.array(["no"] * 9 + ["yes"]), np.r_[np.full(8, 0.1), 0.6, 0.8]
    >>> said = np.where(sure > 0.7, "yes", "no")
    >>> found = Predictions(true, said, np.arange(10), probability=np.c_[1 - sure, sure], classes=("no", "yes"))
    >>> {name: round(value, 3) for name, value in rare_measures(found).items()}
    {'auroc': 1.0, 'average_precision': 1.0, 'brier': 0.048, 'sensitivity': 1.0}
    """
    from sklearn import metrics

    if (rare := rare_class(found)) is None:
        return {}
    name, true, sure = rare
    return {
        "auroc": float(metrics.roc_auc_score(true, sure)),
        "average_precision": float(metrics.average_precision_score(true, sure)),
        "brier": float(np.mean((sure - true) ** 2)),
        "sensitivity": float((found.predicted.astype(str)[true] == name).mean()),
    }


def title_of(metric: str) -> str:
    """What people call a metric.

    >>> title_of("rmse"), title_of("macro_f1"), title_of("balanced_accuracy")
    ('RMSE', 'macro F1', 'balanced accuracy')
    """
    names = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "macro_f1": "macro F1", "auroc": "AUROC", "brier": "Brier score"}
    return names.get(metric, metric.replace("_", " "))


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


def wilson(right: float, total: float) -> tuple[float, float]:
    """Wilson's score interval of a share, of 95 % confidence as all intervals here.

    It is right even for few samples and for shares near 0 or 1.

    >>> low, high = wilson(37, 41)
    >>> round(low, 2), round(high, 2)
    (0.77, 0.96)
    """
    if total <= 0:
        raise ValueError(f"Got {total} samples; expected at least one, because a share of none is no share.")
    share, z2 = right / total, _Z**2 / total
    middle = (share + z2 / 2) / (1 + z2)
    half = _Z * np.sqrt(share * (1 - share) / total + z2 / (4 * total)) / (1 + z2)
    # At 0 and 1 an edge is the share itself, but for rounding.
    return min(share, max(0.0, float(middle - half))), max(share, min(1.0, float(middle + half)))


def accuracy_interval(right: Bool[np.ndarray, "n"], units: Int[np.ndarray, "n"]) -> tuple[float, float] | None:
    """Wilson's interval of an accuracy, for as many samples as are independent.

    Several predictions for one patient, or one for each point of a series, are worth fewer independent ones. How many
    fewer follows from how much the units' own accuracies differ (the design effect of a cluster sample); where they
    do not differ at all, a unit counts once.

    >>> right = np.array([True, True, True, False] * 10)
    >>> low, high = accuracy_interval(right, np.arange(40))
    >>> round(low, 2), round(high, 2)
    (0.6, 0.86)

    Args:
        right: whether each prediction is right.
        units: the number of the series, or of the group, that each belongs to.

    Returns:
        The ends, or None for a single unit of several predictions, which says nothing about others.
    """
    numbers, unit = np.unique(units, return_inverse=True)
    total, share = len(right), float(np.mean(right))
    if len(numbers) == total:
        return wilson(share * total, total)
    if len(numbers) == 1:
        return None
    hits, sizes = np.bincount(unit, right), np.bincount(unit)
    between = len(numbers) / (len(numbers) - 1) * float(((hits - share * sizes) ** 2).sum()) / total**2
    alone = share * (1 - share) / total
    independent = min(total, total * alone / between) if between > 0 else len(numbers)
    return wilson(share * independent, independent)


def bootstrap_interval(
    errors: Float[np.ndarray, "n"],
    units: Int[np.ndarray, "n"],
    *,
    of: Callable[[np.ndarray], np.ndarray] = np.sqrt,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The interval of a function of a mean error, by resampling units (series, groups).

    >>> errors = np.random.default_rng(0).normal(size=400) ** 2
    >>> low, high = bootstrap_interval(errors, np.arange(400))
    >>> bool(low < np.sqrt(errors.mean()) < high)
    True

    Args:
        errors: squared ones for the RMSE, absolute ones for the MAE.
        units: the number of the series, or of the group, that each belongs to.
        of: what to take of the mean: `np.sqrt` for the RMSE, `np.asarray` for the MAE.
        seed: of the draws.

    Returns:
        The ends, or None for a single unit, which says nothing about others.
    """
    from scipy.stats import bootstrap

    numbers, unit = np.unique(units, return_inverse=True)
    if len(numbers) < 2:
        return None
    low, high = bootstrap(
        (np.bincount(unit, errors), np.bincount(unit)),
        lambda sums, sizes, axis: of(sums.sum(axis) / sizes.sum(axis)),
        paired=True,
        n_resamples=_REPLICATES,
        batch=max(1, _DRAWN // len(numbers)),
        method="percentile",
        random_state=np.random.default_rng(seed),  # type: ignore  # called rng from SciPy 1.15 on
    ).confidence_interval
    return float(low), float(high)
