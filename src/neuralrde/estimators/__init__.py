"""scikit-learn estimators: classifiers, regressors, forecasters and transformers."""

import os
from typing import Any

from .closed_form import LogSignatureClassifier, LogSignatureFeatures, LogSignatureRegressor
from .explanation import Explanation
from .forecaster import LogSignatureForecaster
from .neural import NeuralRDEClassifier, NeuralRDERegressor
from .neural_forecaster import NeuralRDEForecaster
from .saving import load_estimator

ESTIMATORS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        LogSignatureClassifier,
        LogSignatureRegressor,
        LogSignatureFeatures,
        NeuralRDEClassifier,
        NeuralRDERegressor,
        LogSignatureForecaster,
        NeuralRDEForecaster,
    )
}

__all__ = [
    "Explanation",
    "LogSignatureClassifier",
    "LogSignatureFeatures",
    "LogSignatureForecaster",
    "LogSignatureRegressor",
    "NeuralRDEClassifier",
    "NeuralRDEForecaster",
    "NeuralRDERegressor",
    "load",
]


def load(path: str | os.PathLike) -> Any:
    """The estimator that `save` wrote to a file: a classifier, a regressor, a forecaster or a transformer."""
    return load_estimator(path, ESTIMATORS)
