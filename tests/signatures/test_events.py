"""Event-wise paths: the words from sums over observations are those of the dense path along the axes."""

import numpy as np
import pytest

from neuralrde.paths import Series
from neuralrde.signatures import log_signatures, lyndon_words
from neuralrde.signatures.events import EventLogSignature, event_log_signatures, frequent_pairs

CHANNELS, WINDOWS = 4, 3
PAIRS = np.array([[0, 1], [0, 3], [2, 3], [1, 2]])


def some(seed=0, known=0.4):
    """Irregular series of several lengths, most of whose values are missing; one channel is never observed."""
    rng = np.random.default_rng(seed)
    lengths = [12, 30, 7, 1]
    times = [np.sort(rng.uniform(0, 10, length)) for length in lengths]
    arrays = [np.where(rng.random((n, CHANNELS)) < known, rng.normal(size=(n, CHANNELS)), np.nan) for n in lengths]
    arrays[1][:, 2] = np.nan
    series = Series.from_arrays(arrays, times=times)
    ends = np.array([clock[-1] for clock in times])
    edges = np.stack([np.array([clock[0] - 0.5 for clock in times]), 0.3 * ends, 0.7 * ends, ends + 0.25], axis=1)
    return series, np.sort(edges, axis=1)


def dense(series, edges, row, start):
    """The path of one series along the axes, point by point, and the places of the edges."""
    position, last = np.concatenate([[edges[row, 0]], np.zeros(CHANNELS)]), start.copy()
    path, cuts, edge = [position.copy()], [0], 1
    for point in range(series.lengths[row]):
        time = series.clock[row, point]
        while time > edges[row, edge]:
            position[0] = edges[row, edge]
            path.append(position.copy())
            cuts.append(len(path) - 1)
            edge += 1
        position[0] = time
        path.append(position.copy())
        for channel in np.flatnonzero(~np.isnan(series.values[row, point])):
            value = series.values[row, point, channel]
            position[1 + channel] += 0.0 if np.isnan(last[channel]) else value - last[channel]
            last[channel] = value
            path.append(position.copy())
    while edge <= WINDOWS:
        position[0] = edges[row, edge]
        path.append(position.copy())
        cuts.append(len(path) - 1)
        edge += 1
    return np.array(path), np.array(cuts)


@pytest.mark.parametrize("begins", ["at zero", "at the first value"])
def test_words_are_those_of_the_path_along_the_axes(begins):
    series, edges = some()
    start = np.zeros(CHANNELS) if begins == "at zero" else None
    found = event_log_signatures(series, edges, PAIRS, start=start)
    words = lyndon_words(1 + CHANNELS, 2)
    wanted = [(0,), *((c,) for c in range(1, 1 + CHANNELS)), *((0, c) for c in range(1, 1 + CHANNELS))]
    wanted += [(1 + i, 1 + j) for i, j in PAIRS.tolist()]
    places = [words.index(word) for word in wanted]
    for row in range(len(series)):
        path, cuts = dense(series, edges, row, np.full(CHANNELS, np.nan) if start is None else start)
        expected = log_signatures(path, 2, cuts=cuts)[:, places]
        np.testing.assert_allclose(found[row], expected, rtol=1e-9, atol=1e-9)  # float64, other sums


@pytest.mark.parametrize("start", [None, np.linspace(-1, 1, CHANNELS)])
def test_a_series_that_arrives_has_the_same(start):
    series, edges = some(seed=1)
    found = event_log_signatures(series, edges, PAIRS, start=start)
    for row in range(len(series)):
        stream, window = EventLogSignature(CHANNELS, PAIRS, float(edges[row, 0]), start), 0
        for values, time in zip(series.values[row, : series.lengths[row]], series.clock[row], strict=False):
            while time > edges[row, window + 1]:
                window += 1
                np.testing.assert_allclose(stream.log_signature(edges[row, window]), found[row, window - 1], atol=1e-9)
                stream.next_window(edges[row, window])
            stream.push(values, time)
        np.testing.assert_allclose(stream.log_signature(edges[row, window + 1]), found[row, window], atol=1e-9)


def test_neither_padding_nor_other_series_matter():
    series, edges = some(seed=2)
    together = event_log_signatures(series, edges, PAIRS)
    alone = [event_log_signatures(series[[row]], edges[[row]], PAIRS)[0] for row in range(len(series))]
    np.testing.assert_allclose(together, alone, atol=1e-9)  # sums run over all series


def test_nothing_observed_moves_time_alone():
    series = Series([[[np.nan, np.nan], [np.nan, np.nan]]], times=[[0.0, 1.0]])
    found = event_log_signatures(series, np.array([[0.0, 1.0]]), np.array([[0, 1]]))
    assert found.tolist() == [[[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]]
    assert frequent_pairs(series, 5).tolist() == [[0, 1]]
