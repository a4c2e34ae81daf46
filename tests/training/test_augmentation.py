"""Augmentations: what they do to series and targets, and that a resumed training sees the same."""

import jax
import numpy as np
import pytest

from neuralrde.fields import LinearField
from neuralrde.models import MeanState, NeuralRDE
from neuralrde.paths import Series, window_cuts
from neuralrde.signatures import log_signatures
from neuralrde.solvers import Exponential
from neuralrde.training import Examples, RandomChoice, Settings, SquaredError, TimeStretch, fit, stretch_time


def sines(frequencies, length=401):
    t = np.arange(length) / 100
    return Series.from_array(np.sin(2 * np.pi * np.asarray(frequencies)[:, None, None] * t[:, None]))


def crossings(series):
    """Sign changes a point, of each sample: twice the frequency over 100."""
    changes = np.diff(np.sign(series.values[..., 0]), axis=1) != 0
    return changes.sum(axis=1) / (series.lengths - 1)


def test_a_rate_moves_with_the_stretch():
    rates = np.linspace(3.0, 6.0, 50)
    stretched, target = TimeStretch(0.6, 1.5, rate=True)(sines(rates), rates, np.random.default_rng(0))
    assert (target / rates).min() < 0.7
    assert (target / rates).max() > 1.4
    np.testing.assert_array_equal(stretched.lengths, np.floor(400 / (target / rates) + 1e-9) + 1)
    # A series of at least 2.67 s has up to one crossing more or less: 0.5 / 2.67 Hz.
    np.testing.assert_allclose(crossings(stretched) * 50, target, atol=0.2)


def test_a_stretched_series_is_the_path_at_another_speed():
    series = Series.from_array(sines([1.0, 2.0]).values, times=np.arange(401) / 100)
    slow = stretch_time(series, np.array([0.5, 1.0]))
    np.testing.assert_array_equal(slow.lengths, [801, 401])
    np.testing.assert_allclose(slow.values[0, ::2], series.values[0], atol=1e-15)
    np.testing.assert_array_equal(slow.values[1, :401], series.values[1])
    np.testing.assert_allclose(np.diff(slow.times[0]), 0.01, rtol=1e-9)
    # A signature without time does not see the speed: the same path, sampled otherwise (to the error of that).
    whole = [np.asarray(log_signatures(s.values[:1, : s.lengths[0]], 3, step=10**6)) for s in (series, slow)]
    np.testing.assert_allclose(*whole, atol=1e-12)


def test_other_targets_stay():
    target = np.arange(4)
    _, same = TimeStretch(0.6, 1.5)(sines([3.0] * 4), target, np.random.default_rng(0))
    assert same is target


def test_errors_say_what_to_write():
    with pytest.raises(ValueError, match=r"TimeStretch\(0.7, 1.4\)"):
        TimeStretch(1.2, 1.4)
    irregular = Series.from_array(np.zeros((2, 3, 1)), times=[0.0, 1.0, 5.0])
    with pytest.raises(ValueError, match="evenly sampled"):
        TimeStretch()(irregular, np.zeros(2), np.random.default_rng(0))


def test_every_epoch_is_another_and_a_resumed_training_sees_the_same(tmp_path):
    rates = np.linspace(3.0, 6.0, 12).astype(np.float32)[:, None]

    def examples(series, target):
        cuts = window_cuts(Series(np.zeros((len(series), 600, 1)), lengths=series.lengths), step=30)
        windows = np.asarray(log_signatures(series.values, 2, cuts=cuts), np.float32)
        return Examples((series.values[:, 0].astype(np.float32), windows), target)

    stretch, draw = TimeStretch(0.7, 1.4, rate=True), np.random.default_rng(3)
    augmented = RandomChoice([examples(*stretch(sines(rates[:, 0]), rates, draw)) for _ in range(3)], seed=3)
    assert np.abs(augmented.epoch(0).target - augmented.epoch(1).target).max() > 0.1
    np.testing.assert_array_equal(augmented.epoch(1).inputs[1], augmented.epoch(1).inputs[1])
    model = NeuralRDE(1, 1, depth=2, state=4, width=8, layers=1, readout=MeanState(), key=jax.random.key(0))
    options = {"loss": SquaredError(), "settings": Settings(epochs=4, batch_size=12)}
    whole = fit(model, augmented, **options)
    fit(model, augmented, **options, until=2, checkpoint=tmp_path / "run")
    resumed = fit(model, augmented, **options, checkpoint=tmp_path / "run", resume=True)
    for a, b in zip(*(jax.tree.leaves(state.optimizer) for state in (whole, resumed)), strict=True):
        np.testing.assert_array_equal(a, b)


def cut(series, shift):
    cuts = window_cuts(series, step=30, shift=shift)
    windows = np.asarray(log_signatures(series.values, 2, cuts=cuts), np.float32)
    return Examples((series.values[:, 0].astype(np.float32), windows), np.arange(len(series)))


def test_versions_are_drawn_for_each_example_and_have_one_shape():
    series = sines(np.linspace(1.0, 3.0, 40))
    one, other = cut(series, 0), cut(series, 23)
    versions = RandomChoice([one, other], seed=1)
    epoch = versions.epoch(0)
    assert one.inputs[1].shape[1] == 14
    assert other.inputs[1].shape[1] == 15
    own = [np.abs(epoch.inputs[1] - version.inputs[1]).max(axis=(1, 2)) == 0 for version in versions.versions]
    assert (own[0] ^ own[1]).all()
    assert 5 < own[0].sum() < 35
    np.testing.assert_array_equal(epoch.windows, np.where(own[0], 14, 15))
    np.testing.assert_array_equal(epoch.target, np.arange(40))
    np.testing.assert_array_equal(versions.epoch(3).inputs[1], versions.epoch(3).inputs[1])
    assert np.abs(versions.epoch(3).inputs[1] - epoch.inputs[1]).max() > 0
    with pytest.raises(ValueError, match="same examples"):
        RandomChoice([one, other.take(slice(5))])


def test_a_path_cut_elsewhere_drives_a_linear_model_to_the_same_state():
    """The windows are a choice, the path is not: with exact brackets of a linear field, up to the depth's error."""
    series = sines([2.0])
    values = np.concatenate([np.cumsum(series.values, axis=1) / 100, series.values], axis=2)
    series = Series.from_array(values)
    field = LinearField(2, 4, 4, key=jax.random.key(1))
    model = NeuralRDE(2, 1, depth=4, field=field, solver=Exponential(), key=jax.random.key(0))
    answers = []
    for shift in (0, 3):
        cuts = window_cuts(series, step=5, shift=shift)
        windows = np.asarray(log_signatures(values, 4, cuts=cuts, basis="brackets"), np.float32)
        answers.append(np.asarray(model(values[0, 0].astype(np.float32), windows[0])))
    np.testing.assert_allclose(*answers, rtol=1e-4)
