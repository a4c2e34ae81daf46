"""scikit-learn's own checks. None is expected to fail; those for pandas and array API skip where these are absent."""

import pytest
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from neuralrde.estimators import LogSignatureTransformer, NeuralRDEClassifier, NeuralRDERegressor
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


def test_transformer():
    with unchecked():  # they set parameters to all kinds of things, on purpose
        check_estimator(LogSignatureTransformer(), on_skip=None)


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", [NeuralRDEClassifier, NeuralRDERegressor])
def test_all(kind):
    with unchecked():
        check_estimator(kind(**SMALL), on_skip=None)
