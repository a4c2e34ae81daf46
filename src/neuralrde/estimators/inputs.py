"""What the estimators take: arrays, lists of arrays, or a Series."""

from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..paths import Series, concatenate


def as_series(estimator: Any, X: Any, *, reset: bool) -> Series:
    """A Series from `(n, length, channels)`, from `(n, length)` of one channel, or from a list of arrays.

    A table `(n, length)` is checked as scikit-learn checks its tables: the same columns as in `fit`. In the
    other forms the channels must be the same, and lengths may be any.

    Args:
        estimator: learns the number of columns or channels, or is asked for it.
        reset: whether to learn it.
    """
    checks: dict[str, Any] = {"dtype": (np.float64, np.float32), "ensure_all_finite": "allow-nan"}
    if isinstance(X, Series):
        series = X
    elif _is_list(X, Series):
        series = concatenate(X)  # what scikit-learn makes of a Series when it takes rows of it
    elif is_list_of_series(X):
        series = Series.from_arrays([np.asarray(sample) for sample in X])
    elif dimensions(X) > 2:
        series = Series.from_array(check_array(X, allow_nd=True, **checks))
    elif reset or estimator.flat_:
        array = validate_data(estimator, X, reset=reset, **checks)
        if reset:
            estimator.flat_, estimator.n_channels_in_ = True, 1
        return Series.from_array(array)
    else:
        series = Series.from_array(check_array(X, **checks))
    channels = series.values.shape[2]
    if reset:
        estimator.flat_, estimator.n_channels_in_, estimator.n_features_in_ = False, channels, channels
    elif channels != estimator.n_channels_in_:
        raise ValueError(
            f"Got series of {channels} channels; expected {estimator.n_channels_in_}, as in `fit`. X is (n, length, "
            "channels), (n, length) of one channel, or a list of arrays (length, channels)."
        )
    return series


def dimensions(X: Any) -> int:
    """Of an array, or of what can be made one (a sparse matrix cannot, and is refused later)."""
    try:
        return X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    except ValueError:
        raise ValueError(
            "Got nested lists of different lengths; expected arrays for series of different lengths. Write "
            "`[np.asarray(sample) for sample in X]`."
        ) from None


def is_list_of_series(X: Any) -> bool:
    """Whether X is a list of arrays. A list of lists is a table, as in scikit-learn."""
    if isinstance(X, np.ndarray):
        return X.dtype == object and X.ndim == 1 and len(X) > 0 and isinstance(X[0], np.ndarray)
    return _is_list(X, np.ndarray)


def _is_list(X: Any, kind: type) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(sample, kind) for sample in X)
