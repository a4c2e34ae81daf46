"""Streams as things: many in a batch, saved and moved, refused in words, in flat memory."""

import gc
import json
import os
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from neuralrde import LogSignatureRegressor, NeuralRDERegressor, Series, Windows
from neuralrde.models import MODELS
from neuralrde.online import model as stream_model
from neuralrde.online import stream as stream_module
from neuralrde.registry import Config
from neuralrde.transforms import Compose, FillForward, ScaleEach, Standard, TimeChannel

from .conftest import TINY, untrained

OTHER_PROCESS = """
import json, sys
import numpy as np
import neuralrde.estimators
estimator = neuralrde.estimators.load(sys.argv[1])
told = json.load(sys.stdin)
stream = estimator.stream(told["state"])
stream.push(np.array(told["values"]), told["times"])
print(json.dumps([stream.points, stream.predict()]))
"""


def piece(series, row, first, last):
    return series.values[row, first:last], series.times[row, first:last]


@pytest.fixture(scope="module")
def begun(estimator, walks):
    """The state of a stream in the middle of a window and of a series."""
    stream = estimator.stream()
    stream.push(*piece(walks, 0, 0, 101))
    return stream.state()


@pytest.mark.long
def test_a_state_goes_on_in_another_process(estimator, walks, begun, tmp_path):
    """By way of a model file and JSON, and to the same number."""
    estimator.save(tmp_path / "model.nrde")
    values = [[None if np.isnan(x) else x for x in point] for point in walks.values[0, 101:].tolist()]
    values = [[float("nan") if x is None else x for x in point] for point in values]
    told = json.dumps({"state": begun, "values": values, "times": walks.times[0, 101:].tolist()})
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "model.nrde")]
    done = subprocess.run(command, input=told, capture_output=True, text=True, env=os.environ, timeout=120, check=True)
    points, predicted = json.loads(done.stdout.splitlines()[-1])
    assert points == 160
    # The same program on the same processor; float32, should XLA choose another instruction.
    np.testing.assert_allclose(predicted, estimator.predict(walks[0])[0], rtol=1e-4, atol=1e-5)


def test_a_state_is_small_plain_and_exact(estimator, walks, begun):
    text = json.dumps(begun, allow_nan=False)
    assert len(text) < 4000
    again = estimator.stream(json.loads(text))
    assert again.state() == begun
    stream = estimator.stream()
    stream.push(*piece(walks, 0, 0, 101))
    assert (stream.points, stream.predict()) == (again.points, again.predict())


def test_points_without_times_are_numbered_from_the_first(walks):
    """Not from the first of a push: in pieces and at once the same, and the number of the last point is its time."""
    plain = Series(FillForward().fit(walks)(walks).values)
    estimator = untrained(plain)
    pieces, whole = estimator.stream(), estimator.stream()
    for first in range(0, 60, 20):
        pieces.push(plain.values[0, first : first + 20])
    whole.push(plain.values[0, :60])
    assert pieces.state()["time"] == whole.state()["time"] == 59
    assert pieces.predict() == pytest.approx(whole.predict(), rel=1e-4, abs=1e-5)  # sums in another order, in float32


def test_predicting_commits_nothing(estimator, walks):
    stream = estimator.stream()
    stream.push(*piece(walks, 1, 0, 77))
    before = stream.state()
    assert stream.predict() == stream.predict()
    assert stream.state() == before


def test_a_batch_is_many_single_streams(estimator, walks):
    streams, singles = estimator.streams(), {str(row): estimator.stream() for row in range(5)}
    rng, done = np.random.default_rng(0), dict.fromkeys(singles, 0)
    for name in singles:
        streams.open(name)
    for _ in range(4):
        news = {}
        for name in rng.permutation(list(singles))[: rng.integers(1, 6)]:
            count = int(rng.integers(0, 30))  # none at all, too
            news[str(name)] = piece(walks, int(name), done[name], done[name] + count)
            singles[name].push(*news[str(name)])
            done[name] += count
        assert streams.push(news) == {}
    known = [name for name in singles if done[name]]
    assert len(known) >= 4
    assert streams.predict(known) == pytest.approx({name: singles[name].predict() for name in known}, rel=1e-5)
    # What is kept is the same but for the states, whose last bits depend on the size of the batch.
    kept = streams.state(known[0]), singles[known[0]].state()
    assert kept[0]["carried"]["shifts"][0]["windows"] == kept[1]["carried"]["shifts"][0]["windows"]
    state = streams.close(known[0])
    assert known[0] not in streams
    assert len(streams) == 4
    streams.open("again", state)
    assert streams.state("again") == state


def test_an_error_is_that_of_its_own_stream(estimator, walks):
    streams = estimator.streams()
    for name in "abcdefgh":
        streams.open(name)
        assert streams.push({name: piece(walks, 0, 0, 20)}) == {}
    before = {name: streams.state(name) for name in streams}
    good, times = piece(walks, 0, 20, 30)
    far = np.full((10, 2), 1e300)  # which a path can be, and no log-signature of it
    errors = streams.push({
        "a": (good, times), "b": (far, times), "c": (good[:, :1], times), "d": (good, None), "e": (good, times[::-1]),
        "f": (np.full((10, 2), np.inf), times), "g": ([["x", "y"]], times[:1]), "h": good, "nobody": (good, times),
    })  # fmt: skip
    assert set(errors) == {*"bcdefgh", "nobody"}
    told = {
        "b": "overflows|not a finite number",
        "c": r"Got points of shape \(10, 1\); expected \(count, 2\), or \(2,\) for a single point",
        "d": "Got points without times; expected them with, as before",
        "e": "at point 1 of this push, after .*; expected finite times that increase",
        "f": "Got infinity in channel 0; expected finite numbers, or NaN",
        "g": "expected real numbers",
        "h": r"expected \(values, times or None\)",
        "nobody": "Got the stream 'nobody', which is not open",
    }
    for name, sentence in told.items():
        assert re.search(sentence, errors[name]), errors[name]
    assert streams.points("a") == 30
    for name in "bcdefgh":
        assert streams.state(name) == before[name]


def test_a_push_can_be_taken_back(estimator, walks):
    streams = estimator.streams()
    for name in "ab":
        streams.open(name)
        streams.push({name: piece(walks, 0, 0, 20)})
    before = streams.state("b")
    assert streams.push({name: piece(walks, 0, 20, 50) for name in "ab"}) == {}
    streams.undo("b")
    assert (streams.state("b"), streams.points("a")) == (before, 50)
    streams.undo("b")  # once is all
    assert streams.state("b") == before
    streams.rename("b", "a")
    assert (list(streams), streams.state("a")) == (["a"], before)
    streams.rename("a", "a")
    with pytest.raises(KeyError):
        streams.rename("nobody", "a")
    assert (list(streams), streams.state("a")) == (["a"], before)


def test_nothing_is_compiled_after_warm_up(estimator, walks, monkeypatch):
    sizes = (1, 4)
    for name in ("begin", "advance", "output"):
        most = len(sizes) * (2 if name == "advance" else 1)  # for few windows and for many
        counted = eqx.debug.assert_max_traces(getattr(stream_model, name), max_traces=most)
        monkeypatch.setattr(stream_model, f"_{name}", eqx.filter_jit(counted))
    streams = estimator.streams()
    streams.warm_up(sizes)
    for row in range(7):
        streams.open(str(row))
    for count, rows in ((1, 3), (40, 7), (160, 1)):  # no window, several, many; fewer and more than a batch
        news = {str(row): piece(walks, row, streams.points(str(row)), 160)[:2] for row in range(rows)}
        assert streams.push({name: (x[:count], t[:count]) for name, (x, t) in news.items()}) == {}
        streams.predict(news)
    with pytest.raises(RuntimeError, match="can only be traced 2 times"):  # another size, to show that it is noticed
        streams.warm_up((1, 2))


@pytest.mark.long
def test_memory_is_flat(estimator):
    rng, stream, time = np.random.default_rng(0), estimator.stream(), 0.0
    sizes = []
    tracemalloc.start()
    try:
        for number in range(40):
            times = time + np.cumsum(rng.exponential(size=5000))
            stream.push(rng.normal(size=(5000, 2)).astype(np.float32), times)
            time = times[-1]
            stream.predict()
            if number in (9, 39):
                gc.collect()  # what waits for it has a limit, too, but not the same one each time
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert stream.points == 200_000
    assert sizes[1] - sizes[0] < 50_000  # bytes; one number per point would be more than a million
    assert len(json.dumps(stream.state())) < 4000


# Refusals.


def test_models_that_read_whole_windows_are_refused_by_name(walks):
    fitted = untrained(walks).fitted_
    for name, why in (("ode-rnn", "reads all points"), ("cubic-cde", "smooth path")):
        model = Config(MODELS[name])(channels=2, outputs=1, points=9, key=jax.random.key(0))
        estimator = NeuralRDERegressor._of(replace(fitted, model=model))
        with pytest.raises(
            ValueError, match=f"Got a model of the class .*{why}.*Fit with model='multi-scale-rde' or 'ne"
        ):
            estimator.stream()


@pytest.mark.long
def test_refusals(estimator, walks, monkeypatch):
    with pytest.raises(ValueError, match="Got no point of the stream 'stream' yet; expected at least one"):
        estimator.stream().predict()
    with pytest.raises(ValueError, match="Got last=9 for an estimator without a closed form, which keeps no"):
        estimator.stream(last=9)
    with pytest.raises(ValueError, match=r"which has no classes; expected a classifier. Write `predict`"):
        estimator.stream().predict_proba()
    streams = estimator.streams()
    streams.open("a")
    with pytest.raises(ValueError, match="Got the name 'a', which is open already"):
        streams.open("a")
    each = untrained(walks, transform=Compose(Standard(time=False), ScaleEach(), TimeChannel()))
    with pytest.raises(ValueError, match="Got ScaleEach for a series that is still arriving"):
        each.stream()
    whole = untrained(FillForward().fit(walks)(walks), transform=Compose(TimeChannel()))
    with pytest.raises(ValueError, match=r"Got a missing value in channel .* fills none; expected numbers"):
        whole.stream().push([np.nan, 1.0], [0.0])
    by_time = untrained(walks, windows=Windows(every=0.01))
    with pytest.raises(ValueError, match=r"Got a gap of 1000 between points, 1e\+05 windows of 0\.01; expected fewer"):
        by_time.stream().push([[1.0, 1.0], [2.0, 2.0]], [0.0, 1000.0])
    monkeypatch.setattr(stream_module, "MOST", 10)
    closed = LogSignatureRegressor(draws=2, maps=2).fit(walks, np.nanmean(walks.values, axis=(1, 2)))
    stream = closed.stream()
    stream.push(*piece(walks, 0, 0, 10))
    with pytest.raises(ValueError, match=r"expected at most 10. Write `estimator.stream\(last=N\)`"):
        stream.push(*piece(walks, 0, 10, 11))
    assert stream.points == 10


def test_a_state_of_another_model_is_refused(walks, begun, estimator):
    other = untrained(walks, model=TINY)
    with pytest.raises(ValueError, match=r"Got a state of the model .*, the fingerprint of this one"):
        other.stream(begun)
    with pytest.raises(ValueError, match="Got a state of format 2; expected 1"):
        estimator.stream(begun | {"format": 2})
    with pytest.raises(ValueError, match=r"Got the state 'nonsense'; expected what `stream.state.*` returned"):
        estimator.stream("nonsense")


def leaves(state, path=()):
    """Every place in a state."""
    yield path
    inner = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for key, value in inner:
        yield from leaves(value, (*path, key))


def changed(state, path, value):
    state = json.loads(json.dumps(state))
    place = state
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return state


def test_hostile_states_are_refused_and_never_crash(estimator, walks, begun):
    """Each place of a state, with things that do not belong there."""
    rng, refused, nested = np.random.default_rng(0), 0, []
    for _ in range(500):
        nested = [nested]
    strange = [None, "x", [], {}, [1.0], -1, 10**400, float("nan"), float("inf"), 2**60, nested, True, 1e39]
    places = [path for path in leaves(begun) if path]
    streams = estimator.streams()
    for number in rng.choice(len(places), 120):
        bad = changed(begun, places[number], strange[rng.integers(len(strange))])
        try:
            streams.open("bad", bad)
        except ValueError:
            refused += 1
            continue
        # Of the right kind: then it is a stream, whose predictions are wrong or refused.
        assert set(streams.push({"bad": piece(walks, 0, 120, 130)})) <= {"bad"}
        streams.close("bad")
    assert refused > 80
    for without in begun:
        with pytest.raises(ValueError, match="Got "):
            estimator.stream({name: value for name, value in begun.items() if name != without})
    for wrong in (changed(begun, ("points",), 5), changed(begun, ("carried", "shifts", 0, "windows", "window"), 3)):
        with pytest.raises(ValueError, match=r"Got a state that is not one of this model: it counts"):
            estimator.stream(wrong)


def test_hostile_buffers_are_refused(walks):
    closed = LogSignatureRegressor(draws=2, maps=2).fit(walks, np.nanmean(walks.values, axis=(1, 2)))
    stream = closed.stream(last=20)
    stream.push(*piece(walks, 0, 0, 30))
    state = stream.state()
    json.dumps(state, allow_nan=False)  # missing values are null
    assert closed.stream(state).predict() == stream.predict()
    news = [("values", []), ("values", [[1.0]] * 20), ("times", None), ("times", [1.0] * 20), ("dtype", "object")]
    news += [("points", 7), ("timed", False), ("last", True), ("last", 10**30), ("values", [[1e400, 1.0]] * 20)]
    for name, value in news:
        with pytest.raises(ValueError, match="Got "):
            closed.stream(state | {name: value})
