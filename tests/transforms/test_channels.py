import numpy as np
import pytest
from hypothesis import given

from neuralrde.paths import Series
from neuralrde.transforms import BasePoint, Compose, FillForward, ObservationCounts, TimeChannel, TimeSinceObserved

from ..paths.examples import make_series, series, training_like


@given(series(missing=0.3))
def test_counts_are_the_naive_loop(given_series):
    counted = ObservationCounts(channels=given_series.channels)(given_series)
    width = len(given_series.channels)
    np.testing.assert_array_equal(counted.values[..., :width], given_series.values)
    for i, length in enumerate(given_series.lengths):
        for c in range(width):
            for j in range(length):
                expected = sum(not np.isnan(x) for x in given_series.values[i, : j + 1, c])
                assert counted.values[i, j, width + c] == expected


@given(series(missing=0.3))
def test_ages_are_the_naive_loop(given_series):
    aged = TimeSinceObserved(channels=given_series.channels)(given_series)
    width = len(given_series.channels)
    np.testing.assert_array_equal(aged.values[..., :width], given_series.values)
    for i, length in enumerate(given_series.lengths):
        for c in range(width):
            latest = given_series.clock[i, 0]
            for j in range(length):
                now = given_series.clock[i, j]
                latest = latest if np.isnan(given_series.values[i, j, c]) else now
                assert aged.values[i, j, width + c] == np.asarray(now - latest, aged.values.dtype)


def test_ages_come_before_filling():
    with pytest.raises(ValueError, match=r"Got TimeSinceObserved after FillForward; expected it before"):
        Compose(FillForward(), TimeSinceObserved())


def test_channels_with_missing_values_in_the_training_set_are_counted():
    values = np.ones((1, 3, 2))
    complete = Series(values, channels=["pulse", "lactate"])
    values = values.copy()
    values[0, 1, 1] = np.nan
    training = Series(values, channels=["pulse", "lactate"])
    counts = ObservationCounts().fit(training)
    assert counts(complete).channels == ("pulse", "lactate", "lactate count")
    assert ObservationCounts().fit(complete)(training).channels == ("pulse", "lactate")


def test_filling_leaves_counts_alone():
    training = make_series(0)
    counted = ObservationCounts().fit(training)(training)
    filled = Compose(ObservationCounts(), FillForward()).fit(training)(training)
    np.testing.assert_array_equal(filled.values[..., 2:], counted.values[..., 2:])
    assert np.isfinite(filled.values).all()


def test_a_channel_to_count_must_be_there():
    with pytest.raises(ValueError, match=r"expected also \['lactate'\]"):
        ObservationCounts(channels=["lactate"])(make_series(0))
    with pytest.raises(TypeError, match=r"channels=\['lactate'\]"):
        ObservationCounts(channels="lactate")


@given(series())
def test_time_starts_at_zero_and_training_ends_at_one(training):
    result = TimeChannel().fit(training)(training)
    time = result.values[..., 0]
    assert result.channels[0] == "time"
    assert (time[:, 0] == 0).all()
    if training.lengths.max() > 1:
        assert time.max() == 1
    np.testing.assert_array_equal(result.values[..., 1:], training.values)


@given(series(), series(channels=2, timed=True))
def test_later_series_are_timed_in_units_of_the_training_set(training, later):
    durations = [c[n - 1] - c[0] for c, n in zip(training.clock, training.lengths, strict=True)]
    unit = max(durations) or 1.0
    if training.times is None:
        later = Series(later.values, lengths=later.lengths)
    time = TimeChannel().fit(training)(later).values[..., 0]
    np.testing.assert_array_equal(time, (later.clock - later.clock[:, :1]) / unit)


def test_the_number_of_a_point_is_its_time_where_there_is_none():
    time = TimeChannel(duration=1.0)(Series.from_arrays([np.zeros(4), np.zeros(2)])).values[..., 0]
    np.testing.assert_array_equal(time, [[0, 1, 2, 3], [0, 1, 1, 1]])


@pytest.mark.parametrize("timed", [True, False])
def test_units_of_time_are_not_mixed(timed):
    step = TimeChannel().fit(make_series(0, timed=timed))
    with pytest.raises(ValueError, match=r"times; expected one with.*duration"):
        step(make_series(0, timed=not timed))


@pytest.mark.parametrize(("duration", "error"), [(0.0, ValueError), (-1, ValueError), (True, ValueError)])
def test_a_wrong_duration_is_refused(duration, error):
    with pytest.raises(error, match=r"duration=.*expected a finite number above 0"):
        TimeChannel(duration=duration)


@given(series())
def test_the_base_point_is_the_origin_one_typical_gap_earlier(given_series):
    training = training_like(given_series)
    based = BasePoint().fit(training)(given_series)
    np.testing.assert_array_equal(based.values[:, 0], 0.0)
    np.testing.assert_array_equal(based.values[:, 1:], given_series.values)
    np.testing.assert_array_equal(based.lengths, given_series.lengths + 1)
    if given_series.times is not None:
        gaps = [gap for t, n in zip(training.times, training.lengths, strict=True) for gap in np.diff(t[:n])]
        expected = given_series.times[:, 0] - (np.median(gaps) if gaps else 1.0)
        np.testing.assert_array_equal(based.times[:, 0], expected)
        np.testing.assert_array_equal(based.times[:, 1:], given_series.times)


def test_a_base_point_fitted_without_times_cannot_place_itself_in_time():
    step = BasePoint().fit(make_series(0, timed=False))
    with pytest.raises(ValueError, match=r"series with times.*BasePoint.*fit"):
        step(make_series(0, timed=True))


def test_time_beside_a_channel_called_time():
    """The channel stays the user's, and the added one takes a free name."""
    given_series = Series([[[5.0, 1.0], [7.0, 2.0]]], channels=["time", "time_2"])
    timed = TimeChannel().fit(given_series)(given_series)
    assert timed.channels == ("time_3", "time", "time_2")
    np.testing.assert_array_equal(timed.values[0], [[0.0, 5.0, 1.0], [1.0, 7.0, 2.0]])
    assert TimeChannel().fit(make_series(0))(make_series(0)).channels[0] == "time"


def test_counts_do_not_stop_where_float32_can_no_longer_add_one():
    points = 2**24 + 4  # even, so that float32 can hold it
    counted = ObservationCounts(channels=["x0"])(Series(np.zeros((1, points, 1), np.float32)))
    assert counted.values.dtype == np.float32
    assert counted.values[0, -1, 1] == points
