"""scikit-learn estimators: a classifier, a regressor and a transformer."""

import os
from typing import Any

from .closed_form import LogSignatureClassifier, LogSignatureFeatures, LogSignatureRegressor
from .explanation import Explanation
from .neural import NeuralRDEClassifier, NeuralRDERegressor
from .saving import load_estimator
from .transformer import LogSignatureTransformer

ESTIMATORS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        LogSignatureClassifier,
        LogSignatureRegressor,
        LogSignatureFeatures,
        NeuralRDEClassifier,
        NeuralRDERegressor,
        LogSignatureTransformer,
    )
}

__all__ = [
    "Explanation",
    "LogSignatureClassifier",
    "LogSignatureFeatures",
    "LogSignatureRegressor",
    "LogSignatureTransformer",
    "NeuralRDEClassifier",
    "NeuralRDERegressor",
    "load",
]


def load(path: str | os.PathLike) -> Any:
    """The estimator that `save` wrote to a file: a classifier, a regressor or a transformer."""
    return load_estimator(path, ESTIMATORS)
