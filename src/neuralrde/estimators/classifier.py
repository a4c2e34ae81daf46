"""Classification of series, or of every point of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.special

from ..training import Listener, accuracy
from .neural import BaseNeuralRDE
from .targets import ClassTargets


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRDEClassifier(ClassTargets, BaseNeuralRDE):
    """Classifies time series by a neural RDE, with scikit-learn's interface.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`; NaN is a missing value. y is one label per series. With labels `(n, length)`, or an array for
    each series, one label per point (NaN, None or "" where there is none), it predicts one for each point, from the
    past only. Windows then end at labels as well, so that all are trained on; where labels are too dense for
    that, those at the windows' ends are, and a warning says their share.

    >>> from neuralrde import Config, NeuralRDE
    >>> from neuralrde.datasets import order_of_events
    >>> data = order_of_events(samples=60, length=64)
    >>> model = NeuralRDEClassifier(windows=8, model=Config(NeuralRDE, state=8, width=16), epochs=20, random_state=0)
    >>> model.fit(data.series.values, data.target).score(data.series.values, data.target) > 0.9
    True

    Args:
        class_weight: None, "balanced", or a dictionary from labels to weights, 0 for a class that should not count.

    Attributes:
        classes_: the labels.
    """

    class_weight: dict | str | None = None

    _learned = (*BaseNeuralRDE._learned, "classes_")
    _task: ClassVar = "classification"
    _defaults: ClassVar = {**BaseNeuralRDE._defaults, "loss": "cross-entropy"}

    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        classes: Any = None,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """Continue training with one pass over these series, at a constant learning rate, without weight decay.

        The first call learns the transform's statistics and the windows: let it see series of every kind, or call `fit`
        first. It learns the classes too, unless `classes` lists all of them. Nothing is held out.
        """
        try:
            self._all_classes = classes
            return super().partial_fit(X, y, sample_weight, listeners=listeners)
        finally:
            del self._all_classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, `(n, classes)`, or `(n, length, classes)` for labels at each point."""
        versions, at_points = self._outputs(X)
        proba = self._proba_from(np.mean([version.outputs for version in versions], axis=0))
        return at_points(proba) if self.per_time_ else proba

    def _proba_from(self, outputs: np.ndarray) -> np.ndarray:
        return scipy.special.softmax(outputs.astype(np.float64), axis=-1)

    def _metric(self):
        return accuracy
