"""Series to test on: ragged or not, with times or without, with missing values or without."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from neuralrde.paths import Series

from .. import shapes


def make_series(seed, *, samples=3, length=8, channels=2, ragged=True, timed=True, missing=0.3) -> Series:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(samples, length, channels)) * [10.0**c for c in range(channels)] + 5.0
    values[rng.random(values.shape) < missing] = np.nan
    if missing:
        # Something of each channel, so that there is a mean to learn.
        values[0, 0] = 1.0
    return Series(
        values,
        times=rng.normal() + np.cumsum(rng.exponential(size=(samples, length)), axis=1) if timed else None,
        lengths=rng.integers(1, length + 1, samples) if ragged else None,
        ids=[f"sample {i}" for i in range(samples)],
    )


@st.composite
def series(draw, **fixed) -> Series:
    options = {
        "samples": st.integers(1, 4),
        "length": st.integers(1, 12),
        "channels": st.integers(1, 3),
        "ragged": st.booleans(),
        "timed": st.booleans(),
        "missing": st.sampled_from([0.0, 0.3, 0.8]),
    }
    drawn = {name: draw(option) for name, option in options.items() if name not in fixed}
    seed = draw(st.integers(0, 2**32 - 1))
    with shapes.unchecked():  # beartype looks at random items of lists, which Hypothesis does not want in here
        return make_series(seed, **drawn, **fixed)


def beginning(series: Series, points: int) -> Series:
    """What was known of a series when it had `points` points."""
    return replace(
        series,
        values=series.values[:, :points],
        times=None if series.times is None else series.times[:, :points],
        lengths=np.minimum(series.lengths, points),
    )


def alone(series: Series, sample: int) -> Series:
    """One sample by itself, without padding."""
    return beginning(series[sample], int(series.lengths[sample]))


def training_like(series: Series, seed: int = 0) -> Series:
    """Another series with the same channels, to fit steps on."""
    other = make_series(seed, channels=len(series.channels), timed=series.times is not None)
    return replace(other, channels=series.channels)
