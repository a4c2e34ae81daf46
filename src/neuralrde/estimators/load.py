"""Load a saved estimator, whichever it is."""

import os
from typing import Any

from .classifier import NeuralRDEClassifier
from .file import load_any
from .regressor import NeuralRDERegressor
from .transformer import LogSignatureTransformer

ESTIMATORS: dict[str, Any] = {
    cls.__name__: cls for cls in (NeuralRDEClassifier, NeuralRDERegressor, LogSignatureTransformer)
}


def load(path: str | os.PathLike) -> Any:
    """The estimator that `save` wrote to a file: a classifier, a regressor or a transformer."""
    return load_any(path, ESTIMATORS)
