"""Calibration: whether a probability of 80 % is right in 80 % of the cases."""

import numpy as np
from jaxtyping import Bool, Float

_BINS = 10


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
