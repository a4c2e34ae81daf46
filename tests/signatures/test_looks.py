"""Log-signatures that look back any length, and over the whole past: each equals that of its part of the path."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralrde import LogSignatureStream, Series, Windows, log_signature, log_signatures
from neuralrde.signatures import _spans
from neuralrde.signatures.rounding import driving_log_signatures

seeds = st.integers(0, 2**32 - 1)
# Products of some hundred pieces of order 1 in float64: rounding is below 1e-12 of the largest.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def irregular(rng, lengths) -> Series:
    """Series of two channels with clocks of their own, in which windows without a point occur."""
    times = [np.cumsum(rng.exponential(size=length) * rng.choice([0.2, 3.0], length)) for length in lengths]
    return Series.from_arrays([rng.normal(size=(length, 2)) / 3 for length in lengths], times=times)


def last_up_to(times, moment) -> int:
    return max(0, int(np.searchsorted(times, moment + 1e-9, side="right")) - 1)


def direct(series: Series, windows: Windows) -> list[np.ndarray]:
    """One window after the other, cut out of the path by its clock or its count."""
    looks, found = [*(windows.lengths or ()), *([np.inf] if windows.whole else [])], []
    for path, clock, length in zip(series.values, series.clock, series.lengths, strict=True):
        clock = clock[:length] if windows.every else np.arange(length, dtype=float)
        unit = windows.every or windows.step
        count = max(1, int(np.ceil((clock[-1] - clock[0]) / unit - 1e-9)))
        rows = []
        for number in range(1, count + 1):
            over = clock[0] + number * unit
            end = last_up_to(clock, over)
            starts = [min(end, last_up_to(clock, over - back)) for back in looks]
            parts = zip(starts, windows.depths, strict=True)
            rows.append(np.concatenate([log_signature(path[start : end + 1], depth) for start, depth in parts]))
        found.append(np.stack(rows))
    return found


def ours(series: Series, windows: Windows) -> np.ndarray:
    cuts = windows.cuts(series)
    path = np.asarray(series.values, np.float64)
    return driving_log_signatures(path, cuts=cuts, since=windows.starts(series, cuts), **windows.looks)


@settings(max_examples=12)
@given(seeds, st.integers(1, 13), st.lists(st.integers(1, 60), min_size=1, max_size=3, unique=True), st.booleans())
def test_by_count_each_is_its_part_of_the_path(seed, step, lengths, joined):
    rng = np.random.default_rng(seed)
    windows = Windows(step=step, lengths=tuple(lengths), depth=(3, 2, 1)[: len(lengths)], whole=2)
    series = irregular(rng, [41, 17, 1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_spans, "_EACH", -(10**9) if joined else 10**9)
        found = ours(series, windows)
    for row, expected in zip(found, direct(series, windows), strict=True):
        np.testing.assert_allclose(row[: len(expected)], expected, **CLOSE)
        assert not row[len(expected) :].any()  # padding drives nothing
    of_function = log_signatures(
        series.values[0], windows.depth, step=step, lengths=windows.lengths, whole=windows.whole
    )
    np.testing.assert_allclose(of_function, direct(series, windows)[0], **CLOSE)


@settings(max_examples=12)
@given(seeds, st.floats(0.3, 4), st.lists(st.floats(0.2, 15), min_size=1, max_size=2, unique=True))
def test_by_time_each_is_its_part_of_the_path(seed, every, lengths):
    windows = Windows(every=every, lengths=tuple(lengths), depth=2, whole=1)
    series = irregular(np.random.default_rng(seed), [33, 12])
    for row, expected in zip(ours(series, windows), direct(series, windows), strict=True):
        np.testing.assert_allclose(row[: len(expected)], expected, **CLOSE)


@settings(max_examples=12)
@given(seeds, st.integers(1, 13), st.lists(st.integers(0, 30), min_size=1, max_size=8))
def test_a_stream_by_count_equals_the_whole(seed, step, counts):
    rng = np.random.default_rng(seed)
    path, lengths = rng.normal(size=(83, 2)) / 3, tuple(rng.choice(np.arange(1, 50), 3, replace=False).tolist())
    stream = LogSignatureStream(2, (3, 2, 1), step=step, lengths=lengths, whole=2)
    found, at = [], 0
    for count in [*counts, 83]:
        found.append(stream.push(path[at : at + count]))
        at += count
        stream = LogSignatureStream.from_state(json.loads(json.dumps(stream.state())))
        running = log_signatures(path[: min(at, 83)], (3, 2, 1), step=step, lengths=lengths, whole=2)[-1:] if at else []
        if len(tail := stream.finish()):  # what looks back from the running window, too
            np.testing.assert_allclose(tail, running, **CLOSE)
    found = np.concatenate([*found, stream.finish()])
    np.testing.assert_allclose(found, log_signatures(path, (3, 2, 1), step=step, lengths=lengths, whole=2), **CLOSE)


@settings(max_examples=12)
@given(seeds, st.floats(0.3, 4), st.lists(st.integers(0, 30), min_size=1, max_size=8))
def test_a_stream_by_time_equals_the_whole(seed, every, counts):
    rng = np.random.default_rng(seed)
    windows = Windows(every=every, lengths=tuple(rng.uniform(0.2, 15, 2)), depth=(2, 3), whole=1)
    series = irregular(rng, [60])
    stream = LogSignatureStream(2, windows.depth, every=every, lengths=windows.lengths, whole=1)
    found, at = [], 0
    for count in [*counts, 60]:
        some = slice(at, at + count)
        found.append(stream.push(series.values[0, some], series.clock[0, some]))
        at += count
    np.testing.assert_allclose(np.concatenate([*found, stream.finish()]), direct(series, windows)[0], **CLOSE)


def test_a_length_of_whole_windows_is_a_scale():
    rng = np.random.default_rng(0)
    series = irregular(rng, [50, 31])
    for by in ({"step": 6}, {"every": 2.5}):
        unit = next(iter(by.values()))
        lengths, scales = (Windows(depth=2, **by, **how) for how in ({"lengths": (3 * unit,)}, {"scales": (3,)}))
        assert lengths.looks == scales.looks
        np.testing.assert_array_equal(ours(series, lengths), ours(series, scales))


def test_labels_between_do_not_shorten_what_is_looked_back_on():
    """A window that a label cuts short looks back as far as it does when it is complete."""
    series = irregular(np.random.default_rng(0), [40])
    labelled = np.zeros((1, 40), bool)
    labelled[0, [3, 17, 29]] = True
    for windows in (Windows(step=8, lengths=(16, 11), depth=2), Windows(every=3.0, lengths=(6.0, 4.5), depth=2)):
        cuts = windows.cuts(series, at=labelled)
        starts: list = windows.starts(series, cuts, at=labelled)
        clock = series.clock[0] if windows.every else np.arange(40.0)
        unit = windows.every or windows.step
        for label in np.flatnonzero(labelled):
            if label not in windows.cuts(series):
                column = int(np.flatnonzero(cuts[0, 1:] == label)[0])
                over = clock[0] + np.ceil((clock[label] - clock[0]) / unit) * unit
                expected = [min(label, last_up_to(clock, over - back)) for back in windows.lengths or ()]
                assert [int(one[0, column]) for one in starts] == expected


def test_a_stream_holds_pieces_and_not_points():
    """However many points are looked back on, a window has two pieces: the memory of 2 x 41 log-signatures."""
    stream = LogSignatureStream(2, 2, step=1000, lengths=(20_500,))
    sizes = []
    for _ in range(40):
        stream.push(np.random.default_rng(0).normal(size=(1000, 2)))
        sizes.append(sum(np.size(value) for value in stream.state().values()))
    assert sizes[-1] == sizes[0] < 400
