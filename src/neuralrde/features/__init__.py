"""Features of whole series in closed form: random windows of log-signatures, plain statistics, ridge regression."""

from .features import SeriesFeatures
from .random_windows import FeatureSizes, RandomFeatures
from .ridge import LinearModel, Ridge, ridge_of_classes, ridge_of_numbers

__all__ = [
    "FeatureSizes",
    "LinearModel",
    "RandomFeatures",
    "Ridge",
    "SeriesFeatures",
    "ridge_of_classes",
    "ridge_of_numbers",
]
