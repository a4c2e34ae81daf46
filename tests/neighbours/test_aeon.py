"""Our estimators under aeon's own checks: `make test-oracles` runs them, in an environment with aeon."""

import numpy as np
import pytest

pytest.importorskip("aeon", reason="aeon wants an environment of its own: make test-oracles")

from aeon.testing.estimator_checking import parametrize_with_checks

from neuralrde import aeon
from neuralrde.estimators import LogSignatureClassifier

CLASSES = [aeon.LogSignatureClassifier, aeon.LogSignatureRegressor, aeon.LogSignatureTransformer]


@parametrize_with_checks(CLASSES, use_first_parameter_set=True)
def test_aeons_checks(check):
    check()


def test_it_predicts_what_ours_predicts():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(2, length)) for length in rng.integers(30, 50, 20)]
    y = np.array(["a", "b"] * 10)
    found = aeon.LogSignatureClassifier(class_weight="balanced", n_jobs=2).fit(series, y).predict_proba(series)
    ours = LogSignatureClassifier(class_weight="balanced").fit([one.T for one in series], y)
    np.testing.assert_array_equal(found, ours.predict_proba([one.T for one in series]))
