"""Estimators that follow sktime's conventions: `pip install sktime`, and they go wherever its own do.

Panels have any of sktime's types, with series of different lengths and NaN for missing values. For saving, streaming
and whatever else sktime does not know, there is the estimator inside, `estimator_`.
"""

import numpy as np
import pandas as pd
from sktime.classification.base import BaseClassifier  # type: ignore
from sktime.regression.base import BaseRegressor  # type: ignore
from sktime.transformations.base import BaseTransformer  # type: ignore

from ._inside import Inside
from .estimators import LogSignatureClassifier as _Classifier
from .estimators import LogSignatureFeatures as _Features
from .estimators import LogSignatureRegressor as _Regressor

__all__ = ["LogSignatureClassifier", "LogSignatureRegressor", "LogSignatureTransformer"]
_TAGS = {
    "authors": ["neuralrde developers"],
    "maintainers": ["neuralrde developers"],
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "capability:categorical_in_X": False,
    "capability:random_state": True,
    "property:randomness": "deterministic",
}


class _Inside(Inside):
    def _ours(self, X):
        return [frame.to_numpy(np.float64) for frame in X]


class LogSignatureClassifier(_Inside, BaseClassifier):
    """Random multi-scale log-signature features and a ridge classifier; see `neuralrde.LogSignatureClassifier`.

    Args:
        estimator: another classifier of neuralrde, such as `NeuralRDEClassifier()`.
        class_weight: None, "balanced", or weights by label.
        random_state: the seed; None keeps that of the estimator inside, so that results are always the same.
        n_jobs: threads; -1 takes all cores.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(20, 2, 50)).cumsum(axis=2)
    >>> from neuralrde.sktime import LogSignatureClassifier
    >>> LogSignatureClassifier().fit(X, np.arange(20) % 2).predict(X).shape
    (20,)
    """

    _default = _Classifier
    _tags = _TAGS | {
        "X_inner_mtype": "df-list",
        "capability:multithreading": True,
        "capability:predict_proba": True,
        "capability:class_weight": True,
        "classifier_type": "feature",
    }

    def __init__(self, estimator=None, class_weight=None, random_state=None, n_jobs=1):
        self.estimator, self.class_weight = estimator, class_weight
        self.random_state, self.n_jobs = random_state, n_jobs
        super().__init__()

    @classmethod
    def get_test_params(cls, parameter_set="default"):
        return [{"estimator": _Classifier(draws=10)}, {"random_state": 1, "estimator": _Classifier(draws=5)}]


class LogSignatureRegressor(_Inside, BaseRegressor):
    """Random multi-scale log-signature features and ridge regression; see `neuralrde.LogSignatureRegressor`.

    Args:
        estimator: another regressor of neuralrde, such as `NeuralRDERegressor()`.
        random_state: the seed; None keeps that of the estimator inside, so that results are always the same.
        n_jobs: threads; -1 takes all cores.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(20, 2, 50)).cumsum(axis=2)
    >>> from neuralrde.sktime import LogSignatureRegressor
    >>> LogSignatureRegressor().fit(X, X[:, 0].std(axis=1)).predict(X).shape
    (20,)
    """

    _default = _Regressor
    _tags = _TAGS | {"X_inner_mtype": "df-list", "capability:multithreading": True}

    def __init__(self, estimator=None, random_state=None, n_jobs=1):
        self.estimator, self.random_state, self.n_jobs = estimator, random_state, n_jobs
        super().__init__()

    @classmethod
    def get_test_params(cls, parameter_set="default"):
        return [{"estimator": _Regressor(draws=10)}, {"random_state": 1, "estimator": _Regressor(draws=5)}]


class LogSignatureTransformer(_Inside, BaseTransformer):
    """Random multi-scale log-signature features of series, a table; see `neuralrde.LogSignatureFeatures`.

    Args:
        draws: random looks at series; about ten features each.
        random_state: the seed; None is 0.
        n_jobs: threads; -1 takes all cores.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(20, 2, 50)).cumsum(axis=2)
    >>> from neuralrde.sktime import LogSignatureTransformer
    >>> LogSignatureTransformer(draws=10).fit_transform(X).shape[0]
    20
    """

    _default = _Features
    _tags = _TAGS | {
        "scitype:transform-input": "Series",
        "scitype:transform-output": "Primitives",
        "scitype:instancewise": False,
        "X_inner_mtype": "df-list",
        "y_inner_mtype": "None",
        "fit_is_empty": False,
    }

    def __init__(self, draws=_Features.draws, random_state=None, n_jobs=1):
        self.draws, self.random_state, self.n_jobs = draws, random_state, n_jobs
        super().__init__()

    def _transform(self, X, y=None):
        return pd.DataFrame(super()._transform(X))

    @classmethod
    def get_test_params(cls, parameter_set="default"):
        return [{"draws": 10}, {"draws": 5, "random_state": 1}]
