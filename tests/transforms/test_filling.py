import numpy as np
import pytest
from hypothesis import given

from neuralrde.paths import Series
from neuralrde.transforms import FillForward, FillLinear, Scale

from ..paths.examples import make_series, series, training_like


def training_means(training):
    return [np.nanmean(training.values[training.valid][:, c]) for c in range(len(training.channels))]


@given(series())
def test_forward_is_the_naive_loop(given_series):
    training = training_like(given_series)
    expected = given_series.values.copy()
    for i in range(expected.shape[0]):
        for c, mean in enumerate(training_means(training)):
            last = mean
            for j in range(expected.shape[1]):
                last = expected[i, j, c] if not np.isnan(expected[i, j, c]) else last
                expected[i, j, c] = last
    result = FillForward().fit(training)(given_series).values
    # The mean is the one number that is computed; sums in another order differ in the last place.
    np.testing.assert_allclose(result, expected, rtol=1e-13)


@given(series())
def test_linear_is_interpolation_in_time(given_series):
    training = training_like(given_series)
    result = FillLinear().fit(training)(given_series).values
    clock = given_series.times if given_series.times is not None else given_series.clock
    for i, length in enumerate(given_series.lengths):
        for c, mean in enumerate(training_means(training)):
            column, time = given_series.values[i, :length, c], clock[i, :length]
            seen = ~np.isnan(column)
            expected = np.interp(time, time[seen], column[seen]) if seen.any() else np.full(length, mean)
            # Two ways to write a weighted mean of numbers below 1000: some units in their last place.
            np.testing.assert_allclose(result[i, :length, c], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fill", [FillForward(default=-1.0), FillLinear(default=-1.0)])
def test_a_given_default_needs_no_training(fill):
    nothing, late = np.full(3, np.nan), np.array([np.nan, 4.0, np.nan])
    result = fill(Series.from_array([nothing, late])).values[..., 0]
    np.testing.assert_array_equal(result[0], [-1, -1, -1])
    np.testing.assert_array_equal(result[1], [-1 if isinstance(fill, FillForward) else 4, 4, 4])


@pytest.mark.parametrize("fill", [FillForward(default=0.0), FillLinear(default=0.0)])
def test_observed_values_and_their_type_stay(fill):
    values = make_series(0).values.astype(np.float32)
    result = fill(Series(values)).values
    assert result.dtype == np.float32
    seen = ~np.isnan(values)
    np.testing.assert_array_equal(result[seen], values[seen])
    assert np.isfinite(result).all()


def test_a_wide_gap_in_float32_is_filled_without_overflow():
    top = np.float32(3e38)
    wide = Series.from_array(np.array([[-top, np.nan, top]], np.float32))
    assert FillLinear(default=0.0)(wide).values[0, 1, 0] == 0.0


@pytest.mark.parametrize("transform", [FillForward(), FillLinear(), Scale()], ids=repr)
def test_a_channel_without_observations_in_training_is_named(transform):
    training = Series([[[1.0, np.nan]]], channels=["pulse", "lactate"])
    with pytest.raises(ValueError, match=r"'lactate' without any observation.*FillForward\(default=0.0\)"):
        transform.fit(training)


def test_padding_does_not_count_in_the_mean():
    training = Series.from_arrays([[1.0, 3.0], [5.0] * 8])
    late = Series.from_array([[np.nan, 0.0]])
    assert FillForward().fit(training)(late).values[0, 0, 0] == pytest.approx(44 / 10)


@pytest.mark.parametrize(("default", "error"), [(np.nan, ValueError), (np.inf, ValueError), ("mean", ValueError)])
def test_a_wrong_default_is_refused(default, error):
    with pytest.raises(error, match=r"default=.*expected a finite number"):
        FillForward(default=default)
