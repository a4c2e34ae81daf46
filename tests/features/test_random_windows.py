"""Random windows of series: the kernel beside the library's own log-signatures and plain NumPy."""

import numpy as np
import pytest

from neuralrde.features import random_windows
from neuralrde.features.random_windows import (
    CHANGES,
    EACH,
    MOST_WORDS,
    SCALED,
    FeatureSizes,
    RandomFeatures,
    RandomWindows,
    check_plan,
    shares,
    window_log_signatures,
)  # fmt: skip
from neuralrde.paths import Series
from neuralrde.signatures import _library

# Kind, dilation, lag, channels kept, span.
PLAN = np.array([[SCALED, 1, 0, 1, 8], [EACH, 3, 0, 2, 24], [CHANGES, 2, 5, 2, 8], [SCALED, 1, 0, 1, 40]], np.int32)
KERNEL = pytest.mark.skipif(not _library.available(), reason="the kernel was not built")


def made(lengths=(60, 60, 33, 9, 1), channels=3, windows=20, maps=5, thresholds=2, competitors=16):
    """Draws and what they see; small whole numbers, so that nothing is rounded before log-signatures."""
    rng = np.random.default_rng(0)
    draws, length = len(PLAN), max(lengths)
    seen = tuple(rng.integers(-3, 4, size=(len(lengths), channels, length)).astype(np.float32) for _ in range(3))
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    drawn = RandomWindows(
        PLAN,
        rng.integers(-1, 2, size=(draws, channels, 2)).astype(np.float32),
        1.0 + 0.1 * normal(draws, MOST_WORDS) ** 2,
        normal(draws, MOST_WORDS, maps),
        normal(draws, thresholds, MOST_WORDS + maps),
        normal(draws, MOST_WORDS, competitors),
        windows,
    )
    return drawn, seen, np.array(lengths)


def without_kernel(monkeypatch, function, *arguments):
    with monkeypatch.context() as patch:
        patch.setattr(_library, "available", lambda *depth: False)
        return function(*arguments)


@pytest.mark.long
@KERNEL
def test_the_kernel_follows_windows_as_log_signatures_does(monkeypatch):
    drawn, seen, lengths = made()
    found = window_log_signatures(drawn, seen, lengths, 20)
    expected = without_kernel(monkeypatch, window_log_signatures, drawn, seen, lengths, 20)
    assert [one.shape[1] for one in found] == drawn.words
    for got, also in zip(found, expected, strict=True):
        # Rounding of float32: products of up to four increments of size 10, relative to the largest.
        np.testing.assert_allclose(got, also, atol=1e-5 * np.abs(also).max())


@KERNEL
def test_shares_are_those_of_plain_counting(monkeypatch):
    drawn, seen, lengths = made()
    for got, expected in zip(
        shares(drawn, seen, lengths, 3), without_kernel(monkeypatch, shares, drawn, seen, lengths, 3), strict=True
    ):
        # A window within rounding of a threshold may fall on either side of it: few do.
        assert np.mean(np.abs(got - expected) > 1e-6) < 2e-3
        assert np.nanmean(np.abs(got - expected)) < 1e-4
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))


@pytest.mark.parametrize("kernel", [pytest.param(True, marks=KERNEL), False])
def test_shares_of_known_windows(kernel, monkeypatch):
    """A channel that rises by one from point to point, from 0 to 9: windows of one point's rise start at 0, ..., 8."""
    if not kernel:
        monkeypatch.setattr(_library, "available", lambda *depth: False)
    plan = np.array([[SCALED, 1, 0, 1, 1]], np.int32)
    ramp = np.arange(10, dtype=np.float32)[None, None]
    at = np.full((1, 1, MOST_WORDS), 0.5, np.float32)
    at[0, 0, 7] = 4.5  # where a window starts, behind the seven numbers of its log-signature
    drawn = RandomWindows(
        plan, np.array([[[1.0, 0.0]]], np.float32), np.ones((1, MOST_WORDS), np.float32),
        np.zeros((1, MOST_WORDS, 0), np.float32), at, np.zeros((1, MOST_WORDS, 0), np.float32), 100,
    )  # fmt: skip
    found, of_parts = shares(drawn, (ramp, ramp, ramp), np.array([10]), 3)
    # A straight line has the increment, 1, and no more; four of nine windows start above 4.5.
    np.testing.assert_allclose(found, [[1.0, 0, 0, 0, 0, 0, 0, np.float32(4 / 9)]], rtol=1e-6)
    # None of the first three, 5 of 3, 4 and 5, and all of the last three.
    np.testing.assert_allclose(of_parts.reshape(3, 8)[:, 7], [0, np.float32(1 / 3), 1], rtol=1e-6)
    np.testing.assert_array_equal(of_parts.reshape(3, 8)[:, 0], 1.0)
    _, of_parts = shares(drawn, (ramp, ramp, ramp), np.array([3]), 3)  # two windows: the last third has none
    np.testing.assert_array_equal(np.isnan(of_parts.reshape(3, 8)).all(axis=1), [False, False, True])


@pytest.mark.parametrize("kernel", [pytest.param(True, marks=KERNEL), False])
def test_what_comes_behind_a_series_end_changes_nothing(kernel, monkeypatch):
    if not kernel:
        monkeypatch.setattr(_library, "available", lambda *depth: False)
    drawn, seen, lengths = made()
    other = tuple(one.copy() for one in seen)
    for one in other:
        one[2, :, lengths[2] :] = 99.0
        one[4, :, 1:] = -99.0
    for got, expected in zip(shares(drawn, seen, lengths, 3), shares(drawn, other, lengths, 3), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_plan_that_cannot_be():
    for column, value in ((0, 3), (1, 0), (2, -1), (3, 3), (4, 7), (4, 2**24)):
        plan = PLAN.copy()
        plan[1, column] = value
        with pytest.raises(ValueError, match="cannot have drawn"):
            check_plan(plan)
    check_plan(PLAN)


def test_so_many_windows_of_the_training_set_lie_below_a_threshold(monkeypatch):
    draw = random_windows._draw
    monkeypatch.setattr(
        random_windows, "_draw", lambda *given: [np.full_like(quantiles, 0.25) for quantiles in draw(*given)]
    )
    walks = np.random.default_rng(0).normal(size=(30, 60, 2)).cumsum(axis=1)
    features = RandomFeatures.fit(Series.from_array(100 * walks), FeatureSizes(draws=20))
    above, first, drawn = features(Series.from_array(100 * walks)).mean(axis=0), 0, features.drawn
    for words, maps, count in zip(drawn.words, drawn.maps, drawn.counts, strict=True):
        share = 0.75 * np.append(np.ones(words), maps.any(axis=0))  # a map of zeros sees nothing
        expected = np.tile(share, drawn.thresholds.shape[1])
        np.testing.assert_allclose(above[first : first + len(expected)], expected, atol=0.01)
        first += count
