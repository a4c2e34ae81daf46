"""Series on a regular grid in time."""

import numpy as np

from neuralrde import Series
from neuralrde.transforms import Resample, Transform


def test_a_line_stays_a_line():
    """Linear interpolation is exact on lines, whatever the times and gaps."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 10, size=(4, 60)), axis=1)
    values = np.stack([2 * times + 1, -times], axis=2)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, [0, -1]] = np.stack([2 * times + 1, -times], axis=2)[:, [0, -1]]
    series = Series(values, times=times)
    resample = Resample(spacing=0.1).fit(series)
    found = resample(series)
    for row, start, length in zip(found.values, times[:, 0], found.lengths, strict=True):
        grid = start + 0.1 * np.arange(length)
        np.testing.assert_allclose(row[:length, 0], 2 * grid + 1, rtol=1e-12, atol=1e-12)  # rounding of float64
        np.testing.assert_allclose(row[:length, 1], -grid, rtol=1e-12, atol=1e-12)
    assert (found.lengths == 1 + np.floor((times[:, -1] - times[:, 0]) / 0.1 + 1e-9)).all()


def test_even_times_change_nothing():
    series = Series.from_array(np.random.default_rng(0).normal(size=(3, 20, 2)), times=0.5 * np.arange(20))
    np.testing.assert_array_equal(Resample().fit(series)(series).values, series.values)


def test_series_without_times_keep_their_points():
    series = Series.from_arrays([np.arange(5.0), np.arange(3.0)])
    found = Resample().fit(series)(series)
    assert found.lengths.tolist() == [5, 3]
    np.testing.assert_array_equal(found.values, series.values)


def test_the_usual_spacing_is_the_median_one_unless_points_come_in_bursts():
    even = Series.from_array(np.zeros((1, 11)), times=np.r_[np.arange(10), 100.0])
    assert Resample().fit(even).spacing_ == 100 / 10 / 2  # a grid of at most twice as many points
    dropped = Series.from_array(np.zeros((1, 6)), times=[0.0, 1.0, 2.0, 4.0, 5.0, 6.0])
    assert Resample().fit(dropped).spacing_ == 1.0


def test_state_round_trip():
    series = Series.from_array(np.zeros((1, 6)), times=[0.0, 1.0, 2.0, 4.0, 5.0, 6.0])
    fitted = Resample().fit(series)
    assert Transform.from_state(fitted.state()) == fitted
