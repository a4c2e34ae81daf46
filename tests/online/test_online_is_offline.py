"""A stream predicts what the estimator predicts for the whole series, however its points arrive."""

import numpy as np
import pytest

from neuralrde import Config, LogSignatureClassifier, LogSignatureRegressor, NeuralRDEClassifier, Series, Windows
from neuralrde.datasets import bidmc
from neuralrde.models import LinearRDE, LogNCDE, LogSigSSM, MultiScaleRDE, NeuralCDE, NeuralRDE, OscillatorRDE
from neuralrde.transforms import BasePoint, Compose, FillForward, Integral, Products, Scale, Standard, TimeChannel

from .conftest import blended_with, irregular, prefixes, pushed, readout, untrained

pytestmark = pytest.mark.long

# float32: states of some hundred windows, in batches of another shape. The promise is 1e-4 of a prediction, and
# where that is near 0, of the spread of predictions, which is about 1.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}

# Real recordings: pulse and ECG, 125 times a second.
POINTS, ENDS = 1000, [40, 460, 1000]
SIZES = {"7": 7, "125": 125, "500": 500}
small = {"state": 6, "width": 8}
FAMILIES = {
    "neural-rde, mean": Config(NeuralRDE, **small, layers=2, readout=readout("mean")),
    "neural-rde, pools": Config(NeuralRDE, **small, layers=2, readout=readout("pools")),
    "neural-cde": Config(NeuralCDE, **small, layers=2, readout=readout("final")),
    "log-ncde": Config(LogNCDE, **small, layers=2, readout=readout("mean")),
    "linear-rde": Config(LinearRDE, **small),
    "oscillator-rde": Config(OscillatorRDE, **small),
    "multi-scale-rde": Config(MultiScaleRDE, **small, units=8, stride=4),
    "logsig-ssm": Config(LogSigSSM, **small, conv=3),
}
LOOKS = Windows(step=25, depth=(2, 2, 1), lengths=(60, 33, 10), whole=1)


@pytest.fixture(scope="module")
def recordings():
    """Of one patient for training, of another to predict; loaded once, because unpacking takes seconds."""
    loaded = []

    def load():
        if not loaded:
            signals, _ = bidmc._records()
            pair = signals[[0, 20], :POINTS][..., [1, 2]]
            series = Series.from_array(pair, times=np.arange(POINTS) / 125, channels=["PLETH", "II"])
            loaded.append(series)
        return loaded[0]

    return load


@pytest.mark.parametrize("family", FAMILIES)
def test_real_recordings(family, recordings, real_data):
    series, several = recordings(), family == "multi-scale-rde"
    windows = LOOKS if family == "logsig-ssm" else Windows(step=25, depth=2, scales=(1, 4) if several else (1,))
    estimator = untrained(series, model=FAMILIES[family], windows=windows, members=2 if several else 1)
    offline = estimator.predict(prefixes(series, 1, ENDS))
    assert np.ptp(offline) > 1e-3  # they are not all the same
    streams, start = estimator.streams(), 0
    for name in SIZES:
        streams.open(name)
    for end, expected in zip(ENDS, offline, strict=True):
        pushed(streams, series, 1, SIZES, start, end)
        for predicted in streams.predict(SIZES).values():
            np.testing.assert_allclose(predicted, expected, **CLOSE)
        start = end


def test_real_recordings_point_by_point(recordings, real_data):
    series = recordings()
    estimator = untrained(series, model=FAMILIES["neural-rde, mean"], windows=25)
    stream = estimator.stream()
    offline = estimator.predict(prefixes(series, 1, list(range(2, 103, 10))))
    found = []
    for point in range(102):
        stream.push(series.values[1, point], series.times[1, point])
        if stream.points in range(2, 103, 10):
            found.append(stream.predict())
    np.testing.assert_allclose(found, offline, **CLOSE)


BY_TIME = Windows(every=4.0, lengths=(9.0, 2.5), depth=(2, 1), whole=1)


@pytest.mark.parametrize(
    "windows",
    [Windows(every=4.0), Windows(step=6, shifts=3), BY_TIME, Windows(step=6, shifts=3, lengths=(13,))],
    ids=str,
)
def test_irregular_times_and_missing_values(windows, walks):
    estimator = untrained(walks, windows=windows, transform=Standard(base_point=True))
    ends, start, sizes = [1, 2, 50, 160], 0, {"1": 1, "13": 13, "160": 160}
    # A single point alone: beside longer series it has no window, and alone an empty one, which changes nothing here.
    offline = estimator.predict(prefixes(walks, 3, ends))
    streams = estimator.streams()
    for name in sizes:
        streams.open(name)
    for end, expected in zip(ends, offline, strict=True):
        pushed(streams, walks, 3, sizes, start, end)
        np.testing.assert_allclose(list(streams.predict(sizes).values()), expected, **CLOSE)
        start = end


def test_a_gap_of_many_windows_is_as_many_empty_windows(walks):
    """Windows by time, and two of five streams with nothing for long: one is followed apart from the others."""
    estimator = untrained(walks, windows=Windows(every=0.5))
    times = np.cumsum(np.ones((5, 40)), axis=1)
    times[1, 20:] += 300.0
    times[2, 30:] += 3000.0
    series = Series.from_array(walks.values[:5, :40], times=times)
    streams = estimator.streams()
    for row in range(5):
        streams.open(str(row))
    assert streams.push({str(row): (series.values[row], times[row]) for row in range(5)}) == {}
    found = streams.predict(map(str, range(5)))
    np.testing.assert_allclose(list(found.values()), estimator.predict(series), **CLOSE)


def test_other_transforms(walks):
    """Each carries something on; together they are a path that has nothing of the raw series."""
    transform = Compose(FillForward(), Scale(), Products(changes=True), Integral(), TimeChannel(), BasePoint())
    estimator = untrained(walks, transform=transform)
    stream = estimator.stream()
    for first in range(0, 160, 23):
        stream.push(walks.values[4, first : first + 23], walks.times[4, first : first + 23])
    np.testing.assert_allclose(stream.predict(), estimator.predict(walks[4])[0], **CLOSE)


def test_many_channels():
    """The multi-scale model then looks at mixtures of channels, and at increments of all."""
    series = Series.from_array(np.random.default_rng(0).normal(size=(8, 60, 8)).cumsum(axis=1))
    config = Config(MultiScaleRDE, units=8, width=8, state=6, stride=2)
    estimator = untrained(series, model=config, windows=Windows(step=4, scales=(1, 3)))
    assert estimator.model_.takes_increments
    stream = estimator.stream()
    for first in range(0, 60, 7):
        stream.push(series.values[2, first : first + 7])
    np.testing.assert_allclose(stream.predict(), estimator.predict(series[2])[0], **CLOSE)


def test_a_target_at_every_point():
    """The prediction of a stream is that at its last point."""
    series = irregular(samples=8, length=40)
    labels = np.where(np.arange(40) % 20 < 10, "calm", "wild")[None].repeat(8, axis=0)
    estimator = untrained(series, kind=NeuralRDEClassifier, windows=5, y=labels)
    stream = estimator.stream()
    for first in range(0, 40, 9):
        stream.push(series.values[1, first : first + 9], series.times[1, first : first + 9])
    np.testing.assert_allclose(stream.predict_proba(), estimator.predict_proba(series[1])[0, -1], **CLOSE)
    assert stream.predict() == estimator.predict(series[1])[0, -1]


def test_closed_form_of_all_points_and_of_the_last(walks):
    labels = np.where(np.nanmean(walks.values, axis=(1, 2)) > 0, "up", "down")
    estimator = LogSignatureClassifier(draws=4, maps=4).fit(walks, labels)
    whole, last = estimator.stream(), estimator.stream(last=50)
    for first in range(0, 160, 37):
        for stream in (whole, last):
            stream.push(walks.values[2, first : first + 37], walks.times[2, first : first + 37])
    # The very same computation, to the bit but for sums over series of other lengths.
    np.testing.assert_allclose(whole.predict_proba(), estimator.predict_proba(walks[2])[0], rtol=1e-9)
    ending = Series.from_array(walks.values[2:3, 110:], times=walks.times[2:3, 110:])
    np.testing.assert_allclose(last.predict_proba(), estimator.predict_proba(ending)[0], rtol=1e-9)
    assert last.predict() == estimator.predict(ending)[0]
    again = estimator.stream(last.state())
    assert (again.points, again.predict_proba()) == (160, last.predict_proba())


def test_an_ensemble_in_which_the_closed_form_has_a_say(walks):
    fitted = untrained(walks, windows=10, members=2)
    closed = LogSignatureRegressor(draws=4, maps=4).fit(walks, np.nanmean(walks.values, axis=(1, 2)))
    fitted = blended_with(fitted, closed, (0.4, 0.6), scores=[np.linspace(0.1, 1.0, 50).tolist()])
    whole, last = fitted.stream(), fitted.stream(last=90)
    for first in range(0, 160, 40):
        for stream in (whole, last):
            stream.push(walks.values[2, first : first + 40], walks.times[2, first : first + 40])
    np.testing.assert_allclose(whole.predict(), fitted.predict(walks[2])[0], **CLOSE)
    ending = Series.from_array(walks.values[2:3, 70:], times=walks.times[2:3, 70:])
    np.testing.assert_allclose(last.predict(), fitted.predict(ending)[0], **CLOSE)
    predicted, ends = fitted.predict(walks[2], interval=0.8)
    value, (low, high) = whole.predict(interval=0.8)
    np.testing.assert_allclose([value, low, high], [predicted[0], *ends[0]], **CLOSE)
