"""Estimators that follow sktime's conventions: `pip install sktime`, and they go wherever its own do.

Panels have any of sktime's types, with series of different lengths and NaN for missing values. For saving, streaming
and whatever else sktime does not know, there is the estimator inside, `estimator_`.
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sktime.classification.base import BaseClassifier  # type: ignore
from sktime.regression.base import BaseRegressor  # type: ignore
from sktime.transformations.base import BaseTransformer  # type: ignore
from sktime.utils.validation import check_n_jobs  # type: ignore

from ._cores import at_most
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


def _ours(X: Any) -> list[np.ndarray]:
    """Each series of a list of DataFrames, time before channels, as neuralrde has it."""
    return [frame.to_numpy(np.float64) for frame in X]


def _inside(given: Any, default: Any, random_state: Any) -> Any:
    estimator: Any = default() if given is None else clone(given)
    return estimator if random_state is None else estimator.set_params(random_state=random_state)


class LogSignatureClassifier(BaseClassifier):
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

    def _fit(self, X, y):
        self.estimator_ = _inside(self.estimator, _Classifier, self.random_state)
        if self.class_weight is not None:
            self.estimator_.set_params(class_weight=self.class_weight)
        with at_most(check_n_jobs(self.n_jobs)):
            self.estimator_.fit(_ours(X), y)
        return self

    def _predict(self, X):
        with at_most(check_n_jobs(self.n_jobs)):
            return self.estimator_.predict(_ours(X))

    def _predict_proba(self, X):
        with at_most(check_n_jobs(self.n_jobs)):
            return self.estimator_.predict_proba(_ours(X))

    @classmethod
    def get_test_params(cls, parameter_set="default"):
        return [{"estimator": _Classifier(draws=10)}, {"random_state": 1, "estimator": _Classifier(draws=5)}]


class LogSignatureRegressor(BaseRegressor):
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

    _tags = _TAGS | {"X_inner_mtype": "df-list", "capability:multithreading": True}

    def __init__(self, estimator=None, random_state=None, n_jobs=1):
        self.estimator, self.random_state, self.n_jobs = estimator, random_state, n_jobs
        super().__init__()

    def _fit(self, X, y):
        self.estimator_ = _inside(self.estimator, _Regressor, self.random_state)
        with at_most(check_n_jobs(self.n_jobs)):
            self.estimator_.fit(_ours(X), y)
        return self

    def _predict(self, X):
        with at_most(check_n_jobs(self.n_jobs)):
            return self.estimator_.predict(_ours(X))

    @classmethod
    def get_test_params(cls, parameter_set="default"):
        return [{"estimator": _Regressor(draws=10)}, {"random_state": 1, "estimator": _Regressor(draws=5)}]


class LogSignatureTransformer(BaseTransformer):
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

    def _fit(self, X, y=None):
        self.estimator_ = _inside(_Features(draws=self.draws), None, self.random_state)
        with at_most(check_n_jobs(self.n_jobs)):
            self.estimator_.fit(_ours(X))
        return self

    def _transform(self, X, y=None):
        with at_most(check_n_jobs(self.n_jobs)):
            return pd.DataFrame(self.estimator_.transform(_ours(X)))

    @classmethod
    def get_test_params(cls, parameter_set="default"):
        return [{"draws": 10}, {"draws": 5, "random_state": 1}]
