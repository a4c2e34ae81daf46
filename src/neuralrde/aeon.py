"""Estimators that follow aeon's conventions: `pip install aeon`, and they go wherever its own do.

Collections are `(n, channels, length)`, or a list of `(channels, length)` for series of different lengths, with NaN for
missing values. Work beyond fitting, saving and streaming is done by the estimator inside, `estimator_`.
"""

import numpy as np
from aeon.classification.base import BaseClassifier  # type: ignore
from aeon.regression.base import BaseRegressor  # type: ignore
from aeon.transformations.collection.base import BaseCollectionTransformer  # type: ignore

from ._inside import Inside
from .estimators import LogSignatureClassifier as _Classifier
from .estimators import LogSignatureFeatures as _Features
from .estimators import LogSignatureRegressor as _Regressor

__all__ = ["LogSignatureClassifier", "LogSignatureRegressor", "LogSignatureTransformer"]
_TAGS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "capability:multithreading": True,
}


class _Inside(Inside):
    def _ours(self, X):
        return X.transpose(0, 2, 1) if isinstance(X, np.ndarray) else [one.T for one in X]


class LogSignatureClassifier(_Inside, BaseClassifier):
    """Random multi-scale log-signature features and a ridge classifier; see `neuralrde.LogSignatureClassifier`.

    Args:
        estimator: another classifier of neuralrde, such as `NeuralRDEClassifier()`.
        class_weight: None, "balanced", or weights by label.
        random_state: the seed; None keeps that of the estimator inside, so that results are always the same.
        n_jobs: threads; -1 takes all cores.
    """

    _tags = _TAGS | {"algorithm_type": "feature"}
    _default = _Classifier

    def __init__(self, estimator=None, class_weight=None, random_state=None, n_jobs=1):
        self.estimator, self.class_weight = estimator, class_weight
        self.random_state, self.n_jobs = random_state, n_jobs
        super().__init__()

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return {"estimator": _Classifier(draws=10)}


class LogSignatureRegressor(_Inside, BaseRegressor):
    """Random multi-scale log-signature features and ridge regression; see `neuralrde.LogSignatureRegressor`.

    Args:
        estimator: another regressor of neuralrde, such as `NeuralRDERegressor()`.
        random_state: the seed; None keeps that of the estimator inside, so that results are always the same.
        n_jobs: threads; -1 takes all cores.
    """

    _tags = _TAGS | {"algorithm_type": "feature"}
    _default = _Regressor

    def __init__(self, estimator=None, random_state=None, n_jobs=1):
        self.estimator, self.random_state, self.n_jobs = estimator, random_state, n_jobs
        super().__init__()

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return {"estimator": _Regressor(draws=10)}


class LogSignatureTransformer(_Inside, BaseCollectionTransformer):
    """Random multi-scale log-signature features of series, a table; see `neuralrde.LogSignatureFeatures`.

    Args:
        draws: random looks at series; about ten features each.
        random_state: the seed; None is 0.
        n_jobs: threads; -1 takes all cores.
    """

    _tags = _TAGS | {"output_data_type": "Tabular", "algorithm_type": "feature"}
    _default = _Features

    def __init__(self, draws=_Features.draws, random_state=None, n_jobs=1):
        self.draws, self.random_state, self.n_jobs = draws, random_state, n_jobs
        super().__init__()

    def _fit_transform(self, X, y=None):
        self._new()
        return self._call("fit_transform", self._ours(X))

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return {"draws": 10}
