import numpy as np
import pytest
from hypothesis import given

from neuralrde.paths import Series
from neuralrde.transforms import Scale, ScaleEach

from ..paths.examples import make_series, series, training_like


@given(series())
def test_statistics_are_those_of_the_training_set_without_gaps_and_padding(later):
    training = training_like(later)
    points = training.values[training.valid]
    mean, deviation = np.nanmean(points, axis=0), np.nanstd(points, axis=0)
    deviation[deviation < 1e-12] = 1.0
    result = Scale().fit(training)(later).values
    # Sums in another order: the last places of numbers below 10^4.
    np.testing.assert_allclose(result, (later.values - mean) / deviation, rtol=1e-9, atol=1e-9)


def test_the_training_set_comes_out_with_mean_0_and_deviation_1():
    training = make_series(0, samples=20, length=50)
    points = Scale().fit(training)(training)
    points = points.values[points.valid]
    # 700 numbers near 1: rounding of their sums is far below this.
    np.testing.assert_allclose(np.nanmean(points, axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(points, axis=0), 1, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(points), np.isnan(training.values[training.valid]))


@pytest.mark.parametrize("constant", [0.1, 1e9 / 3, 0.0])
def test_a_constant_channel_is_only_shifted(constant):
    # The mean of many 0.1 is not 0.1 in floating point, and its deviation not 0.
    training = Series.from_array(np.full((7, 1001), constant))
    scale = Scale().fit(training)
    np.testing.assert_array_equal(scale(training).values, 0.0)
    assert scale(Series.from_array([[constant + 2.0]])).values[0, 0, 0] == pytest.approx(2.0)


def test_float32_stays_and_is_summed_in_float64():
    # In float32 the mean of so many numbers near 10^5 is off by a hundredth, and the deviation is 1/2.
    column = np.tile(np.array([100_000, 100_001], np.float32), (4, 100_000))
    scaled = Scale().fit(Series.from_array(column))(Series.from_array(column))
    assert scaled.values.dtype == np.float32
    np.testing.assert_allclose(scaled.values[0, :2, 0], [-1, 1], rtol=1e-6)


def test_numbers_too_large_to_square_are_refused():
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match="'x0' whose standard deviation comes out as inf"),
    ):
        Scale().fit(Series.from_array([[1e200, -1e200]]))


def test_each_sample_comes_out_with_mean_0_and_deviation_1():
    ragged = make_series(0, samples=20, length=50)
    each = ScaleEach()(ragged)
    for before, after, valid in zip(ragged.values, each.values, ragged.valid, strict=True):
        np.testing.assert_array_equal(np.isnan(after[valid]), np.isnan(before[valid]))
        np.testing.assert_allclose(np.nanmean(after[valid], axis=0), 0, atol=1e-12)
        varies = np.nanstd(before[valid], axis=0) > 0  # a sample of one point does not
        np.testing.assert_allclose(np.nanstd(after[valid], axis=0), varies, atol=1e-12)


def test_a_channel_that_is_constant_in_a_sample_becomes_zero():
    series = Series.from_array([[0.1, 0.1, 0.1], [np.nan, 0.1, np.nan], [1.0, 2.0, 3.0]])
    values = ScaleEach()(series).values[..., 0]
    np.testing.assert_array_equal(values[:2], [[0, 0, 0], [np.nan, 0, np.nan]])
    assert values[2].std() == pytest.approx(1)
