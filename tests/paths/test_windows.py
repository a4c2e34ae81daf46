import json
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neuralrde.paths import Series, Windows, cuts_by_count, cuts_by_time, window_counts, window_cuts
from neuralrde.registry import make, to_plain
from neuralrde.transforms import FillForward, WithBoundaries

from .examples import alone, beginning, make_series, series


@given(st.integers(1, 200), st.integers(1, 250))
def test_windows_by_count_hold_every_increment_once(length, step):
    cuts = cuts_by_count(length, step)
    assert cuts.dtype == np.int64
    assert len(cuts) - 1 == max(1, ceil((length - 1) / step))
    assert (cuts[0], cuts[-1]) == (0, length - 1)
    assert (np.diff(cuts)[:-1] == step).all()
    assert length == 1 or 1 <= cuts[-1] - cuts[-2] <= step


def test_one_point_makes_one_empty_window():
    np.testing.assert_array_equal(cuts_by_count(1, 32), [0, 0])
    np.testing.assert_array_equal(cuts_by_time([[3.0]], every=0.5), [[0, 0]])


@given(series(), st.integers(1, 15))
def test_a_sample_that_has_ended_has_empty_windows(given_series, step):
    cuts = window_cuts(given_series, step=step)
    for i, length in enumerate(given_series.lengths):
        own = cuts[i] if given_series.ragged else cuts
        expected = cuts_by_count(int(length), step)
        np.testing.assert_array_equal(own[: len(expected)], expected)
        assert (own[len(expected) :] == length - 1).all()


def naive_cuts(times, every, windows, start):
    """The definition, word for word: the last point that is observed up to each boundary."""
    cuts = []
    for k in range(windows + 1):
        seen = [j for j, time in enumerate(times) if time - start <= k * every]
        cuts.append(seen[-1] if seen else 0)
    return cuts


@given(series(timed=True), st.floats(0.05, 20.0), st.one_of(st.none(), st.floats(0.0, 5.0)))
def test_windows_by_time_are_the_naive_loop(given_series, every, earlier):
    start = None if earlier is None else float(given_series.times.min() - earlier)
    cuts = window_cuts(given_series, every=every, start=start)
    samples = [t[:n] for t, n in zip(given_series.times, given_series.lengths, strict=True)]
    starts = [t[0] if start is None else start for t in samples]
    positions = [(t - s) / every for t, s in zip(samples, starts, strict=True)]
    # On a boundary but for rounding, the naive loop is wrong: the next test has exact fractions for this.
    assume(all((np.abs(p - np.round(p)) > 1e-6 * p).all() for p in (q[q != 0] for q in positions)))
    windows = max(1, *(ceil(p[-1]) for p in positions))
    assert cuts.shape == (len(samples), windows + 1)
    for own, times, begin in zip(cuts, samples, starts, strict=True):
        assert own.tolist() == naive_cuts(times.tolist(), every, windows, begin)
        assert (own[0], own[-1]) == (0, len(times) - 1)
        assert (np.diff(own) >= 0).all()


@given(
    steps=st.lists(st.integers(1, 9), min_size=0, max_size=30),
    first=st.integers(-(10**6), 10**10),
    unit=st.sampled_from([10, 7, 3, 1000, 60]),
    every=st.integers(1, 12),
    summed=st.booleans(),
)
def test_times_on_a_boundary_up_to_rounding_are_on_it(steps, first, unit, every, summed):
    ticks = np.cumsum([0, *steps])
    exact = [Fraction(first + int(tick), unit) for tick in ticks]
    if summed:  # as times often come about
        rounded = np.cumsum([first / unit, *(step / unit for step in steps)])
    else:
        rounded = np.array([float(time) for time in exact])
    windows = max(1, ceil(Fraction(int(ticks[-1]), every)))
    expected = naive_cuts(exact, Fraction(every, unit), windows, exact[0])
    assert cuts_by_time(rounded[None], every / unit).tolist() == [expected]


def test_a_long_series_of_tenths():
    tenths = np.cumsum(np.full((1, 100_001), 0.1), axis=1)
    np.testing.assert_array_equal(cuts_by_time(tenths, every=0.5), np.arange(0, 100_001, 5)[None])


def test_tenths_of_seconds_since_1970():
    # float64 rounds such times to a quarter of a microsecond, either way.
    tenths = (17_000_000_001 + np.arange(1000)[None]) / 10
    np.testing.assert_array_equal(cuts_by_time(tenths, every=0.3), np.arange(0, 1000, 3)[None])


def test_a_time_just_behind_a_boundary_is_not_on_it():
    assert cuts_by_time([[0.0, 0.5 + 1e-6, 1.0]], every=0.5).tolist() == [[0, 0, 2]]


@given(series(timed=True, samples=1), st.floats(0.05, 20.0))
def test_a_window_is_known_once_its_time_is_over(given_series, every):
    given_series = alone(given_series, 0)
    whole = window_cuts(given_series, every=every)[0]
    for points in range(1, given_series.values.shape[1]):
        past = window_cuts(beginning(given_series, points), every=every)[0]
        # The next point is in a later window, or else the last one of the past is not over yet.
        over = len(past) if whole[len(past) - 1] == points - 1 else len(past) - 1
        np.testing.assert_array_equal(past[:over], whole[:over])


@given(series(timed=True, missing=0.0), st.floats(0.05, 20.0), st.one_of(st.none(), st.floats(0.0, 5.0)))
def test_boundaries_make_windows_those_of_the_interpolated_path(given_series, every, earlier):
    start = None if earlier is None else float(given_series.times.min() - earlier)
    bounded = WithBoundaries(every, start=start)(given_series)
    cuts = window_cuts(bounded, every=every, start=start)
    for i, n in enumerate(given_series.lengths):
        time, new_time = given_series.times[i, :n], bounded.times[i, : bounded.lengths[i]]
        begin = time[0] if start is None else start
        assert set(time) <= set(new_time)
        boundaries = begin + every * np.arange(cuts.shape[1])
        for c in range(len(given_series.channels)):
            values, new_values = given_series.values[i, :n, c], bounded.values[i, : bounded.lengths[i], c]
            # Interpolation in another order of operations, between numbers below 1000.
            np.testing.assert_allclose(new_values, np.interp(new_time, time, values), rtol=1e-9, atol=1e-9)
            at_cuts = bounded.values[i, cuts[i], c]
            np.testing.assert_allclose(at_cuts, np.interp(boundaries, time, values), rtol=1e-6, atol=1e-6)


def test_no_point_is_put_where_one_stands():
    tenths = Series.from_array(np.arange(31.0)[None], times=0.1 * np.arange(31))
    np.testing.assert_array_equal(WithBoundaries(0.5)(tenths).times, tenths.times)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda s: window_cuts(s), ValueError, "neither step nor every.*exactly one.*step=32.*every=0.5"),
        (lambda s: window_cuts(s, step=3, every=0.5), ValueError, "both step=3 and every=0.5"),
        (lambda s: window_cuts(s, step=0), ValueError, "step=0; expected a whole number of at least 1"),
        (lambda s: window_cuts(s, step=2.0), ValueError, "step=2.0; expected a whole number"),
        (lambda s: window_cuts(s, step=True), ValueError, "step=True; expected a whole number"),
        (lambda s: window_cuts(s, step=3, start=0.0), ValueError, "start= with windows by count"),
        (lambda s: window_cuts(s, every=0), ValueError, "every=0; expected a finite number above 0"),
        (lambda s: window_cuts(s, every="1h"), ValueError, "every='1h'; expected a finite number above 0"),
        (
            lambda s: window_cuts(s, every=1.0, start=100.0),
            ValueError,
            "start=100.0 for sample 0.*at or before",
        ),
        (lambda s: window_cuts(s, every=1.0, start=[0.0, 0.0]), ValueError, r"start of shape \(2,\)"),
        (lambda s: window_cuts(s, every=1e-9), ValueError, "windows; expected at most.*unit of the times"),
        (
            lambda s: window_cuts(Series(s.values), every=1.0),
            ValueError,
            "without times.*step=32.*times=times",
        ),
        (lambda s: WithBoundaries(1.0)(Series(s.values)), ValueError, "without times"),
        (lambda s: WithBoundaries(1.0)(s), ValueError, "NaN in sample.*FillForward"),
        (lambda s: cuts_by_time([0.0, 1.0], 1.0), ValueError, r"times of shape \(2,\)"),
        (lambda s: cuts_by_time([[1.0, 0.0]], 1.0), ValueError, "do not increase"),
        (lambda s: cuts_by_time([[1.0, np.nan]], 1.0), ValueError, "not finite"),
        (lambda s: cuts_by_time([[0.0, 1.0]], 1.0, lengths=[3]), ValueError, "length 3 for sample 0"),
        (lambda s: cuts_by_count(0, 1), ValueError, "length=0; expected a whole number of at least 1, .*empty series"),
    ],
)
def test_wrong_windows_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(make_series(3))


@given(series(timed=True), st.floats(0.05, 20.0), st.integers(1, 15))
def test_windows_lose_no_increment(given_series, every, step):
    filled = FillForward(default=0.0)(given_series)
    total = filled.values[:, -1] - filled.values[:, 0]
    for cuts in (window_cuts(filled, every=every), window_cuts(filled, step=step)):
        cuts = np.broadcast_to(cuts, (len(filled), cuts.shape[-1]))
        at_cuts = np.take_along_axis(filled.values, cuts[..., None], axis=1)
        # A telescoping sum of numbers below 1000.
        np.testing.assert_allclose(np.diff(at_cuts, axis=1).sum(axis=1), total, atol=1e-10)


@given(series(timed=True), st.floats(0.2, 20.0), st.integers(1, 15), st.floats(0.0, 1.0), st.booleans())
def test_cuts_at_points_as_well(given_series, every, step, share, by_time):
    """Each sample has its regular cuts, empty windows included, and the points; and nothing else."""
    how = {"every": every} if by_time else {"step": step}
    at = np.random.default_rng(0).random(given_series.valid.shape) < share
    regular = window_cuts(given_series, **how)
    cuts = window_cuts(given_series, at=at, **how)
    regular = np.broadcast_to(regular, (len(given_series), regular.shape[-1]))
    for own, usual, points, length in zip(cuts, regular, at, given_series.lengths, strict=True):
        new = sorted(set(np.flatnonzero(points[:length])) - set(usual))
        expected = sorted([*usual, *new])
        until = expected.index(length - 1) + 1
        assert own[:until].tolist() == expected[:until]
        assert (own[until:] == length - 1).all()
    counts = window_counts(given_series, cuts)
    assert cuts.shape[1] == max(1, counts.max()) + 1  # no more padding than needed


@pytest.mark.parametrize("at", [np.zeros((2, 8), bool), np.zeros((3, 8)), [1, 5]])
def test_points_to_cut_at_are_a_mask(at):
    with pytest.raises(ValueError, match=r"at= of shape .* expected \(3, 8\) and bool"):
        window_cuts(make_series(3), step=2, at=at)


RAGGED = Series.from_arrays([np.zeros(9), np.zeros(33), np.zeros(101)])


def test_windows_resolve_a_count_to_a_step_by_the_median_length():
    assert Windows(count=8).resolved(RAGGED) == Windows(step=4)  # 32 increments of the series of median length
    assert Windows(count=8, depth=3, shifts=2).resolved(RAGGED) == Windows(step=4, depth=3, shifts=2)
    assert Windows(count=1000).resolved(RAGGED).step == 1
    whole = Windows(count=1).resolved(RAGGED)
    assert whole.cuts(RAGGED).tolist() == [[0, 8], [0, 32], [0, 100]]
    for told in (Windows(step=5), Windows(every=0.5)):
        assert told.resolved(RAGGED) == told


def test_windows_from_a_number_and_not_by_a_search():
    assert Windows.of(16) == Windows(step=16)
    assert Windows.of(Windows(every=2.0)) == Windows(every=2.0)
    with pytest.raises(ValueError, match=r"windows='auto'; expected .*GridSearchCV"):
        Windows.of("auto")  # type: ignore


def test_several_scales_and_depths():
    windows = Windows(step=8, depth=(3, 2), scales=(1, 4))
    assert make("windows", Windows(step=8), depth=[3, 2], scales=[1, 4]) == windows  # lists, as TOML has them
    assert hash(windows) == hash(Windows(step=8, depth=(3, 2), scales=(1, 4)))
    assert repr(windows) == "Windows(step=8, depth=(3, 2), scales=(1, 4))"
    assert repr(Windows(step=8)) == "Windows(step=8, depth=2)"
    assert windows.depths == (3, 2)
    assert Windows(scales=(1, 2, 4)).depths == (2, 2, 2)
    assert eval(repr(windows)) == windows
    for one in (windows, Windows(every=0.5, scales=(1, 2))):
        plain = to_plain("windows", one)
        assert make("windows", json.loads(json.dumps(plain))) == one


@pytest.mark.parametrize("step", [1, 2, 7, 10])
def test_all_shifts_cut_the_same_path_in_ways_of_their_own(step):
    series = Series.from_array(np.zeros((1, 41)))
    windows = Windows(step=step, shifts=4)
    shifts = windows.all_shifts()
    assert shifts[0] == 0
    assert len(set(shifts)) == len(shifts) == min(4, step)
    assert all(0 <= shift < step for shift in shifts)
    for shift in shifts:
        cuts = windows.cuts(series, shift=shift)
        assert (cuts[0], cuts[-1]) == (0, 40)
        assert (np.diff(cuts) <= step).all()
        assert set(cuts[1:-1]) == {point for point in range(1, 40) if (point + shift) % step == 0}
    assert Windows(every=2.0).all_shifts() == [0]


def test_windows_by_time_and_at_labels():
    timed = Series.from_array(np.zeros((1, 5)), times=[0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(Windows(every=2.0).cuts(timed), window_cuts(timed, every=2.0))
    at = np.array([[False, True, False, False, False]])
    assert Windows(step=2).cuts(timed, at=at).tolist() == [[0, 1, 2, 4]]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"step": 0}, "step=0"),
        ({"step": 2.5}, r"step=2\.5"),
        ({"step": "all"}, "step='all'"),
        ({"step": True}, "step=True"),
        ({"depth": 0}, "depth=0"),
        ({"depth": 13}, "depth=13"),
        ({"count": 0}, "count=0"),
        ({"shifts": 0}, "shifts=0"),
        ({"every": -1.0}, r"every=-1"),
        ({"step": 4, "every": 1.0}, r"both step=4 and every=1\.0"),
        ({"every": 1.0, "shifts": 2}, r"shifts=2 with every=1\.0.*step"),
        ({"scales": ()}, r"scales=\(\)"),
        ({"scales": (2, 2)}, "different numbers above 0"),
        ({"scales": "auto"}, "scales='auto'"),
        ({"scales": (1, 2), "depth": (2,)}, "or 2, one for each"),
        ({"scales": (1, 2), "depth": (2, 13)}, "depth=13"),
        ({"scales": (1, 2), "depth": (2, "auto")}, "depth='auto'"),
    ],
    ids=str,
)
def test_windows_that_make_no_sense_are_refused(wrong, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Windows(**wrong)


def test_windows_keep_scales_as_they_are_understood():
    assert repr(Windows(step=4, scales=(1.0, 2.0))) == "Windows(step=4, depth=2, scales=(1, 2))"
    assert Windows(step=4, lengths=(6, np.inf)).looks == {"depth": 2, "scales": (1.5, np.inf)}
