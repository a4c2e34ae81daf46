"""What sparse channels tell, against a loop that takes each channel of each series by itself."""

import numpy as np
import pytest

from neuralrde import LogSignatureClassifier, LogSignatureFeatures, Series, load
from neuralrde.features import features, statistics
from neuralrde.features.features import SeriesFeatures, all_statistics, plain_statistics, statistic_names
from neuralrde.features.observations import NAMES, QUANTILES, Steps, mostly_missing, observation_statistics


def sparse(samples=40, missing=0.8, seed=0, channels=3, timed=True):
    rng = np.random.default_rng(seed)
    lengths = np.r_[1, 2, rng.integers(5, 40, samples - 2)]
    arrays = [rng.normal(5.0, 2.0, size=(length, channels)) for length in lengths]
    for array in arrays:
        array[rng.random(array.shape) < missing] = np.nan
    arrays[3][:] = np.nan  # nothing was measured
    times = [np.cumsum(rng.uniform(0.1, 3.0, length)) for length in lengths] if timed else None
    return Series.from_arrays(arrays, times=times)


def by_hand(values, clock):
    """Of one channel."""
    clock = clock - clock[0]
    known = ~np.isnan(values)
    value, time, duration = values[known], clock[known], clock[-1]
    found = dict.fromkeys(NAMES, np.nan)
    for part, begin in (("second half", 0.5), ("last quarter", 0.75)):
        inside = value[time >= begin * duration]
        found[f"count in the {part}"] = np.log1p(len(inside))
        if len(inside):
            found[f"mean in the {part}"] = inside.mean()
            found[f"lowest in the {part}"] = inside.min()
            found[f"highest in the {part}"] = inside.max()
    found["count"] = np.log1p(len(value))
    if len(value):
        found |= {"age": np.log1p(duration - time[-1]), "time of the first": np.log1p(time[0])}
        found |= {"first": value[0], "last": value[-1], "mean over time": value.mean()}
        held = np.diff(np.append(time, duration))
        if held.sum() > 0:
            found["mean over time"] = np.average(value, weights=held)
    if len(value) > 1:
        found["slope"] = np.polyfit(time, value, 1)[0]
    return [found[name] for name in NAMES]


@pytest.mark.parametrize("timed", [False, True])
def test_statistics_of_observations(timed, monkeypatch):
    series = sparse(timed=timed)
    expected = [
        np.array([by_hand(channel[:length], clock[:length]) for channel in values.T]).T.ravel()
        for values, clock, length in zip(series.values, series.clock, series.lengths, strict=True)
    ]
    # Sums of at most 40 numbers, in another order; polyfit solves the same least squares by a decomposition.
    np.testing.assert_allclose(observation_statistics(series), expected, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(statistics, "_PIECE", 200)
    np.testing.assert_allclose(observation_statistics(series), expected, rtol=1e-9, atol=1e-9)


def test_names_say_what_a_statistic_is_and_of_which_channel():
    series = sparse()
    names, found = statistic_names(3, sparse=True), all_statistics(series, sparse=True)
    assert len(names) == found.shape[1]
    np.testing.assert_array_equal(found[:, names.index(("last", 1))], observation_statistics(series)[:, 3 * 3 + 1])
    np.testing.assert_array_equal(found[:, names.index(("share missing", 2))], plain_statistics(series)[:, 7 * 3 + 2])
    np.testing.assert_array_equal(found[:, names.index(("duration", None))], plain_statistics(series)[:, -1])


def test_steps_divide_the_training_set_evenly():
    rng = np.random.default_rng(0)
    known = rng.normal(size=(900, 2))
    known[::3, 1] = np.nan
    steps = Steps.fit(known)
    found = steps(known).reshape(900, 1 + QUANTILES, 2)
    np.testing.assert_array_equal(found[:, 0], ~np.isnan(known))
    share = 1 - np.arange(1, QUANTILES + 1) / (QUANTILES + 1)
    np.testing.assert_allclose(np.nanmean(found[:, 1:], axis=0), np.stack([share, share], axis=1), atol=2 / 600)
    assert np.isnan(found[::3, 1:, 1]).all()
    assert np.isfinite(Steps.fit(np.full((5, 2), np.nan)).thresholds).all()  # a file holds finite numbers only


def test_most_values_must_be_missing():
    assert mostly_missing(sparse(missing=0.7))
    assert not mostly_missing(sparse(missing=0.3))
    blocks = lambda missing: LogSignatureFeatures(draws=2).fit(sparse(missing=missing)).model_.blocks
    assert list(blocks(0.7)) == ["shares", "statistics", "steps"]
    assert list(blocks(0.3)) == ["shares", "statistics"]


def test_low_may_be_as_bad_as_high(tmp_path):
    """A channel that is measured a few times, and the extreme ones of either side are of one class."""
    rng = np.random.default_rng(0)
    series = sparse(samples=400, channels=1)
    level = rng.normal(size=400)
    values = series.values + 5 * level[:, None, None]
    y = np.abs(level) > 0.7
    series = Series(values, times=series.times, lengths=series.lengths)
    known = ~np.isnan(values[..., 0]).all(axis=1)
    model = LogSignatureClassifier(draws=2).fit(series[:200], y[:200])
    assert model.score(series[200:][known[200:]], y[200:][known[200:]]) > 0.8
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(series), model.predict_proba(series))
    # A stream says at its end what is said of the whole series.
    stream, last = model.stream(), int(series.lengths[9])
    for point in range(last):
        stream.push(series.values[9, point : point + 1], times=series.times[9, point : point + 1])
    np.testing.assert_allclose(stream.predict_proba(), model.predict_proba(series[9:10])[0], atol=1e-6)


def test_memory_that_does_not_hold_them(monkeypatch):
    series, y = sparse(samples=300), np.arange(300) % 3
    kept = SeriesFeatures.fit(series, filled(series), features.FeatureSizes(draws=2), seed=0)[1]
    monkeypatch.setattr(features, "_KEPT", 1 << 18)
    model, again = SeriesFeatures.fit(series, filled(series), features.FeatureSizes(draws=2), seed=0)
    assert again.shape == kept.shape == (len(y), sum(model.counts.values()))
    assert again[:5].shape == kept[:5].shape


def filled(series):
    return Series(np.nan_to_num(series.values), lengths=series.lengths)
