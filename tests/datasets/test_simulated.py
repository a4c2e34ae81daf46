"""The simulated sets have the answers that they promise."""

import numpy as np
import pytest

from neuralrde.datasets import fractional_brownian_motion, load, order_of_events, spirals


def levy_area(values):
    x, y = np.moveaxis(values - values[:, :1], 2, 0)
    return (x[:, :-1] * np.diff(y) - y[:, :-1] * np.diff(x)).sum(axis=1) / 2


def fitted_accuracy(features, target):
    """Least squares on one half, right answers on the other."""
    features = np.concatenate([features.reshape(len(target), -1), np.ones((len(target), 1))], axis=1)
    half = len(target) // 2
    weights = np.linalg.lstsq(features[:half], 2.0 * target[:half] - 1, rcond=None)[0]
    return np.mean((features[half:] @ weights > 0) == target[half:])


def products(values):
    """All products of two of the numbers: what a quadratic classifier sees."""
    flat = values.reshape(len(values), -1)
    i, j = np.triu_indices(flat.shape[1])
    return np.concatenate([flat, flat[:, i] * flat[:, j]], axis=1)


def test_the_order_of_events_is_in_the_area_and_not_in_subsampled_points():
    data = order_of_events(samples=4000, length=256, events=8)
    values, target = data.series.values, data.target
    np.testing.assert_array_equal(levy_area(values), np.where(target == 0, 4.0, -4.0))
    # Over windows of one or two stretches, of 32 points each, it is the same.
    for step in (32, 64):
        for start in range(0, 256 - step, step):
            np.testing.assert_array_equal(
                np.sign(levy_area(values[:, start : start + step + 1])), np.where(target == 0, 1, -1)
            )
    # 2000 coin tosses: 50 % within 5 standard deviations.
    assert fitted_accuracy(products(values[:, ::32]), target) == pytest.approx(0.5, abs=0.056)
    np.testing.assert_array_equal(values[:, ::32, 0], values[:, ::32, 1])
    # The same events in the other order look the same where it is subsampled.
    assert np.bincount(target).tolist() == [2000, 2000]


def test_noise_leaves_the_area_visible():
    data = order_of_events(samples=400, length=128, events=8, noise=0.1)
    assert np.mean((levy_area(data.series.values) < 0) == data.target) > 0.95


def test_spirals_turn_as_their_class_says():
    data = spirals(samples=200, length=50, seed=3)
    np.testing.assert_array_equal(levy_area(data.series.values) > 0, data.classes.index("anticlockwise") == data.target)
    assert data.series.times[:, [0, -1]].tolist() == [[0.0, 1.0]] * 200
    even = spirals(samples=4, length=5, irregular=False).series.times
    np.testing.assert_allclose(even, np.tile(np.linspace(0, 1, 5), (4, 1)))
    x, y = np.moveaxis(
        spirals(samples=4, length=500, irregular=False).series.values[:, 1:], 2, 0
    )  # from where it has left 0
    turns = np.ptp(np.unwrap(np.arctan2(y, x)), axis=1) / (2 * np.pi)
    np.testing.assert_allclose(turns, 2.0 * 498 / 499, rtol=1e-9)


def test_the_noise_of_spirals_is_that_of_each_point():
    quiet, noisy = (spirals(samples=200, length=50, noise=noise, seed=3).series.values for noise in (0.0, 0.5))
    noise = noisy - quiet
    # 20,000 draws: the deviation of their mean is 0.0035, that of their spread 0.0025; neighbours are independent.
    assert abs(noise.mean()) < 0.018
    assert noise.std() == pytest.approx(0.5, abs=0.013)
    assert abs(np.mean(noise[:, 1:] * noise[:, :-1])) < 0.01


@pytest.mark.parametrize("hurst", [0.1, 0.3, 0.5, 0.75, 0.95])
def test_fractional_brownian_motion_has_its_covariance(hurst):
    samples, length = 20_000, 9
    paths = fractional_brownian_motion(samples, length, hurst=hurst).series.values[..., 0]
    t = np.linspace(0, 1, length)
    power = 2 * hurst
    exact = (t[:, None] ** power + t**power - np.abs(t[:, None] - t) ** power) / 2
    found = paths.T @ paths / samples
    # The standard error of a covariance is at most sqrt(2 / samples) = 0.01 here, as variances are at most 1.
    np.testing.assert_allclose(found, exact, atol=0.05)
    np.testing.assert_allclose(paths.mean(axis=0), 0, atol=5 / np.sqrt(samples))


def test_the_hurst_exponent_can_be_found_from_increments():
    data = fractional_brownian_motion(300, 1024, seed=1)
    paths = data.series.values[..., 0]
    sizes = [np.abs(paths[:, s:] - paths[:, :-s]).mean(axis=1) for s in (1, 2, 4)]
    found = np.log2(sizes[2] / sizes[0]) / 2
    assert np.abs(found - data.target).mean() < 0.05
    assert data.target.min() > 0.1
    assert data.target.max() < 0.9


def test_channels_are_independent():
    paths = fractional_brownian_motion(20_000, 3, hurst=0.7, channels=2).series.values
    assert abs(np.mean(paths[:, -1, 0] * paths[:, -1, 1])) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("make", [order_of_events, spirals, fractional_brownian_motion])
def test_the_seed_decides_and_names_load(make):
    a, b, c = make(10, 40, seed=1), make(10, 40, seed=1), make(10, 40, seed=2)
    np.testing.assert_array_equal(a.series.values, b.series.values)
    assert not np.array_equal(a.series.values, c.series.values)
    np.testing.assert_array_equal(load(a.name, samples=10, length=40, seed=1).series.values, a.series.values)
    assert len(make(3, 40)) == 3
    with pytest.raises(ValueError, match="samples=0"):
        make(0)
    with pytest.raises(ValueError, match=r"length=2\.5"):
        make(3, 2.5)


def test_short_ones():
    assert fractional_brownian_motion(2, 1).series.values.tolist() == [[[0.0]], [[0.0]]]
    assert spirals(2, 1).series.values.shape == (2, 1, 2)
    with pytest.raises(ValueError, match="expected at least 32"):
        order_of_events(2, 16)
    with pytest.raises(ValueError, match="hurst=1"):
        fractional_brownian_motion(2, hurst=1.0)
