import json

import numpy as np
import pytest

from neuralrde.paths import Series
from neuralrde.transforms import Compose, Integral, Products, Spectrogram

from ..paths.examples import make_series


def test_bands_together_have_the_variance_and_means_are_means():
    noise = np.random.default_rng(0).normal(size=(5, 640, 2)) * [1.0, 10.0] + 3.0
    series = Series.from_array(noise)
    frames = Spectrogram(64, bands=(0.0, 0.1, 0.5), floor=1e-12).fit(series)(series)
    assert frames.values.shape == (5, 10, 6)
    np.testing.assert_allclose(frames.values[..., 0], noise[..., 0].reshape(5, 10, 64).mean(2))
    power = np.exp(frames.values[..., [1, 4]]) + np.exp(frames.values[..., [2, 5]])
    np.testing.assert_allclose(power.mean((0, 1)), noise.var((0, 1)), rtol=0.1)


def test_a_tone_is_in_its_band():
    tone = np.sin(2 * np.pi * 0.3 * np.arange(500))[None]
    transform = Spectrogram(50, 25, bands=(0.05, 0.2, 0.4, 0.5), mean=False).fit(Series.from_array(tone))
    assert (transform(Series.from_array(tone)).values.argmax(axis=2) == 1).all()


def test_the_last_frame_ends_at_the_last_point_of_each_sample():
    series = Series.from_arrays([np.arange(10.0), np.arange(7.0), np.arange(2.0)])
    frames = Spectrogram(4, bands=()).fit(series)(series)
    assert frames.lengths.tolist() == [3, 2, 1]
    assert frames.times.tolist() == [[3.0, 7.0, 9.0], [3.0, 6.0, 6.0], [1.0, 1.0, 1.0]]
    assert frames.values[..., 0].tolist() == [[1.5, 5.5, 7.5], [1.5, 4.5, 4.5], [0.75, 0.75, 0.75]]


def test_silence_has_a_logarithm():
    series = Series.from_array(np.zeros((2, 64)))
    assert np.isfinite(Spectrogram(16).fit(series)(series).values).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frame": 0}, "frame=0; expected a whole number"),
        ({"frame": 8, "hop": 0}, "hop=0; expected"),
        ({"frame": 8, "bands": (0.1, 0.7)}, "0 to 0.5"),
        ({"frame": 8, "bands": (0.3, 0.1)}, "increasing"),
        ({"frame": 8, "bands": (0.3,)}, "increasing"),
        ({"frame": 8, "bands": (0.13, 0.2, 0.5)}, "band 0 holds none"),
        ({"frame": 8, "bands": (), "mean": False}, "at least one"),
        ({"frame": 8, "floor": 0.0}, "floor"),
    ],
)
def test_what_makes_no_frames_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Spectrogram(**options)


@pytest.mark.parametrize("transform", [Spectrogram(4), Integral()])
def test_missing_values_are_refused(transform):
    series = make_series(0)
    with pytest.raises(ValueError, match=r"missing values.*FillForward"):
        transform.fit(series)(series)


def test_integrated_products_are_second_moments():
    values = np.random.default_rng(0).normal(size=(2, 1000, 2))
    moments = Compose(Products(), Integral())(Series.from_array(values)).values[:, -1] / 999
    wanted = np.einsum("nti,ntj->nij", values, values)[:, [0, 0, 1], [0, 1, 1]] / 1000
    np.testing.assert_allclose(moments, wanted, atol=0.02)


def test_an_integral_knows_times_and_stands_still_on_padding():
    series = Series(
        [[[1.0], [1.0], [3.0]], [[2.0], [2.0], [0.0]]], times=[[0.0, 2.0, 3.0], [0.0, 1.0, 9.0]], lengths=[3, 2]
    )
    assert Integral()(series).values[..., 0].tolist() == [[0.0, 2.0, 4.0], [0.0, 2.0, 2.0]]


def test_the_floor_does_not_depend_on_the_level_or_the_precision():
    noise = np.random.default_rng(0).normal(size=(5, 640, 1))
    floors = [
        Spectrogram(np.int64(64), floor=1e-4).fit(Series.from_array((noise + level).astype(dtype))).floors_[0]
        for level in (0.0, 101_325.0)
        for dtype in (np.float64, np.float32)
    ]
    np.testing.assert_allclose(floors, 1e-4 * noise.var(), rtol=1e-3)  # 101,325 in float32 is rounded to 0.008
    assert json.dumps(Spectrogram(np.int64(64)).state())
