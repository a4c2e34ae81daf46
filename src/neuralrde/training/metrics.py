"""What people ask of predictions, over a whole set at once (a mean over batches would be another number)."""

import numpy as np
from jaxtyping import Float, Shaped

from .examples import is_known


def accuracy(prediction: Float[np.ndarray, "*out classes"], target: Shaped[np.ndarray, "*out"]) -> float:
    """The share of known targets for which the largest output is that of the right class.

    >>> accuracy(np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([0, 0]))
    0.5
    """
    known = np.asarray(is_known(target))
    return float((prediction.argmax(-1) == target)[known].mean())


def rmse(prediction: Float[np.ndarray, "*out"], target: Float[np.ndarray, "*out"]) -> float:
    """The root of the mean squared error, in the unit of the labels.

    >>> rmse(np.array([[1.0], [2.0]]), np.array([[1.0], [4.0]]))
    1.4142135623730951
    """
    known = ~np.isnan(target)
    return float(np.sqrt(((prediction - target)[known] ** 2).mean(dtype=np.float64)))
