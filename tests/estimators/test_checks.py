"""scikit-learn's own checks: all but those that are listed here, with a reason. That of array API skips."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from neuralrde.estimators import (
    LogSignatureClassifier,
    LogSignatureFeatures,
    LogSignatureRegressor,
    NeuralRDEClassifier,
    NeuralRDERegressor,
)
from neuralrde.estimators.neural import BaseNeuralRDE
from tests.estimators.options import options
from tests.shapes import unchecked

# The checks hand in tables of unrelated columns, a few dozen rows: they ask for a small model that fits them.
SMALL = options(
    state=8, width=8, layers=1, step=1, epochs=80, learning_rate=1e-2, weight_decay=0.01, validation_fraction=0.0
)
# Checks of what scikit-learn's other tools rely on; all of them take minutes, most of it compiling.
QUICK = {
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_estimator_sparse_array",
    "check_complex_data",
    "check_fit1d",
    "check_estimators_empty_data_messages",
    "check_get_params_invariance",
    "check_set_params",
    "check_parameters_default_constructible",
    "check_classifiers_regression_target",
    "check_classifiers_one_label",
}

CANNOT = {
    "check_sample_weight_equivalence_on_dense_data": (
        "A weight of zero leaves a series out, to the bit (test_closed_form.py). A weight of 3 is not three copies: "
        "who leaves out one copy to choose a penalty, or a fold to train a member, still sees the others, and a weight "
        "is left out as one (test_ridge.py: with the copies as a group, both are the same). Penalties are relative to "
        "the mean weight, scales and thresholds of features are those of the different series, and batches are of so "
        "many series, whatever they weigh."
    ),
}
CANNOT_IF_NEURAL = {
    "check_estimators_overwrite_params": (
        "It hashes parameters by pickling them, and the activations of models are functions that JAX has compiled."
    ),
    "check_methods_subset_invariance": (
        "A series alone is predicted by another program than a batch of them, and comes in milliseconds. "
        "Both round to float32, in another order, and the check wants numbers of float64 to agree to 1e-7."
    ),
}


def test_transformer():
    with unchecked():  # they set parameters to all kinds of things, on purpose
        failing = {"check_transformer_preserve_dtypes": "Features are standardised, and float32 holds them."}
        check_estimator(LogSignatureFeatures(draws=4), expected_failed_checks=failing, on_fail="raise", on_skip=None)


def test_quick_ones():
    checks = [
        (estimator, check)
        for estimator, check in estimator_checks_generator(NeuralRDEClassifier(**SMALL))
        if check.func.__name__ in QUICK
    ]
    assert len(checks) >= 12
    with unchecked():
        for estimator, check in checks:
            check(estimator)


@pytest.mark.long
@pytest.mark.parametrize(
    "estimator",
    [
        LogSignatureClassifier(draws=14),
        LogSignatureRegressor(draws=14),
        NeuralRDEClassifier(**SMALL),
        NeuralRDERegressor(**SMALL),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_all(estimator):
    cannot = CANNOT | (CANNOT_IF_NEURAL if isinstance(estimator, BaseNeuralRDE) else {})
    with unchecked():
        check_estimator(estimator, expected_failed_checks=cannot, on_skip=None)


def test_classes_that_a_batch_lacks():
    X, y = np.random.default_rng(0).normal(size=(12, 9)), np.arange(12) % 2
    model = NeuralRDEClassifier(**SMALL | {"epochs": 1}).partial_fit(X, y, classes=[2, 1, 0])
    assert model.predict_proba(X).shape == (12, 3)
    model.partial_fit(X, y + 1, classes=[0, 1, 2])
    assert [record["epoch"] for record in model.history_] == [1, 2]
    with pytest.raises(ValueError, match=r"classes=\[0, 1\]; expected \[0, 1, 2\], as in the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="'2'; expected one of"):
        NeuralRDEClassifier(**SMALL | {"epochs": 1}).partial_fit(X, y + 1, classes=[0, 1])
