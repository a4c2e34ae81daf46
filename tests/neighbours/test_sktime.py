"""Our estimators under sktime's own checks: `make test-oracles` runs them, in an environment with sktime."""

import numpy as np
import pytest

pytest.importorskip("sktime", reason="sktime wants an environment of its own: make test-oracles")

from sktime.utils.estimator_checks import parametrize_with_checks

from neuralrde import sktime
from neuralrde.estimators import LogSignatureClassifier

CLASSES = [sktime.LogSignatureClassifier, sktime.LogSignatureRegressor, sktime.LogSignatureTransformer]


@parametrize_with_checks(CLASSES)
def test_sktimes_checks(obj, test_name):
    from sktime.utils.estimator_checks import check_estimator

    check_estimator(obj, tests_to_run=test_name, raise_exceptions=True, verbose=False)


def test_it_predicts_what_ours_predicts():
    X, y = np.random.default_rng(0).normal(size=(20, 2, 40)), np.array(["a", "b"] * 10)
    found = sktime.LogSignatureClassifier(class_weight="balanced", n_jobs=2).fit(X, y).predict_proba(X)
    ours = LogSignatureClassifier(class_weight="balanced").fit(X.transpose(0, 2, 1), y)
    np.testing.assert_array_equal(found, ours.predict_proba(X.transpose(0, 2, 1)))
