"""Regression on series, or at every point of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..training import rmse
from .conformal import conformal_score, held_out_scores
from .division import Samples
from .neural import BaseNeuralRDE
from .parameters import check_number
from .sources import VersionOutputs
from .targets import NumberTargets, are_known


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRDERegressor(NumberTargets, BaseNeuralRDE):
    """Predicts numbers from time series by a neural RDE, with scikit-learn's interface.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`; NaN is a missing value. y is `(n,)` or `(n, outputs)`, with NaN for outputs that are not
    known. With targets `(n, length, outputs)`, for each point, it predicts for each point, from the past only.
    Windows then end at points with a target as well, so that all are trained on; where targets are too dense for that,
    those at the windows' ends are, and a warning says their share.

    The loss is "squared-error", "huber", "quantiles" or "histogram". `predict(X, interval=0.9)` gives intervals that
    held-out series have calibrated; with quantiles or a histogram they are wide where the model is unsure, with the
    others equally wide everywhere.

    >>> from neuralrde import Config, NeuralRDE
    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(60, 65)), axis=1)
    >>> model = NeuralRDERegressor(windows=8, model=Config(NeuralRDE, state=8, width=16), epochs=40, random_state=0)
    >>> model.fit(X, X[:, -1]).score(X, X[:, -1]) > 0.8
    True

    Args:

    Attributes:
        scores_: how far held-out targets were from predictions, for each output; None before anything calibrated it.
    """

    scores_ = None
    _learned = (*BaseNeuralRDE._learned, "one_dimensional_", "scores_")
    _task: ClassVar = "regression"
    _defaults: ClassVar = {**BaseNeuralRDE._defaults, "loss": "squared-error"}

    def predict(self, X: Any, interval: float | None = None) -> Any:
        """A number, or one for each output, of each series; or of each point of it.

        Args:
            X: as in `fit`.
            interval: the share of targets that an interval should hold, such as 0.9. Then the result is a pair: the
                predictions, and the intervals with their lower and upper ends on the last axis.
        """
        versions, at_points = self._outputs(X)
        return self._predicted_from_versions(versions, interval, at_points if self.per_time_ else None)

    def _predicted_from(self, outputs: np.ndarray, interval: float | None = None) -> Any:
        """Predictions from outputs for whole series."""
        return self._predicted_from_versions([VersionOutputs(outputs)], interval)

    def _predicted_from_versions(
        self, versions: Sequence[VersionOutputs], interval: float | None = None, at_points: Callable | None = None
    ) -> Any:
        """Predictions from the outputs of all versions, for whole series or for each point of them."""
        versions = [VersionOutputs(outputs.astype(np.float64), factor) for outputs, factor in versions]
        shaped = at_points or (lambda values: values[:, 0] if self.one_dimensional_ else values)
        predicted = shaped(median_of(versions, self.loss_.predict))
        if interval is None:
            return predicted
        check_number("interval", interval, high=1.0, above=True)
        score = conformal_score(self.scores_, interval)
        ends = median_of(versions, lambda outputs: np.stack(self.loss_.interval(outputs, score)))
        return predicted, np.stack([shaped(end) for end in ends], axis=-1)

    def calibrate(self, X: Any, y: Any, *, groups: Any = None) -> "NeuralRDERegressor":
        """Learn from series that were not trained on how wide intervals must be. Returns the estimator.

        `fit` does so with its validation set, if it has one. Series must be drawn as those to come: where they come
        from patients or machines, take others of them here, and say in `groups` which series belong to which.
        """
        self._check_fitted()
        self._calibrate(self._samples(X, y, groups=groups, reset=False))
        return self

    def _calibrate(self, held_out: Samples | None) -> None:
        if held_out is None:
            self.scores_ = None
            return
        versions, at_points = held_out.source.outputs(self)
        target = held_out.target
        if self.per_time_:
            # Points of one series are alike, and an interval is promised for a point of a new series. So one point of
            # each series, drawn at random, counts.
            outputs = at_points(versions[0].outputs)
            known, rng = are_known(target), np.random.default_rng(0)
            points = np.array([rng.choice(np.flatnonzero(row)) for row in known])
            outputs, target = (array[np.arange(len(array)), points] for array in (outputs, target))
            versions = [VersionOutputs(outputs)]  # targets at points have no augmentation
        self._calibrate_with(versions, target, held_out.groups)

    def _calibrate_with(
        self, versions: Sequence[VersionOutputs], target: np.ndarray, groups: np.ndarray | None = None
    ) -> None:
        versions = [VersionOutputs(outputs.astype(np.float64), factor) for outputs, factor in versions]
        self.scores_ = held_out_scores(median_scores(versions, target.astype(np.float64), self.loss_), groups)

    def _metric(self):
        return _RMSE(self.loss_)


def median_of(versions: Sequence[VersionOutputs], predict: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The median of the versions' predictions, in the targets' own units.

    >>> versions = [VersionOutputs(np.array([60.0 * factor]), factor) for factor in (1.0, 2.0, 0.5)]
    >>> median_of(versions, np.asarray)
    array([60.])
    """
    return np.median([predict(version.outputs) / version.factor for version in versions], axis=0)


def median_scores(versions: Sequence[VersionOutputs], target: np.ndarray, loss: Any) -> np.ndarray:
    """The scores of targets with which the medians of all versions' intervals just hold them.

    The lower end of the median interval is below a target where the ends of most versions are. So the median score of
    the versions that lie above the target decides, those below counting as 0; the same holds for the upper end.
    """
    low, high = [], []
    for outputs, factor in versions:
        scores, scaled = loss.scores(outputs, target * factor), target * factor
        below = scaled < loss.predict(outputs)
        low.append(np.where(below, scores, 0.0))
        high.append(np.where(below, 0.0, scores))
    return np.maximum(np.median(low, axis=0), np.median(high, axis=0))


class _RMSE:
    """The root mean squared error of the predictions that a model's outputs stand for."""

    __name__ = "rmse"

    def __init__(self, loss: Any):
        self.loss = loss

    def __call__(self, outputs: np.ndarray, target: np.ndarray) -> float:
        return rmse(self.loss.predict(outputs), target)
