"""Classification of series, or of every point of them."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import scipy.special

from ..training import accuracy
from .neural import BaseNeuralRDE
from .parameters import check_choice, check_number
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
        class_weight: None, "balanced", or a dictionary from labels to weights.

    Attributes:
        classes_: the labels.
    """

    class_weight: dict | str | None = None

    _learned = (*BaseNeuralRDE._learned, "classes_")
    _task: ClassVar = "classification"
    _defaults: ClassVar = {**BaseNeuralRDE._defaults, "loss": "cross-entropy"}

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, `(n, classes)`, or `(n, length, classes)` for labels at each point."""
        versions, at_points = self._outputs(X)
        proba = self._proba_from(np.mean([version.outputs for version in versions], axis=0))
        return at_points(proba) if self.per_time_ else proba

    def _proba_from(self, outputs: np.ndarray) -> np.ndarray:
        return scipy.special.softmax(outputs.astype(np.float64), axis=-1)

    def _metric(self):
        return accuracy

    def _weights(self, target, training):
        if self.class_weight is None:
            return None
        if self.per_time_:
            raise ValueError("Got class_weight with labels at each point; expected None there.")
        if isinstance(self.class_weight, dict):
            unknown = set(self.class_weight) - set(self.classes_.tolist())
            if unknown:
                raise ValueError(
                    f"Got class_weight for {sorted(unknown, key=str)}; expected labels among {self.classes_.tolist()}."
                )
            for label, value in self.class_weight.items():
                check_number(f"class_weight[{label!r}]", value, high=float(np.finfo(np.float32).max), above=True)
            weights = np.array([self.class_weight.get(label, 1.0) for label in self.classes_.tolist()], np.float32)
        else:
            counts = np.bincount(training, minlength=self.outputs_)
            weights = (len(training) / (self.outputs_ * np.maximum(counts, 1))).astype(np.float32)
        return weights[target]

    def _check_parameters(self) -> SimpleNamespace:
        parts = super()._check_parameters()
        if not isinstance(self.class_weight, dict):
            check_choice("class_weight", self.class_weight, ["balanced", None])
        return parts
