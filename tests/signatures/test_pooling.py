"""Counting windows above thresholds: the kernel beside plain NumPy."""

import numpy as np
import pytest

from neuralrde.signatures import _kernel
from neuralrde.signatures.pooling import count_above, count_winners


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize(("samples", "windows", "words", "maps", "thresholds"), [(5, 7, 3, 5, 2), (40, 130, 15, 39, 8)])
def test_counts(samples, windows, words, maps, thresholds, kernel, monkeypatch):
    if not kernel:
        monkeypatch.setattr(_kernel, "available", lambda *depth: False)
    rng = np.random.default_rng(0)
    # Small whole numbers: products and sums are exact in float32, in any order.
    logs = rng.integers(-4, 5, size=(samples, windows, words)).astype(np.float32)
    map_ = rng.integers(-3, 4, size=(words, maps)).astype(np.float32)
    at = rng.integers(-9, 10, size=(thresholds, maps)).astype(np.float32)
    own = rng.integers(0, windows + 1, size=samples)
    counts = count_above(logs, map_, at, windows=own)
    for sample in range(samples):
        above = (logs[sample, : own[sample]].astype(np.float64) @ map_)[:, None] > at
        np.testing.assert_array_equal(counts[sample], above.sum(axis=0))


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize(("samples", "windows", "words", "groups"), [(5, 7, 3, 1), (20, 90, 13, 5)])
def test_winners(samples, windows, words, groups, kernel, monkeypatch):
    if not kernel:
        monkeypatch.setattr(_kernel, "available", lambda *depth: False)
    rng = np.random.default_rng(0)
    # Small whole numbers: exact in float32, and with many ties.
    logs = rng.integers(-2, 3, size=(samples, windows, words)).astype(np.float32)
    maps = rng.integers(-1, 2, size=(words, 8 * groups)).astype(np.float32)
    own = rng.integers(0, windows + 1, size=samples)
    counts = count_winners(logs, maps, windows=own)
    for sample in range(samples):
        values = (logs[sample, : own[sample]] @ maps).reshape(-1, groups, 8)
        largest, smallest = (values == end(axis=2, keepdims=True) for end in (values.max, values.min))
        np.testing.assert_array_equal(counts[sample, 0], largest.sum(axis=0).ravel())
        np.testing.assert_array_equal(counts[sample, 1], smallest.sum(axis=0).ravel())


def test_counts_of_parts_add_up():
    rng = np.random.default_rng(1)
    logs, maps = rng.normal(size=(3, 50, 4)).astype(np.float32), rng.normal(size=(4, 6)).astype(np.float32)
    at = np.zeros((1, 6), np.float32)
    parts = count_above(logs[:, :20], maps, at) + count_above(logs[:, 20:], maps, at)
    np.testing.assert_array_equal(parts, count_above(logs, maps, at))


def test_wrong_numbers_are_refused():
    logs, maps, at = np.zeros((2, 3, 1), np.float32), np.zeros((1, 4), np.float32), np.zeros((9, 4), np.float32)
    with pytest.raises(ValueError, match="Got 9 thresholds per map; expected 1 to 8"):
        count_above(logs, maps, at)
    with pytest.raises(ValueError, match="expected 0 to 3"):
        count_above(logs, maps, at[:1], windows=np.array([1, 4]))
