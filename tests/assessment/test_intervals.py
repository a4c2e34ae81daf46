"""Intervals against SciPy, and against what they promise: to hold the truth in 95 % of the cases."""

import numpy as np
import pytest
from scipy.stats import binomtest

from neuralrde.tools.assessment import accuracy_interval, bootstrap_interval, calibration_error, wilson


@pytest.mark.parametrize(("right", "total"), [(0, 1), (1, 1), (0, 10), (10, 10), (37, 41), (55, 69), (900, 1000)])
def test_wilson_is_scipys(right, total):
    ends = binomtest(right, total).proportion_ci(method="wilson")
    # The same formula in another order of operations: the last digits of float64 may differ.
    np.testing.assert_allclose(wilson(right, total), (ends.low, ends.high), atol=1e-12)


def test_wilson_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        wilson(0, 0)


def test_one_prediction_per_unit_is_wilson():
    right = np.arange(30) % 3 > 0
    assert accuracy_interval(right, np.arange(30)) == wilson(20, 30)


def test_units_that_are_all_right_or_all_wrong_count_once():
    """Ten windows of each of 20 patients, a patient's all alike: as good as 20 samples, and not 200."""
    patients = np.arange(20) < 15
    interval = accuracy_interval(np.repeat(patients, 10), np.repeat(np.arange(20), 10))
    # Not wilson(15, 20) itself: a variance is estimated from 20 numbers with 19 degrees of freedom.
    np.testing.assert_allclose(interval, wilson(0.75 * 19, 19), atol=1e-9)


def test_units_without_a_difference_count_once():
    """All right: nothing says how much units differ, so the careful number of samples is that of the units."""
    assert accuracy_interval(np.ones(200, bool), np.repeat(np.arange(5), 40)) == wilson(5, 5)


def test_one_unit_says_nothing_about_others():
    assert accuracy_interval(np.array([True, False]), np.zeros(2, int)) is None
    assert bootstrap_interval(np.array([1.0, 2.0]), np.zeros(2, int)) is None


@pytest.mark.long
def test_the_bootstrap_holds_the_truth_in_most_cases():
    """Squared normal errors have a mean of 1, so the true RMSE is 1."""
    rng, held = np.random.default_rng(1), 0
    for seed in range(200):
        errors = rng.normal(size=80) ** 2
        low, high = bootstrap_interval(errors, np.arange(80), seed=seed)
        held += low <= 1.0 <= high
    # 95 % in the long run, a little less for 80 skewed errors; 200 tries have a standard deviation of 3.1.
    assert 177 <= held <= 200


def test_the_bootstrap_draws_units_and_not_rows():
    rng = np.random.default_rng(0)
    of_patient = rng.exponential(size=12)
    errors, patients = np.repeat(of_patient, 50), np.repeat(np.arange(12), 50)
    wide, narrow = (bootstrap_interval(errors, units) for units in (patients, np.arange(600)))
    # 50 copies of a number add nothing: rows as units give an interval of 1 / sqrt(50) of the width.
    assert (wide[1] - wide[0]) > 4 * (narrow[1] - narrow[0])


def test_the_bootstrap_is_the_same_for_the_same_seed():
    errors = np.random.default_rng(0).exponential(size=30)
    assert bootstrap_interval(errors, np.arange(30), seed=3) == bootstrap_interval(errors, np.arange(30), seed=3)
    assert bootstrap_interval(errors, np.arange(30), seed=3) != bootstrap_interval(errors, np.arange(30), seed=4)


def test_calibration_of_a_calibrated_and_of_a_sure_model():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1.0, size=20_000)
    probability = np.stack([sure, 1 - sure], axis=1)
    right = rng.random(20_000) < sure
    # A bin of 4000 samples has a standard error of 0.007 at most; five of them.
    assert calibration_error(probability, right) < 0.01
    np.testing.assert_allclose(calibration_error(np.array([[1.0, 0.0]] * 20_000), right), 1 - right.mean(), atol=1e-12)
