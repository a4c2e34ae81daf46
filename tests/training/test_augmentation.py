"""Augmentations: what they do to series and targets, and that a resumed training sees the same."""

import jax
import numpy as np
import pytest

from neuralrde.models import MeanState, NeuralRDE
from neuralrde.paths import Series
from neuralrde.signatures import log_signatures
from neuralrde.training import Augmented, Examples, Settings, SquaredError, TimeStretch, fit


def sines(frequencies, length=401):
    t = np.arange(length) / 100
    return Series.from_array(np.sin(2 * np.pi * np.asarray(frequencies)[:, None, None] * t[:, None]))


def crossings(series):
    """Sign changes a point, of each sample: twice the frequency over 100."""
    return (np.diff(np.sign(series.values[..., 0]), axis=1) != 0).mean(axis=1)


def test_a_rate_moves_with_the_stretch():
    rates = np.linspace(3.0, 6.0, 50)
    stretched, target = TimeStretch(0.6, 1.5, rate=True)(sines(rates), rates, np.random.default_rng(0))
    assert stretched.values.shape == (50, 267, 1)
    assert (target / rates).min() < 0.7
    assert (target / rates).max() > 1.4
    # A piece of 2.67 s has up to one crossing more or less: 0.5 / 2.67 Hz.
    np.testing.assert_allclose(crossings(stretched) * 50, target, atol=0.2)


def test_other_targets_stay():
    target = np.arange(4)
    _, same = TimeStretch(0.6, 1.5)(sines([3.0] * 4), target, np.random.default_rng(0))
    assert same is target


def test_plain_pieces_are_pieces_of_the_series():
    series, stretch = sines([3.0, 4.0]), TimeStretch(0.5, 2.0)
    for where, start in ((0.0, 0), (0.5, 100), (1.0, 200)):
        piece = series.values[:, start : start + 201]
        np.testing.assert_allclose(stretch.plain(series, where).values, piece, atol=1e-15)  # the last is interpolated


def test_errors_say_what_to_write():
    with pytest.raises(ValueError, match=r"TimeStretch\(0.7, 1.4\)"):
        TimeStretch(1.2, 1.4)
    with pytest.raises(ValueError, match="one length"):
        TimeStretch()(Series(np.zeros((2, 9, 1)), lengths=[5, 9]), np.zeros(2), np.random.default_rng(0))


def test_every_epoch_is_another_and_a_resumed_training_sees_the_same(tmp_path):
    rates = np.linspace(3.0, 6.0, 12).astype(np.float32)[:, None]

    def examples(series, target):
        windows = np.asarray(log_signatures(series.values, 2, step=30), np.float32)
        return Examples((series.values[:, 0].astype(np.float32), windows), target)

    augmented = Augmented(sines(rates[:, 0]), rates, [TimeStretch(0.7, 1.4, rate=True)], examples, seed=3)
    assert np.abs(augmented.epoch(0).target - augmented.epoch(1).target).max() > 0.1
    np.testing.assert_array_equal(augmented.epoch(1).inputs[1], augmented.epoch(1).inputs[1])
    model = NeuralRDE(1, 1, depth=2, state=4, width=8, layers=1, readout=MeanState(), key=jax.random.key(0))
    options = {"loss": SquaredError(), "settings": Settings(epochs=4, batch=12)}
    whole = fit(model, augmented, **options)
    fit(model, augmented, **options, until=2, checkpoint=tmp_path / "run")
    resumed = fit(model, augmented, **options, checkpoint=tmp_path / "run", resume=True)
    for a, b in zip(*(jax.tree.leaves(state.optimiser) for state in (whole, resumed)), strict=True):
        np.testing.assert_array_equal(a, b)
