"""Forecasts in closed form: against sums by hand, with nothing from the future, online as offline, with intervals."""

import numpy as np
import pandas as pd
import pytest

from neuralrde import LogSignatureForecaster, Series, load
from neuralrde.estimators.forecasting import as_duration
from neuralrde.features.forecast import ForecastFeatures, Origins
from neuralrde.paths.series import frozen
from neuralrde.signatures import signature
from neuralrde.training import FileRefused


def oscillators(samples: int, *, seed: int = 0, points: int = 60) -> Series:
    """Damped oscillators pushed by noise, seen at random times: position often, velocity seldom."""
    random, step, values, clocks = np.random.default_rng(seed), 0.05, [], []
    for _ in range(samples):
        state, found = random.normal(size=2), []
        for _ in range(5 * points):
            push = 0.7 * np.sqrt(step) * random.normal()
            state = state + step * np.array([state[1], -1.5 * state[0] - 0.3 * state[1]]) + [0.0, push]
            found.append(state)
        chosen = np.sort(random.choice(5 * points, points, replace=False))
        seen = np.where(random.random((points, 2)) < [0.8, 0.3], np.array(found)[chosen], np.nan)
        values.append(seen + 0.05 * random.normal(size=seen.shape))
        clocks.append(chosen * step)
    return Series.from_arrays(values, times=clocks, channels=["position", "velocity"])


@pytest.fixture(scope="module")
def data() -> Series:
    return oscillators(120)


@pytest.fixture(scope="module")
def model(data) -> LogSignatureForecaster:
    return LogSignatureForecaster(horizon=3.0, lookback=6.0, examples=3000).fit(data[:80])


def before(series: Series, now: float) -> Series:
    """Only the points up to a moment."""
    lengths = (series.clock <= now).sum(axis=1)
    return Series(series.values, times=series.times, lengths=lengths, channels=series.channels)


def test_a_driven_system_beats_naive_forecasts(model, data):
    found = model.evaluate(data[80:])
    assert found["mse"] < 0.5 * min(one["mse"] for one in found["naive"].values())
    assert model.score(data[80:]) == pytest.approx(1 - found["mse"] / min(n["mse"] for n in found["naive"].values()))
    assert 0 < found["crps"] < found["mae"]  # the score of a forecast without a spread is its absolute error
    assert [part["mse"] for part in found["ahead"]] == sorted(part["mse"] for part in found["ahead"])


@pytest.mark.long
def test_intervals_hold_what_they_promise():
    """The mean of three simulations of 200 series: the share of one varies by about 0.01."""
    shares = []
    for seed in range(3):
        series = oscillators(300, seed=seed)
        fitted = LogSignatureForecaster(horizon=3.0, lookback=6.0, examples=3000).fit(series[:150])
        shares.append(np.mean([one["coverage"] for one in fitted.evaluate(series[150:])["channels"].values()]))
    assert 0.88 < np.mean(shares) < 0.92


def test_the_future_changes_nothing(model, data):
    series = data[80:90]
    now, later = 8.0, series.clock > 8.0
    changed = Series(np.where(later[..., None], 1e6, series.values), times=series.times, channels=series.channels)
    wanted = {"times": now + np.array([0.5, 1.7, 3.0]), "now": now}
    whole, other = (model.predict(given, interval=0.8, **wanted) for given in (series, changed))
    for one, two in zip(whole, other, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(model.predict(series, **wanted), model.predict(before(series, now), **wanted))


def test_what_is_fitted_does_not_see_what_comes_after_the_last_cut_and_its_horizon(data):
    """Levels and scales are of whole training series; forecasts and errors are of what the cuts reach."""
    series = data[:40]
    one = LogSignatureForecaster(horizon=2.0, lookback=4.0).fit(series, cuts=[5.0])
    other = LogSignatureForecaster(horizon=2.0, lookback=4.0).fit(before(series, 7.0), cuts=[5.0])
    scale = one.fitted_.model.features.spread / other.fitted_.model.features.spread
    assert abs(scale - 1).max() < 0.5
    np.testing.assert_array_equal(one.fitted_.model.counts, other.fitted_.model.counts)


def test_a_stream_forecasts_what_the_whole_past_would(model, data):
    series = data[85]
    values, clock = series.values[0], series.clock[0]
    stream = model.stream()
    with pytest.raises(ValueError, match="at least one to forecast from"):
        stream.forecast()
    for place in range(0, 50, 5):
        stream.push(values[place : place + 5], clock[place : place + 5])
        past = Series(values[None, : place + 5], times=clock[None, : place + 5], channels=series.channels)
        times = clock[place + 4] + np.array([0.3, 2.9])
        offline = model.predict(past, times, interval=0.9)
        for online, whole in zip(stream.forecast(times, interval=0.9), offline, strict=True):
            np.testing.assert_allclose(online, whole[0], rtol=0, atol=1e-12)
    assert stream.points == 50
    assert len(stream._values) < 50
    with pytest.raises(ValueError, match="do not increase"):
        stream.push(values[0], clock[0])


def test_a_file_forecasts_the_same(model, data, tmp_path):
    model.save(tmp_path / "model.nrde")
    again = load(tmp_path / "model.nrde")
    assert repr(again) == repr(model)
    assert again.horizon_ == 3.0
    assert again.period_ is None
    for one, two in zip(model.predict(data[90:], interval=0.9), again.predict(data[90:], interval=0.9), strict=True):
        np.testing.assert_array_equal(one, two)
    (tmp_path / "broken.nrde").write_bytes((tmp_path / "model.nrde").read_bytes()[:-100])
    with pytest.raises(FileRefused):
        load(tmp_path / "broken.nrde")


def test_integrals_are_terms_of_the_signature():
    """Of the held path of time and value, over the look-back: an independent sum, by signatures of its corners."""
    random = np.random.default_rng(0)
    times, values = np.sort(random.uniform(0, 10, 8)), random.normal(size=8)
    series = Series(values[None, :, None], times=times[None])
    features = ForecastFeatures.drawn(series, None, 0)
    past = features.past(series, Origins(np.array([0]), np.array([10.0])), 10.0, None)
    standard = (values - features.level) / features.spread
    # Corners of the held path, from the first observation; time in look-backs.
    moments = np.append(np.repeat(times, 2)[1:], 10.0) / 10
    corners = np.stack([moments, np.repeat(standard, 2)], axis=1)
    terms = np.asarray(signature(corners, 3))  # t x | tt tx xt xx | ttt ttx txt txx xtt xtx xxt xxx
    held = 1 - times[0] / 10
    rise = standard[-1] - standard[0]
    area = terms[4] - rise * held  # the integral of what x is above its last value
    assert past.own[0, 0, 6 + 9] == pytest.approx(area, rel=1e-4)


def test_a_season_is_found_again():
    hours = np.arange(24 * 40.0)
    wave = np.sin(hours / 24 * 2 * np.pi) ** 3 + 0.05 * np.random.default_rng(0).normal(size=len(hours))
    wave[np.random.default_rng(1).random(len(hours)) < 0.4] = np.nan
    fitted = LogSignatureForecaster(horizon=24, period=24, lookback=96, examples=2000).fit(wave[:720])
    found = fitted.evaluate(wave)
    assert found["mse"] < 0.1 * found["naive"]["last"]["mse"]
    assert found["naive"]["seasonal"]["mse"] < 0.2


def test_tables_dates_and_names():
    pandas = pytest.importorskip("pandas")
    index = pandas.date_range("2026-01-01", periods=500, freq="h")
    walk = np.cumsum(np.random.default_rng(0).normal(size=(500, 2)), axis=0)
    table = pandas.DataFrame(walk, index=index, columns=["load", "wind"])
    fitted = LogSignatureForecaster(horizon="12h", examples=1000).fit(table)
    assert fitted.horizon_ == 12 * 3600
    assert fitted.lookback_ == 48 * 3600
    times = pandas.date_range(index[-1], periods=4, freq="3h")[1:]
    found, ends = fitted.predict(table, times.to_numpy(), channels=["wind"], interval=0.8)
    assert found.shape == (1, 3, 1)
    assert ends.shape == (1, 3, 1, 2)
    assert (ends[..., 0] < found).all()
    assert (found < ends[..., 1]).all()
    assert fitted.predict(table, horizon="6h").shape == (1, 6, 2)
    seconds = (index.to_numpy() - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    plain = Series(walk[None], times=seconds[None])
    np.testing.assert_array_equal(found, fitted.predict(plain, times.to_numpy(), channels=[1]))


def test_channels_that_were_never_seen_again_have_no_ends(data):
    values = np.array(data.values[:40])
    values[:, 1:, 1] = np.nan
    series = Series(frozen(values), times=data.times[:40], channels=data.channels)
    fitted = LogSignatureForecaster(horizon=3.0, examples=500).fit(series)
    found, ends = fitted.predict(series, now=5.0, interval=0.9)
    assert np.isfinite(found).all()
    assert np.isinf(ends[..., 1, :]).all()
    assert np.isfinite(ends[..., 0, :]).all()


def test_groups_are_left_out_together(data):
    """Twins of each series: alone, each would be forecast by its twin, and intervals would be too narrow."""
    twins = Series(np.repeat(data.values[:20], 2, axis=0), times=np.repeat(data.times[:20], 2, axis=0))
    groups = np.repeat(np.arange(20), 2)
    options = {"horizon": 3.0, "lookback": 6.0, "examples": 1000}
    widths = []
    for given in (None, groups):
        fitted = LogSignatureForecaster(**options).fit(twins, groups=given)
        ends = fitted.predict(data[80:], now=8.0, interval=0.8)[1]
        widths.append(np.median(ends[..., 1] - ends[..., 0]))
    assert widths[1] > widths[0]


def test_messages(model, data):
    with pytest.raises(ValueError, match="at most the horizon 3 of `fit` ahead"):
        model.predict(data[80:], times=[10.0], now=5.0)
    with pytest.raises(ValueError, match="Got the channel 'pulse'"):
        model.predict(data[80:], channels=["pulse"])
    with pytest.raises(ValueError, match="their times are numbers and not dates"):
        LogSignatureForecaster(horizon="3h").fit(data)
    with pytest.raises(ValueError, match="a positive number"):
        as_duration("horizon", -1, dated=False)
    with pytest.raises(ValueError, match="expected at least 40"):
        LogSignatureForecaster(horizon=10).fit(np.arange(30.0))
    with pytest.raises(ValueError, match="without an observation within"):
        LogSignatureForecaster(horizon=1).fit(data, cuts=[1e9])
    with pytest.raises(ValueError, match="cuts for 2 series; expected 120"):
        LogSignatureForecaster(horizon=1).fit(data, cuts=[[1.0], [2.0]])
    with pytest.raises(ValueError, match="Got both times and horizon"):
        model.predict(data, times=[5.0], horizon=3)
    with pytest.raises(ValueError, match="expected \\['position', 'velocity'\\]"):
        model.predict(Series(data.values, times=data.times, channels=["a", "b"]))


def test_the_mean_of_a_past_of_one_observation_is_that_observation():
    series = Series.from_arrays([np.array([3.0, 5.0]), np.array([7.0, 1.0])], times=[np.array([0.0, 1.0])] * 2)
    features = ForecastFeatures.drawn(series, None, 0)
    past = features.past(series, Origins(np.array([0, 1]), np.array([0.0, 0.0])), 4.0, None)
    np.testing.assert_allclose(past.mean[:, 0] * features.spread[0] + features.level[0], [3.0, 7.0])
    np.testing.assert_array_equal(past.mean, past.last)


def test_dates_with_a_time_zone_are_times():
    dates = pd.date_range("2024-01-01", periods=60, freq="h", tz="Europe/Berlin")
    table = pd.DataFrame({"x": np.sin(np.arange(60) / 3)}, index=dates)
    model = LogSignatureForecaster(horizon="3h").fit([table] * 12)
    assert model.predict([table], times=[dates[-1] + pd.Timedelta("2h")]).shape == (1, 1, 1)
    with pytest.raises(ValueError, match="1 of which have dates as their index"):
        LogSignatureForecaster(horizon=3).fit([table, table.reset_index(drop=True)])
