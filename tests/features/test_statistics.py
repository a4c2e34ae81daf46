"""Statistics against a loop that takes each channel of each series by itself."""

import numpy as np
import pytest

from neuralrde import Series
from neuralrde.features import statistics
from neuralrde.tools.assessment import running_statistics, summary_statistics


def ragged(missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(5.0, 2.0, size=(length, 3)) for length in (1, 2, 9, 30, 30)]
    for array in arrays:
        array[rng.random(array.shape) < missing] = np.nan
    arrays[3][:, 1] = np.nan  # a channel that was never on
    return Series.from_arrays(arrays)


def seven(values):
    """Of one channel, by hand."""
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return [np.nan] * 7
    changes = np.diff(known) if len(known) > 1 else np.zeros(1)
    return [
        known.mean(),
        known.std(),
        known.min(),
        known.max(),
        np.abs(changes).mean(),
        changes.std(),
        known[-1] - known[0],
    ]


def by_hand(values):
    return np.array([seven(channel) for channel in values.T]).T.ravel()


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_of_whole_series(missing):
    series = ragged(missing)
    expected = [by_hand(values[:length]) for values, length in zip(series.values, series.lengths, strict=True)]
    # Sums of at most 30 numbers, in another order.
    np.testing.assert_allclose(summary_statistics(series), expected, rtol=1e-12, atol=1e-12)


def test_in_pieces(monkeypatch):
    whole = summary_statistics(ragged())
    monkeypatch.setattr(statistics, "_PIECE", 100)
    np.testing.assert_array_equal(summary_statistics(ragged()), whole)


def test_of_what_was_seen_so_far():
    series, rows = ragged(), []
    for values, length in zip(series.values, series.lengths, strict=True):
        rows += [by_hand(values[: point + 1]) for point in range(length)]
    found = running_statistics(series)
    assert found.shape == (series.lengths.sum(), 8 * 3)
    # A deviation from sums of squares: half the digits of float64 remain where it is near 0.
    np.testing.assert_allclose(found[:, : 7 * 3], rows, rtol=1e-9, atol=1e-7)


def test_a_point_knows_nothing_of_later_ones():
    series = ragged()
    changed = series.values.copy()
    changed[3, 20:] = 1e6
    other = Series(changed, lengths=series.lengths)
    start = series.lengths[:3].sum()
    before, after = running_statistics(series), running_statistics(other)
    np.testing.assert_array_equal(before[: start + 20], after[: start + 20])
    assert (before[start + 20 : start + 30] != after[start + 20 : start + 30]).any()
