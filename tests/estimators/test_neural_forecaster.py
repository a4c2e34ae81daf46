"""Neural forecasts: a state that goes on in time alone, honest shares of the closed form, and the same interface."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde import LogSignatureForecaster, NeuralRDEForecaster, Series, load
from neuralrde.estimators.neural_forecaster import Rows
from neuralrde.features.forecast import ForecastFeatures, Origins, Questions
from neuralrde.models.forecast_rde import ForecastRDE
from neuralrde.training import Listener

SMALL = {"horizon": 4.0, "lookback": 8.0, "windows": 8, "state": 16, "width": 16, "members": 2, "batch_size": 64}


def tanks(samples: int, *, seed: int = 0) -> Series:
    """Two cascaded tanks whose valve opens below a level and closes above another: no linear map knows which."""
    random, step, values, clocks = np.random.default_rng(seed), 0.1, [], []
    for _ in range(samples):
        (upper, lower), is_open, found = random.uniform(0, 4, 2), random.random() < 0.5, []
        for _ in range(300):
            is_open = upper < 1 or (is_open and upper < 3)
            out = np.sqrt(upper)
            lower = max(lower + step * (out - 0.7 * np.sqrt(lower)), 0.0)
            upper = max(upper + step * (2.5 * is_open - out), 0.0)
            found.append((upper, lower))
        chosen = np.sort(random.choice(300, 90, replace=False))
        values.append(np.where(random.random((90, 2)) < [0.8, 0.5], np.array(found)[chosen], np.nan))
        clocks.append(chosen * step)
    return Series.from_arrays(values, times=clocks, channels=["upper", "lower"])


class Said(Listener):
    def __init__(self):
        self.messages: list[str] = []

    def say(self, message):
        self.messages.append(message)


@pytest.fixture(scope="module")
def data() -> Series:
    return tanks(110)


@pytest.fixture(scope="module")
def model(data) -> NeuralRDEForecaster:
    return NeuralRDEForecaster(**SMALL, epochs=8, verbose=False).fit(data[:80])


def test_what_drives_are_means_and_moments_of_held_values():
    """Sums over a fine grid, whose steps of 1e-5 leave at most so much of values of size 3."""
    random = np.random.default_rng(0)
    times, values = np.sort(random.random(30)) * 10, random.normal(size=(30, 2))
    values[random.random((30, 2)) < 0.5] = np.nan
    series = Series(values[None], times=times[None])
    features = ForecastFeatures.drawn(series, None, 0)
    found = features.increments(series, Origins(np.array([0, 0]), np.array([7.0, 10.0])), 6.0, 5)
    grid, edges = (np.arange(100_000) + 0.5) / 100_000, np.linspace(0, 1, 6)
    for origin, now in enumerate((7.0, 10.0)):
        for channel in range(2):
            known = (times >= now - 6) & (times <= now) & ~np.isnan(values[:, channel])
            moments = (times[known] - now + 6) / 6
            seen = (values[known, channel] - features.level[channel]) / features.spread[channel]
            at = lambda moment, seen=seen, moments=moments: np.append(0.0, seen)[
                np.searchsorted(moments, moment, "right")
            ]
            held, clock = at(grid).reshape(5, -1), grid.reshape(5, -1)
            time, step, mean, moment, count = found[origin, channel].T
            np.testing.assert_allclose(time, 0.2, rtol=1e-6)
            np.testing.assert_allclose(step, np.diff(at(edges)), atol=1e-6)
            np.testing.assert_allclose(mean, held.mean(axis=1), atol=1e-3)
            middle = clock.mean(axis=1, keepdims=True)
            np.testing.assert_allclose(moment, 5 * ((clock - middle) * held).mean(axis=1), atol=1e-3)
            assert count.tolist() == np.diff(np.searchsorted(moments, edges, "right")).tolist()


@pytest.mark.long
def test_beyond_the_present_time_alone_drives_the_state():
    """A window on which nothing but time moves leaves the rest of the horizon: the flow of 0.9 is that of 0.3 and 0.6.

    Of one block, whose field is linear, exactly but for float32. What is decoded also hears how far ahead it is, which
    is taken from it here.
    """
    model = ForecastRDE(4, 5, blocks=1, state=8, width=8, key=jax.random.key(0))
    linear = jax.random.normal(jax.random.key(2), model.decoder.linear.weight.shape)
    model = eqx.tree_at(lambda model: model.decoder.linear.weight, model, linear)
    deaf = model.decoder.network[1].weight.at[:, -2:].set(0.0)
    model = eqx.tree_at(lambda model: model.decoder.network[0], model, eqx.nn.Identity())
    model = eqx.tree_at(lambda model: model.decoder.network[1].weight, model, deaf)
    driving = jax.random.normal(jax.random.key(1), (6, 5))
    waited = jnp.concatenate([driving, jnp.zeros((1, 5)).at[0, 0].set(0.3)])
    about, none = jnp.arange(4.0), jnp.zeros(1)
    whole, rest = model(about, driving, jnp.array([0.9]), none), model(about, waited, jnp.array([0.6]), none)
    np.testing.assert_allclose(whole, rest, atol=1e-5)
    assert abs(whole - model(about, driving, jnp.array([0.3]), none)).max() > 1e-2


def test_rows_hold_every_question_once():
    questions = Questions(np.array([2, 0, 0, 2, 0, 5, 0]), np.arange(7.0))
    rows = Rows.of(3, questions, 2, None, None)
    assert sorted(rows.place[rows.place >= 0].tolist()) == list(range(7))
    for origin, place in zip(rows.origin, rows.place, strict=True):
        assert (questions.origin[place[place >= 0]] == origin).all()
    few = Rows.of(3, questions, 2, 2, np.random.default_rng(0))
    assert len(set(few.origin)) == len(few.origin) == 2


@pytest.mark.long
def test_a_driven_system_that_no_linear_map_knows(model, data):
    closed = LogSignatureForecaster(horizon=4.0, lookback=8.0).fit(data[:80]).evaluate(data[80:])
    found = model.evaluate(data[80:])
    assert model.shares_ is not None
    assert found["mse"] < 0.9 * closed["mse"]
    assert found["crps"] < 0.9 * closed["crps"]
    assert found["naive"] == closed["naive"]
    assert found["coverage"] > 0.8


@pytest.mark.long
def test_nothing_of_the_future_streams_and_files(model, data, tmp_path):
    series, now = data[80:84], 20.0
    later = series.clock > now
    changed = Series(np.where(later[..., None], 1e6, series.values), times=series.times, channels=series.channels)
    wanted = {"times": now + np.array([0.4, 1.7, 4.0]), "now": now, "interval": 0.9}
    whole, ends = model.predict(series, **wanted)
    for one, two in zip((whole, ends), model.predict(changed, **wanted), strict=True):
        np.testing.assert_array_equal(one, two)
    stream, past = model.stream(), series.clock[0] <= now
    stream.push(series.values[0][past], series.clock[0][past])
    online, online_ends = stream.forecast(wanted["times"], interval=0.9, now=now)
    np.testing.assert_allclose(online, whole[0], atol=1e-5)  # float32, in a batch of another size
    np.testing.assert_allclose(online_ends, ends[0], atol=1e-5)
    model.save(tmp_path / "tanks.nrde")
    again = load(tmp_path / "tanks.nrde")
    assert repr(again) == repr(model)
    for one, two in zip((whole, ends), again.predict(series, **wanted), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.long
def test_a_model_that_brings_nothing_says_so(tmp_path):
    """Noise about a level: there is nothing to be known, and forecasts are the closed form's."""
    random, said = np.random.default_rng(0), Said()
    series = Series(random.normal(size=(60, 60, 1)), times=np.tile(np.arange(60.0), (60, 1)))
    options = {**SMALL, "horizon": 6.0, "lookback": 12.0}
    neural = NeuralRDEForecaster(**options, verbose=False).fit(series[:50], listeners=[said])
    assert neural.shares_ is None
    assert len(neural.history_) == 1  # the trial, of 12 epochs
    assert any("After 1 of 12 epochs the neural model brings too little" in message for message in said.messages)
    closed = LogSignatureForecaster(horizon=6.0, lookback=12.0).fit(series[:50])
    wanted = {"now": 40.0, "horizon": 6, "interval": 0.8}
    for one, two in zip(neural.predict(series[50:], **wanted), closed.predict(series[50:], **wanted), strict=True):
        np.testing.assert_array_equal(one, two)
    neural.save(tmp_path / "nothing.nrde")
    assert load(tmp_path / "nothing.nrde").shares_ is None


def test_messages():
    with pytest.raises(ValueError, match="windows"):
        NeuralRDEForecaster(horizon=1, windows=0).fit(np.arange(100.0))
    with pytest.raises(ValueError, match="verbose"):
        NeuralRDEForecaster(horizon=1, verbose="yes").fit(np.arange(100.0))
