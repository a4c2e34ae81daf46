"""Transforms and log-signatures in pieces are those of whole series."""

import jax
import numpy as np
import pytest

from neuralrde import NeuralRDE, Series, Windows
from neuralrde.estimators.sources import inputs_of
from neuralrde.signatures.streams import LogSignatureStreams
from neuralrde.transforms import (
    TRANSFORMS,
    BasePoint,
    FillForward,
    FillLinear,
    Integral,
    ObservationCounts,
    Products,
    Resample,
    Scale,
    ScaleEach,
    Spectrogram,
    Standard,
    TimeChannel,
    TimeSinceObserved,
    WithBoundaries,
)

from .conftest import irregular

BACK = [
    ObservationCounts(),
    TimeSinceObserved(),
    FillForward(),
    FillForward(default=0.5),
    Scale(),
    TimeChannel(),
    TimeChannel(duration=2.0),
    BasePoint(),
    Products(changes=True),
    Standard(base_point=True),
]
AHEAD = {
    FillLinear(): "An interpolated value depends on the next observation. Fit with FillForward instead",
    Resample(): "A value on the grid depends on the next observation. Fit with TimeChannel",
    ScaleEach(): "known when all of it is. Fit with Scale instead",
    Spectrogram(4): "wherever that is. Fit on the points themselves",
    WithBoundaries(1.0): "depends on the next observation. Fit without it",
}


def in_pieces(transform, series, pieces):
    """The transformed points of each sample, where each sample has its own number of points in each piece."""
    state, found = transform.begin(len(series), series.values.shape[2]), [[] for _ in range(len(series))]
    done = np.zeros(len(series), int)
    for lengths in pieces:
        rows = [np.minimum(done[i] + np.arange(lengths.max()), done[i] + n - 1) for i, n in enumerate(lengths)]
        places = np.arange(len(series))[:, None], np.stack(rows)
        new = Series(series.values[places], times=series.times[places], lengths=lengths, channels=series.channels)
        state, made = transform.step(state, new)
        for i in range(len(series)):
            found[i].append(
                np.concatenate([made.times[i, : made.lengths[i], None], made.values[i, : made.lengths[i]]], 1)
            )
        done += lengths
    return np.stack([np.concatenate(one) for one in found]), made.channels


@pytest.mark.parametrize("transform", [*BACK, Integral()], ids=lambda one: f"{one}"[:30])
def test_a_transform_in_pieces_is_that_of_the_whole(transform):
    series = irregular(samples=4, length=30)
    if isinstance(transform, Integral):
        series = FillForward().fit(series)(series)
    transform = transform.fit(series)
    pieces = np.array([[1, 1, 3, 5], [4, 1, 1, 7], [5, 8, 6, 8], [20, 20, 20, 10]])
    found, channels = in_pieces(transform, series, pieces)
    whole = transform(series)
    assert channels == whole.channels
    np.testing.assert_allclose(found[..., 1:], whole.values, rtol=1e-12, atol=1e-12)  # float64, sums in another order
    np.testing.assert_allclose(found[..., 0], whole.times, rtol=1e-15)


@pytest.mark.parametrize("transform", AHEAD, ids=str)
def test_a_transform_that_looks_ahead_is_refused_by_name(transform):
    with pytest.raises(ValueError, match=f"Got {type(transform).__name__} for a series that is still arriving"):
        transform.begin(1, 2)
    with pytest.raises(ValueError, match=AHEAD[transform]):
        transform.begin(1, 2)


def test_every_transform_is_one_or_the_other():
    kinds = {type(one) for one in [*BACK, Integral(), *AHEAD]}
    assert kinds == set(TRANSFORMS.values()) - {TRANSFORMS["compose"]}


@pytest.mark.parametrize(
    ("windows", "shift"),
    [
        (Windows(step=7, depth=3), 0),
        (Windows(step=7, depth=3), 3),
        (Windows(every=2.5, depth=2), 0),  # windows by time have no shift
        (Windows(step=5, depth=4, scales=(1, 3, 8)), 0),
        (Windows(step=5, depth=4, scales=(1, 3, 8)), 3),
    ],
    ids=str,
)
def test_log_signatures_in_pieces_are_those_of_the_whole(windows, shift):
    rng = np.random.default_rng(1)
    path = rng.normal(size=(3, 80, 2)).cumsum(axis=1)
    path[:, 20:40] = path[:, 20:21] + np.arange(20)[:, None] * 0.1  # a straight piece, whose area is rounding alone
    series = Series.from_array(path, times=np.cumsum(rng.exponential(size=(3, 80)), axis=1))
    model = NeuralRDE(2, 1, depth=windows.depth, scales=windows.scales, state=2, width=2, key=jax.random.key(0))
    by = {"every": windows.every} if windows.every else {"step": windows.step, "shift": shift}
    streams = LogSignatureStreams(model, **by)
    state, found, done = streams.start(3), [[], [], []], 0
    for count in (1, 2, 7, 30, 40):
        lengths = np.full(3, count)
        state, logs, counts = streams.push(
            state, path[:, done : done + count], series.times[:, done : done + count], lengths
        )
        for row in range(3):
            found[row].extend(logs[row, : counts[row]])
        done += count
    inputs = inputs_of(model, series, windows, shift=shift)
    running, unfinished = streams.running(state), streams.unfinished(state)
    for row in range(3):
        own = np.array([*found[row], *([running[row]] if unfinished[row] else [])], np.float32)
        number = len(own) if inputs.windows is None else inputs.windows[row]
        assert len(own) == number
        # float32 of sums in float64 that were taken in another order.
        np.testing.assert_allclose(own, inputs.arrays[1][row, :number], rtol=1e-6, atol=1e-9)
        assert ((own == 0) == (inputs.arrays[1][row, :number] == 0)).all()  # rounding is cleared in the same places
