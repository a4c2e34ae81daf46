"""Ridge regression that leaves out samples and groups in closed form, beside doing it for real."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from neuralrde.features import ridge as ridge_module
from neuralrde.features.ridge import PENALTIES, Ridge


def _without(features, targets, weight, left, penalty):
    """Fitted without some rows, by the normal equations; weights keep their size, as those of the whole set."""
    x, y, w = features[~left], targets[~left], weight[~left]
    mean, level = np.average(x, axis=0, weights=w), np.average(y, axis=0, weights=w)
    square = (x - mean).T * w @ (x - mean) + penalty * np.eye(x.shape[1])
    coefficients = np.linalg.solve(square, (x - mean).T * w @ (y - level))
    return (features[left] - mean) @ coefficients + level


def _first():
    """A loss that takes the first of all penalties."""
    number = itertools.count()
    return lambda predictions, rows: float(next(number))


@pytest.mark.parametrize("penalties", [[0.1], [0.1, 1e9]])  # by a factorisation, and by a decomposition
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("samples", "features"), [(12, 30), (40, 6)])
def test_what_is_left_out_is_left_out(samples, features, grouped, weighted, penalties):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(samples, features)), rng.normal(size=(samples, 2))
    weight = rng.uniform(0.5, 2.0, samples) if weighted else np.ones(samples)
    groups = rng.integers(0, 5, samples) if grouped else np.arange(samples)
    ridge = Ridge.fit(x, y, weight=weight, groups=groups if grouped else None, penalties=penalties, loss=_first())
    scaled = weight * samples / weight.sum()
    for group in np.unique(groups):
        left = groups == group
        expected = _without(x, y, scaled, left, ridge.penalty)
        # Groups add 1e-9 to a diagonal, so that one which decides alone does not divide by zero.
        np.testing.assert_allclose(ridge.left_out[left], expected, rtol=1e-6, atol=1e-6)


def test_the_penalty_is_the_best_of_those_left_out():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 40))
    y = x[:, :1] + 2 * rng.normal(size=(50, 1))
    errors = {}
    for penalty in (1e-4, 1e-2, 1.0, 100.0):
        errors[penalty] = float(((Ridge.fit(x, y, penalties=[penalty]).left_out - y) ** 2).mean())
    unit = float(((x - x.mean(axis=0)) ** 2).sum()) / len(x)
    chosen = Ridge.fit(x, y, penalties=list(errors)).penalty / unit
    assert chosen == pytest.approx(min(errors, key=errors.__getitem__))


def test_a_loss_of_ones_own_decides():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(30, 5)), rng.normal(size=(30, 1))
    largest = Ridge.fit(x, y, loss=lambda predictions, rows: float(np.ptp(predictions)))
    assert largest.penalty == pytest.approx(Ridge.fit(x, y, penalties=[1e2]).penalty)  # the one that says least


def test_samples_without_weight_count_for_nothing():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 5)), rng.normal(size=(30, 1))
    weight = np.ones(30)
    weight[:10] = 0.0
    ridge, smaller = Ridge.fit(x, y, weight=weight), Ridge.fit(x[10:], y[10:])
    np.testing.assert_allclose(ridge.coefficients, smaller.coefficients)
    np.testing.assert_allclose(ridge.left_out[10:], smaller.left_out)


def test_weights_are_repetitions_that_are_left_out_together():
    """The penalty is relative to the mean weight, so that weights have no unit."""
    rng = np.random.default_rng(5)
    x, y, weight = rng.normal(size=(20, 30)), rng.normal(size=(20, 2)), rng.integers(1, 5, 20)
    copies = np.repeat(np.arange(20), weight)
    weighted = Ridge.fit(x, y, weight=0.1 * weight, penalties=[0.1])
    repeated = Ridge.fit(x[copies], y[copies], groups=copies, penalties=[0.1 * weight.mean()])
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, rtol=1e-9, atol=1e-12)
    # Groups add 1e-9 to a diagonal.
    np.testing.assert_allclose(weighted.left_out[copies], repeated.left_out, rtol=1e-6, atol=1e-6)


def test_many_samples_are_fitted_with_the_penalty_of_a_part(monkeypatch):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(120, 90))
    y = x[:, :1] + rng.normal(size=(120, 1))
    monkeypatch.setattr("neuralrde.features.ridge._LARGEST", 60)
    monkeypatch.setattr("neuralrde.features.ridge._PART", 60)
    for groups in (None, np.arange(120) // 10):
        found = Ridge.fit(x, y, groups=groups)
        assert found.penalty / _unit(x) == pytest.approx(
            PENALTIES[np.abs(np.log(PENALTIES * _unit(x) / found.penalty)).argmin()]
        )
        expected = Ridge.fit(x, y, groups=groups, penalties=[found.penalty / _unit(x)])
        np.testing.assert_allclose(found.coefficients, expected.coefficients)


def _unit(x):
    return float(((x - x.mean(axis=0)) ** 2).sum()) / len(x)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("samples", "features"), [(60, 90), (90, 40)])
def test_blocks_and_float32_give_what_a_decomposition_gives(samples, features, grouped, monkeypatch):
    monkeypatch.setattr("neuralrde.features.ridge._BLOCK", 16)
    rng = np.random.default_rng(6)
    x = rng.normal(1.0, 1.0, size=(samples, features)).astype(np.float32)
    y = x[:, :2] + rng.normal(size=(samples, 2))
    options = {"weight": rng.uniform(0.5, 2.0, samples), "groups": rng.integers(0, 20, samples) if grouped else None}
    found = Ridge.fit(x, y, penalties=[0.1], **options)
    expected = Ridge.fit(x, y, penalties=[0.1, 1e9], loss=_first(), **options)
    # Float32: 24 bits, of numbers of size 1 whose factorisation loses three digits.
    for one in ("coefficients", "intercept", "left_out"):
        np.testing.assert_allclose(getattr(found, one), getattr(expected, one), atol=1e-4)


@pytest.mark.parametrize(("samples", "width"), [(60, 90), (200, 60)])
def test_scales_of_blocks_are_the_best_of_those_left_out(samples, width):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, width))
    y = x[:, -10:] @ rng.normal(size=(10, 1)) + rng.normal(size=(samples, 1))
    blocks = [(slice(0, width - 10), (1.0,)), (slice(width - 10, width), (0.2, 1.0, 5.0))]
    found = Ridge.fit(x, y, blocks=blocks)
    losses, ridges = [], []
    for scale in (0.2, 1.0, 5.0):
        each = np.r_[np.ones(width - 10), np.full(10, scale)]
        ridges.append(Ridge.fit(x * each, y))
        ridges[-1] = replace(ridges[-1], coefficients=ridges[-1].coefficients * each[:, None])
        losses.append(((ridges[-1].left_out - y) ** 2).mean())
    assert int(np.argmin(losses)) == 2
    # The same systems, whose condition is at most 1e5, decomposed from sums in another order.
    np.testing.assert_allclose(found.coefficients, ridges[2].coefficients, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.left_out, ridges[2].left_out, rtol=1e-6, atol=1e-8)


def test_scales_of_blocks_of_many_samples(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 120))
    y = x[:, -10:] @ rng.normal(size=(10, 1)) + rng.normal(size=(300, 1))
    blocks = [(slice(0, 110), (1.0,)), (slice(110, 120), (0.2, 5.0))]
    whole = Ridge.fit(x, y, blocks=blocks)
    monkeypatch.setattr(ridge_module, "_LARGEST", 100)
    monkeypatch.setattr(ridge_module, "_PART", 200)
    part = Ridge.fit(x, y, blocks=blocks)
    np.testing.assert_allclose(part(x), part.left_out, atol=3.0)
    # The part may choose the next penalty; the scale decides.
    assert np.corrcoef(part.coefficients[:, 0], whole.coefficients[:, 0])[0, 1] > 0.99


def test_a_part_of_many_samples_has_all_classes_that_take_turns():
    rows = np.arange(3000)
    assert 0.4 < (ridge_module._part(rows, None) % 2).mean() < 0.6
