"""A stream gives what the batch gives."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde import LogSignatureStream, log_signatures
from neuralrde.paths import cuts_by_time

# Chen products in float64 of a few dozen pieces of order 1.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
pieces = st.lists(st.integers(0, 40), min_size=1, max_size=12)


def push_all(stream, path, counts, times=None):
    out, at = [], 0
    for count in [*counts, len(path)]:
        chunk = slice(at, at + count)
        out.append(stream.push(path[chunk], *([] if times is None else [times[chunk]])))
        at += count
    return np.concatenate([*out, stream.finish()])


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 50), pieces, st.sampled_from(["words", "brackets"]))
def test_stream_equals_batch(channels, depth, step, counts, basis):
    path = np.random.default_rng(len(counts)).normal(size=(97, channels)) / 3
    stream = LogSignatureStream(channels, depth, step=step, basis=basis)
    np.testing.assert_allclose(
        push_all(stream, path, counts), log_signatures(path, depth, step=step, basis=basis), **CLOSE
    )


@given(st.integers(1, 20), pieces, st.sampled_from([(1, 2, 4, 8), (3,), (1, 50)]), st.sampled_from([1, 3, 4]))
def test_stream_of_several_scales_equals_batch(step, counts, scales, depth):
    path = np.random.default_rng(len(counts)).normal(size=(61, 2)) / 3
    depths = (depth, *range(1, len(scales)))
    stream = LogSignatureStream(2, depths, step=step, scales=scales, basis="brackets")
    batch = log_signatures(path, depths, step=step, scales=scales, basis="brackets")
    np.testing.assert_allclose(push_all(stream, path, counts), batch, **CLOSE)


@given(st.floats(0.05, 20), pieces)
def test_stream_by_time_equals_batch(every, counts):
    rng = np.random.default_rng(len(counts))
    path, times = rng.normal(size=(97, 2)) / 3, rng.exponential(size=97).cumsum()
    for scales in ((1,), (1, 4)):
        stream = LogSignatureStream(2, 3, every=every, scales=scales)
        batch = log_signatures(path[None], 3, cuts=cuts_by_time(times[None], every), scales=scales)[0]
        np.testing.assert_allclose(push_all(stream, path, counts, times), batch, **CLOSE)


def test_one_point_at_a_time_and_the_running_window():
    path = np.random.default_rng(0).normal(size=(20, 2))
    stream = LogSignatureStream(2, 4, step=8)
    assert not stream.running().any()
    emitted = [stream.push(point) for point in path]
    assert [len(windows) for windows in emitted] == [0] * 8 + [1] + [0] * 7 + [1] + [0] * 3
    np.testing.assert_allclose(stream.running(), log_signatures(path[16:], 4, step=8)[0], **CLOSE)


@given(st.integers(0, 96))
def test_saved_and_restored_it_goes_on_exactly(cut):
    rng = np.random.default_rng(0)
    path, times = rng.normal(size=(97, 2)), rng.exponential(size=97).cumsum()
    several = {"step": 4, "scales": (1, 2, 8), "depth": (3, 2, 1)}
    for windows, more in (({"step": 10}, ()), ({"every": 9.0}, (times,)), (several, ())):
        stream = LogSignatureStream(2, **{"depth": 3, **windows})
        stream.push(path[:cut], *(t[:cut] for t in more))
        again = LogSignatureStream.from_state(json.loads(json.dumps(stream.state())))
        rest = [path[cut:], *(t[cut:] for t in more)]
        np.testing.assert_array_equal(again.push(*rest), stream.push(*rest))
        np.testing.assert_array_equal(again.finish(), stream.finish())


@pytest.mark.long
def test_a_million_points_in_constant_memory():
    """Pushing needs the memory of a push, and what comes out; and all of it equals the batch."""
    rng = np.random.default_rng(0)
    path = rng.normal(size=(1_000_000, 5)).cumsum(axis=0) * 1e-2
    batch = log_signatures(path, 3, step=1000)
    stream, out = LogSignatureStream(5, 3, step=1000), []
    tracemalloc.start()
    for chunk in np.split(path, 400):
        out.append(stream.push(chunk))
        state = json.dumps(stream.state())
        assert len(state) < 3000, "the state must not grow"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A chunk has 100 kB, all windows together 440 kB; the series itself has 40 MB.
    assert peak < 2e6, f"a million points took {peak / 1e6:.1f} MB"
    out = np.concatenate([*out, stream.finish()])
    # A window of 1000 increments in pieces: rounding of float64 sums.
    np.testing.assert_allclose(out, batch, rtol=1e-8, atol=1e-10)


def test_a_refused_point_leaves_the_stream_as_it_was():
    stream = LogSignatureStream(2, 2, every=1.0)
    stream.push(np.zeros((3, 2)), [0.0, 0.5, 0.8])
    before = stream.state()
    for points, times, message in (
        ([[1.0, np.nan]], [2.0], "NaN"),
        ([[1.0, 2.0]], [0.8], "increas"),
        ([[1.0, 2.0]], None, "times"),
        ([[1.0, 2.0, 3.0]], [2.0], "made for that many channels"),
        ([["a", "b"]], [2.0], "expected real numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            stream.push(points, times)
        assert stream.state() == before
    with pytest.raises(ValueError, match="leave them out"):
        LogSignatureStream(2, 2, step=3).push(np.zeros((1, 2)), [0.0])
    with pytest.raises(TypeError, match="exactly one"):
        LogSignatureStream(2, 2)
    with pytest.raises(ValueError, match="Restore what"):
        LogSignatureStream.from_state({**before, "words": [0.0]})
    with pytest.raises(ValueError, match="before point 2"):
        LogSignatureStream(2, 2, every=1.0).push(np.zeros((3, 2)), [0.0, 2.0, 1.0])


def test_a_stream_by_time_has_no_last_window():
    """46 hours of windows of 10 ms are 2^24; what has passed takes no memory, and one push may not skip as many."""
    stream = LogSignatureStream(1, 2, every=0.01)
    stream.push([[0.0]], [0.0])
    late = LogSignatureStream.from_state({**stream.state(), "window": 2**24 - 1, "time": 167772.15})
    assert len(late.push([[1.0], [2.0]], [167772.17, 167772.19])) == 3
    with pytest.raises(ValueError, match="unit of the times"):
        stream.push([[1.0]], [1e6])
