"""Classification and regression in closed form: random log-signature features and ridge regression."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import equinox as eqx
import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float

from .base import Streaming
from .conformal import conformal_score, held_out_scores
from .division import check_several_groups
from .features import ClosedForm, SeriesFeatures
from .parameters import check_number
from .ridge import Ridge
from .targets import ClassTargets, NumberTargets


class LinearModel(eqx.Module):
    """Features and a linear map of them; with classes also how far apart scores are to be taken."""

    features: SeriesFeatures
    coefficients: Float[Any, "features outputs"]
    intercept: Float[Any, "outputs"]
    sharpness: Float[Any, ""]

    def __call__(self, features: Float[np.ndarray, "samples features"]) -> Float[np.ndarray, "samples outputs"]:
        return np.asarray(features, np.float64) @ self.coefficients + self.intercept


class _RidgeOnFeatures(Streaming, ClosedForm):
    """`fit` and what follows from it; a subclass says what targets are, and how the penalty is judged."""

    outputs_: int
    model_: LinearModel

    def _weights(self, target: np.ndarray, training: np.ndarray) -> np.ndarray | None:
        """How much each sample counts, by its target."""
        return None

    def _ridge(self, samples: Any, features: np.ndarray) -> tuple[Ridge, float]:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Compute features of series X, and the ridge regression of targets y on them.

        Args:
            X: series; see the class.
            y: one target per series.
            sample_weight: how much each series counts; None counts all alike.
            groups: one per series, such as its patient. Series of a group are left out together when the penalty is
                chosen and predictions are calibrated.
        """
        self._check_parameters()
        vars(self).pop("model_", None)
        samples = self._samples(X, y, sample_weight, groups, reset=True)
        if self.per_time_:
            raise ValueError(
                f"Got a target at every point; expected one per series, because {type(self).__name__} looks at series "
                f"as a whole. Use NeuralRDE{'Classifier' if hasattr(self, 'classes_') else 'Regressor'} for that."
            )
        samples = samples.times(self._weights(samples.target, samples.target))
        check_several_groups(samples)
        features, values = self._fit_features(samples.series)
        ridge, sharpness = self._ridge(samples, values)
        arrays = (ridge.coefficients, ridge.intercept, np.asarray(sharpness))
        self.model_ = LinearModel(features, *(array.astype(np.float32) for array in arrays))
        self.penalty_ = ridge.penalty
        self._left_out = ridge.left_out
        return self

    def _outputs(self, X: Any) -> Float[np.ndarray, "samples outputs"]:
        features = self._features(X)
        return self.model_(features)

    def _blended(self, outputs: None, closed: Callable[[Any], np.ndarray]) -> np.ndarray:
        """As in a neural estimator, where nothing neural is: `closed` gives this estimator's outputs."""
        return closed(self)

    def _template(self) -> Any:
        shape = lambda *sizes: np.zeros(sizes, np.float32)
        return LinearModel(super()._template(), shape(self.features_, self.outputs_), shape(self.outputs_), shape())


@dataclass(kw_only=True, eq=False, repr=False)
class LogSignatureClassifier(ClassTargets, _RidgeOnFeatures):
    """Classifies series in closed form: random multi-scale log-signature features and a ridge classifier.

    It takes seconds, has no training loop, needs no validation set, and is the same each time. The penalty is the
    one with the smallest log loss on series that were left out, and probabilities are calibrated on the same.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`: with any times, of any lengths, and with NaN for missing values. y is one label per series.

    >>> from neuralrde.datasets import order_of_events
    >>> data = order_of_events(samples=60, length=64)
    >>> model = LogSignatureClassifier().fit(data.series, data.target)
    >>> model.score(data.series, data.target)
    1.0

    Args:
        class_weight: None, "balanced", or a dictionary from labels to weights, 0 for a class that should not count.

    Attributes:
        classes_: the labels.
        penalty_: as chosen.
    """

    class_weight: dict | str | None = None

    _learned = (*ClosedForm._learned, "classes_", "outputs_", "per_time_", "penalty_")

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, `(n, classes)`."""
        return self._proba_from(self._outputs(X))

    def _proba_from(self, outputs: np.ndarray) -> np.ndarray:
        return scipy.special.softmax(outputs * float(self.model_.sharpness), axis=1)

    def decision_function(self, X: Any) -> np.ndarray:
        """The score of each class, near 1 for the right one and near -1 for others; of two classes, the second's."""
        scores = self._outputs(X)
        return (scores[:, 1] - scores[:, 0]) / 2 if self.outputs_ == 2 else scores

    def _ridge(self, samples, features):
        targets = np.where(samples.target[:, None] == np.arange(self.outputs_), 1.0, -1.0)
        weight = np.ones(len(samples)) if samples.weight is None else samples.weight
        loss = lambda scores, rows: calibrated(scores, samples.target[rows], weight[rows])[1]
        ridge = Ridge.fit(features, targets, weight=samples.weight, groups=samples.groups, loss=loss)
        return ridge, calibrated(ridge.left_out, samples.target, samples.weight)[0]


@dataclass(kw_only=True, eq=False, repr=False)
class LogSignatureRegressor(NumberTargets, _RidgeOnFeatures):
    """Predicts numbers from series in closed form: random multi-scale log-signature features and ridge regression.

    It takes seconds, has no training loop, needs no validation set, and is the same each time. The penalty is the
    one with the smallest squared error on series that were left out. Their errors calibrate intervals, too.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`: with any times, of any lengths, and with NaN for missing values. y is `(n,)` or `(n,
    outputs)`, with NaN for outputs that are not known: each output is fitted to the series that have it.

    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(200, 65)), axis=1)
    >>> LogSignatureRegressor().fit(X[:150], X[:150].std(axis=1)).score(X[150:], X[150:].std(axis=1)) > 0.9
    True

    Attributes:
        penalty_: as chosen; the largest, if outputs are known for different series.
        scores_: how far targets that were left out were from their predictions, for each output; as many as groups.
    """

    scores_ = None
    _learned = (*ClosedForm._learned, "one_dimensional_", "outputs_", "per_time_", "penalty_", "scores_")

    def predict(self, X: Any, interval: float | None = None) -> Any:
        """A number, or one for each output, of each series.

        Args:
            X: as in `fit`.
            interval: the share of targets that an interval should hold, such as 0.9. Then the result is a pair: the
                predictions, and the intervals with their lower and upper ends on the last axis.
        """
        return self._predicted_from(self._outputs(X), interval)

    def _predicted_from(self, outputs: np.ndarray, interval: float | None = None) -> Any:
        shaped = lambda values: values[:, 0] if self.one_dimensional_ else values
        if interval is None:
            return shaped(outputs)
        check_number("interval", interval, high=1.0, above=True)
        width = conformal_score(self.scores_, interval)
        return shaped(outputs), np.stack([shaped(outputs - width), shaped(outputs + width)], axis=-1)

    def _ridge(self, samples, features):
        target = samples.target.astype(np.float64)
        weight = np.ones(len(samples)) if samples.weight is None else samples.weight
        left_out, penalty = np.empty_like(target), 0.0
        coefficients, intercept = np.empty((features.shape[1], self.outputs_)), np.empty(self.outputs_)
        # Outputs that are known for the same series share a regression and its penalty.
        patterns, pattern = np.unique(~np.isnan(target), axis=1, return_inverse=True)
        for number, known in enumerate(patterns.T):
            own = pattern == number
            wanted = np.ascontiguousarray(target[:, own])
            spread = wanted[known].std(axis=0)
            spread = np.where(spread > 0, spread, 1.0)
            ridge = Ridge.fit(features, np.nan_to_num(wanted) / spread, weight=weight * known, groups=samples.groups)
            coefficients[:, own], intercept[own] = ridge.coefficients * spread, ridge.intercept * spread
            left_out[:, own], penalty = ridge.left_out * spread, max(penalty, ridge.penalty)
        self.scores_ = held_out_scores(np.abs(target - left_out), samples.groups)
        return Ridge(coefficients, intercept, penalty, left_out), 1.0


def calibrated(
    scores: Float[np.ndarray, "samples classes"], target: np.ndarray, weight: np.ndarray | None = None
) -> tuple[float, float]:
    """By how much to multiply scores, so that a softmax makes the best probabilities of them; and their log loss.

    >>> sharpness, loss = calibrated(np.array([[1.0, -1.0], [0.8, -0.8], [-0.2, 0.2]]), np.array([0, 0, 0]))
    >>> 0.5 < sharpness < 20, bool(loss < np.log(2))
    (True, True)
    """

    def loss(logarithm: float) -> float:
        logits = scores * np.exp(logarithm)
        losses = scipy.special.logsumexp(logits, axis=1) - logits[np.arange(len(target)), target]
        return float(np.average(losses, weights=weight))

    found = scipy.optimize.minimize_scalar(loss, bounds=(-6.0, 4.0), method="bounded", options={"xatol": 1e-2})
    return float(np.exp(found.x)), float(found.fun)
