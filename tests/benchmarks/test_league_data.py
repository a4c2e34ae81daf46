"""The league's data: sets as their archives have them, damage of the right shares, and a regular grid for the peers."""

import jax
import numpy as np
import pytest

from benchmarks.quality.league.damage import DAMAGES, damaged
from benchmarks.quality.league.data import (
    LEAGUES,
    SEEDS,
    SETS,
    WALKER_SETS,
    LeagueSet,
    load_set,
    old_generator,
    walker_split,
    with_static_channels,
)
from benchmarks.quality.league.grid import on_grid
from neuralrde import Series
from neuralrde.datasets import Dataset


@pytest.fixture
def series() -> Series:
    """Lengths 40 and 31, two channels whose values tell series, point and channel."""
    points = np.arange(40)[None, :, None] + 100 * np.arange(2)[:, None, None] + 0.5 * np.arange(2)
    return Series(points.astype(np.float32), lengths=[40, 31])


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_depends_on_name_kind_and_seed_alone(series, kind):
    hurt = lambda **how: damaged(series, kind, **{"name": "a", "seed": 0, **how})
    first, second = hurt(), hurt()
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.clock, second.clock)
    for other in (hurt(seed=1), hurt(name="b")):
        same = first.values.shape == other.values.shape and np.array_equal(first.values, other.values, equal_nan=True)
        assert same == (kind == "none")


def test_half_of_the_points_are_dropped_and_times_tell_which(series):
    hurt = damaged(series, "dropped", name="a", seed=0)
    assert hurt.lengths.tolist() == [20, 31 - 15]
    assert hurt.values.dtype == np.float32
    for row in range(2):
        length = hurt.lengths[row]
        times, values = hurt.times[row, :length], hurt.values[row, :length]
        assert times[0] == 0
        assert times[-1] == series.lengths[row] - 1
        np.testing.assert_array_equal(values[:, 0], 100 * row + times)  # each value is still at its own time


def test_thirty_percent_of_each_channel_are_missing(series):
    hurt = damaged(series, "missing", name="a", seed=0)
    for row, length in enumerate(series.lengths):
        gone = np.isnan(hurt.values[row, :length])
        assert gone.sum(axis=0).tolist() == [round(0.3 * length)] * 2
        assert (gone[:, 0] != gone[:, 1]).any()  # each channel by itself
        np.testing.assert_array_equal(hurt.values[row, :length][~gone], series.values[row, :length][~gone])
    assert hurt.lengths.tolist() == series.lengths.tolist()


def test_series_are_cut_to_sixty_to_a_hundred_percent():
    many = Series(np.tile(np.arange(100.0, dtype=np.float32)[None, :, None], (300, 1, 1)))
    lengths = damaged(many, "cut", name="a", seed=0).lengths
    assert (lengths.min(), lengths.max()) == (61, 100)  # the ceiling of shares drawn from 0.6 to 1
    assert 78 < lengths.mean() < 82  # 80 in the mean; the deviation of a mean of 300 is 0.7
    assert (damaged(many, "cut", name="a", seed=0).values[:, 0] == 0).all()  # the beginning stays


def test_a_damage_that_does_not_exist_is_refused(series):
    with pytest.raises(ValueError, match=r"Got the damage 'burnt'; expected one of none, dropped, missing, cut"):
        damaged(series, "burnt", name="a", seed=0)


def test_the_grid_gives_straight_lines_back(series):
    """Values are linear in time, so interpolation is exact, and held after a series' end."""
    for kind in ("none", "dropped"):
        grid = on_grid(damaged(series, kind, name="a", seed=0))
        assert grid.shape == (2, 2, 40)
        np.testing.assert_array_equal(grid[0], series.values[0].T)
        np.testing.assert_array_equal(grid[1, :, :31], series.values[1, :31].T)
        np.testing.assert_array_equal(grid[1, :, 31:], np.repeat(grid[1, :, 30:31], 9, axis=1))


def test_the_grid_fills_missing_values(series):
    hurt = damaged(series, "missing", name="a", seed=0)
    grid = on_grid(hurt)
    known = ~np.isnan(hurt.values[0])
    inside = slice(*(known.all(axis=1).nonzero()[0][[0, -1]]))
    np.testing.assert_allclose(grid[0, :, inside], series.values[0, inside].T, rtol=1e-6)  # float32
    assert on_grid(Series([[[np.nan], [np.nan]]])).tolist() == [[[0.0, 0.0]]]


def test_the_generator_is_that_of_the_published_splits():
    """The two keys that JAX's documentation printed for years for `split(PRNGKey(0))`."""
    with old_generator():
        keys = np.asarray(jax.random.split(jax.random.PRNGKey(0)))
    assert keys.tolist() == [[4146024105, 967050713], [2718843009, 1272950319]]


def test_random_splits_divide_all_series():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(101, 5, 2)).astype(np.float32)
    values[100] = values[0]  # a repeated series is left out
    whole = LeagueSet("a", Series(values), np.arange(101).astype(str), np.arange(50), np.arange(50, 101))
    divided, larger = walker_split(whole, 2345), walker_split(whole, 2345, with_validation=True)
    assert (len(divided.train), len(divided.test)) == (70, 15)
    assert (len(larger.train), len(larger.test)) == (85, 15)
    rows = np.concatenate([larger.train, larger.test])
    assert sorted(rows) == list(range(100))
    assert divided.test.tolist() == larger.test.tolist()
    assert divided.test.tolist() != walker_split(whole, 3456).test.tolist()
    assert len(SEEDS["walker"]) == 5


def test_what_is_known_of_a_sample_becomes_channels_at_its_first_point():
    values = np.array([[[1.0, np.nan], [2.0, 3.0]], [[np.nan] * 2] * 2, [[4.0, 5.0], [6.0, np.nan]]], np.float32)
    static = {"age": [70, 60, 50], "x1": [7.0, 8.0, 9.0]}
    whole = with_static_channels(Dataset(Series(values), ["a", "b", "b"], static=static))
    assert whole.series.channels == ("x0", "x1", "age")
    known = np.nan_to_num(whole.series.values, nan=-1).tolist()
    assert known == [[[1, 7, 70], [2, 3, -1]], [[4, 5, 50], [6, -1, -1]]]  # a value of its own comes first
    assert whole.target.tolist() == [0, 1]
    some = with_static_channels(Dataset(Series(values), ["a", "b", "b"], static=static), ["x1"]).series
    assert np.nan_to_num(some.values, nan=-1).tolist() == [[[1, 7], [2, 3]], [[4, 5], [6, -1]]]


def test_leagues_share_one_set():
    assert set(LEAGUES["regular"]) & set(LEAGUES["irregular"]) == {"JapaneseVowels"}
    assert (len(LEAGUES["regular"]), len(LEAGUES["irregular"]), len(SETS)) == (23, 14, 38)


@pytest.mark.parametrize("name", [*SETS[:3], *WALKER_SETS])
def test_sets_are_as_the_archives_have_them(real_data, name):
    sizes = {
        "ACSF1": (100, 100, 1460, 1, 10),
        "AtrialFibrillation": (15, 15, 640, 2, 3),
        "BasicMotions": (40, 40, 100, 6, 4),
        "SelfRegulationSCP1": (268, 293, 896, 6, 2),
        "SelfRegulationSCP2": (200, 180, 1152, 7, 2),
    }
    assert tuple(load_set(name).size.values()) == sizes[name]
