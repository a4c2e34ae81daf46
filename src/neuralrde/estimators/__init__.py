"""scikit-learn estimators: a classifier, a regressor and a transformer."""

from .classifier import NeuralRDEClassifier
from .load import load
from .regressor import NeuralRDERegressor
from .transformer import LogSignatureTransformer

__all__ = ["LogSignatureTransformer", "NeuralRDEClassifier", "NeuralRDERegressor", "load"]
