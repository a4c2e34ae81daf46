"""Floors: what is reached on the same test set without learning from the series, or hardly any."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neuralrde.datasets import Dataset, Split
from neuralrde.transforms import Spectrogram

from .inputs import without_copies

Metrics = dict[str, float]

# The band in which the peak is looked for, in beats per minute. Its edges matter: up to 180 instead of 150, harmonics
# win in a few recordings, and the RMSE over all patients is 10.8 instead of 4.4. So for unseen patients this band, the
# one that most people would write down, is joined by that one of BANDS which is best for all but the test patients.
# Finer bands fit those better and may fail: in some splits the best low edge is then 66, above a test patient's rate.
BEATS = (42, 150)
BANDS = tuple((low, high) for low in (36, 42, 48, 54) for high in (120, 135, 150, 165, 180))
_TRANSFORM = 2**16  # zero-padded: frequencies 0.11 beats per minute apart


def floors(data: Dataset, split: Split, split_name: str) -> dict[str, Metrics]:
    """Each floor's metrics on the test set."""
    if data.classes is not None:
        found = {"majority class": majority_class(data, split)}
        if data.name in SIMPLE_MODELS:
            name, model = SIMPLE_MODELS[data.name]
            found[name] = model(data, split)
        return found
    found = {"training mean": training_mean(data, split)}
    if data.name.startswith("BIDMC32") and split_name != "group":  # by patient, the recordings tested are unseen
        found["recording's mean"] = recording_mean(data, split)
    if data.name == "BIDMC32HR":
        found["spectral peak"] = errors(spectral_peak(data[split.test]), _target(data)[split.test])
        if split_name == "group":
            found["spectral peak, band fitted"] = fitted_spectral_peak(data, split)
    return found


def errors(predicted: np.ndarray, true: np.ndarray) -> Metrics:
    """
    >>> errors(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    {'rmse': 1.4142135623730951, 'mae': 1.0}
    """
    off = np.asarray(predicted, np.float64).ravel() - np.asarray(true, np.float64).ravel()
    return {"rmse": float(np.sqrt(np.mean(off**2))), "mae": float(np.abs(off).mean())}


def training_mean(data: Dataset, split: Split) -> Metrics:
    target = _target(data)
    return errors(np.full(len(split.test), target[split.train].mean()), target[split.test])


def recording_mean(data: Dataset, split: Split) -> Metrics:
    """The mean training label of the window's own recording: what memory of patients is worth."""
    target = _target(data)
    recording = np.array([str(name).split("/")[0] for name in np.asarray(data.series.ids)])
    seen = {name: target[split.train][recording[split.train] == name].mean() for name in set(recording[split.train])}
    overall = target[split.train].mean()
    return errors(np.array([seen.get(name, overall) for name in recording[split.test]]), target[split.test])


def spectral_peak(data: Dataset, bands: Sequence[tuple[float, float]] = (BEATS,)) -> np.ndarray:
    """Beats per minute at the highest peak of the pulse wave's spectrum: no learning at all.

    With several bands to look in, one row per band.
    """
    pulse = data.series.values[..., data.series.channels.index("PLETH")]
    rate = 1 / float(np.median(np.diff(data.series.clock[0])))
    frequencies = np.fft.rfftfreq(_TRANSFORM, 1 / rate)
    slices = [slice(*np.searchsorted(60 * frequencies, [low, high])) for low, high in bands]
    found = []
    for start in range(0, len(pulse), 256):  # in pieces, for memory
        piece = pulse[start : start + 256].astype(np.float64)
        piece = (piece - piece.mean(axis=1, keepdims=True)) * np.hanning(piece.shape[1])
        power = np.abs(np.fft.rfft(piece, _TRANSFORM, axis=1))
        found.append([band.start + power[:, band].argmax(axis=1) for band in slices])
    peaks = 60 * frequencies[np.concatenate(found, axis=1)]
    return peaks[0] if len(bands) == 1 else peaks


def fitted_spectral_peak(data: Dataset, split: Split) -> Metrics:
    """The peak in the band that is best on all but the test set."""
    peaks, target = spectral_peak(data, BANDS), _target(data)
    known = np.concatenate([split.train, split.validation])
    best = min(peaks, key=lambda peak: errors(peak[known], target[known])["rmse"])
    return errors(best[split.test], target[split.test])


def majority_class(data: Dataset, split: Split) -> Metrics:
    target = np.asarray(data.target)
    return {"accuracy": float((target[split.test] == np.bincount(target[split.train]).argmax()).mean())}


def simple_statistics(data: Dataset) -> np.ndarray:
    """Mean, deviation and mean absolute change of each channel, and correlations: 33 numbers for 6 channels."""
    values = data.series.values.astype(np.float64)
    channels = values.shape[2]
    pairs = np.triu_indices(channels, 1)
    correlations = np.array([np.corrcoef(sample.T)[pairs] for sample in values])
    changes = np.abs(np.diff(values, axis=1)).mean(axis=1)
    return np.concatenate([values.mean(axis=1), values.std(axis=1), changes, correlations], axis=1)


def slow_and_fast(data: Dataset) -> np.ndarray:
    """Means of frames of 1/8 s, and the mean log power above 100 Hz."""
    series = without_copies(data).series
    frames = Spectrogram(32, bands=(0.39, 0.5)).fit(series)(series).values  # the floor inside: 1e-4 of the mean power
    return np.concatenate([frames[..., 0], frames[..., 1].mean(axis=1, keepdims=True)], axis=1)


def log_spectrogram(data: Dataset) -> np.ndarray:
    """Log power in 25 bands of frequency, log-spaced, by 31 overlapping stretches of the sound."""
    sound = data.series.values[..., 0].astype(np.float64)
    size, hop = 1024, 500
    starts = np.arange(0, sound.shape[1] - size + 1, hop)
    edges = np.unique(np.geomspace(3, size // 2, 26).astype(int))
    features = []
    for one in sound:
        frames = np.stack([one[s : s + size] for s in starts]) * np.hanning(size)
        power = np.add.reduceat(np.abs(np.fft.rfft(frames, axis=1)) ** 2, edges[:-1], axis=1)
        features.append(np.log(power + 1e-6).ravel())
    return np.array(features)


def classified(features: Callable[[Dataset], np.ndarray], model: Callable[[], Any]) -> Callable:
    """A classical classifier of features, trained on training and validation set: it has nothing to stop early."""

    def run(data: Dataset, split: Split) -> Metrics:
        values, target = features(data), np.asarray(data.target)
        rows = np.concatenate([split.train, split.validation])
        fitted = make_pipeline(StandardScaler(), model()).fit(values[rows], target[rows])
        return {"accuracy": float((fitted.predict(values[split.test]) == target[split.test]).mean())}

    return run


_SLOW_AND_FAST = (
    "means and fast power, logistic",
    classified(slow_and_fast, lambda: LogisticRegression(max_iter=500)),
)
SIMPLE_MODELS = {
    "SelfRegulationSCP1": _SLOW_AND_FAST,
    "SelfRegulationSCP2": _SLOW_AND_FAST,
    "eigenworms_source44": ("33 statistics, ridge", classified(simple_statistics, lambda: RidgeClassifier(alpha=1.0))),
    "SpeechCommands10": (
        "log-spectrogram, logistic",
        classified(log_spectrogram, lambda: LogisticRegression(C=0.003, max_iter=300)),
    ),
}


def _target(data: Dataset) -> np.ndarray:
    return np.asarray(data.target, np.float64).ravel()
