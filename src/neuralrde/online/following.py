"""From raw points to predictions, for many streams at once: transform, windows, log-signatures, states.

Nothing here has a name or a lock. `Follower` is a set of functions of rows: trees of arrays whose first axis is the
stream. So a stream can be taken out, kept elsewhere, and put back.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from ..errors import setting
from ..models import MODELS, AbstractModel, Ensemble
from ..models.base import model_class
from ..paths import Series
from ..paths.windows import positions_in_windows
from ..signatures.streams import LogSignatureStreams
from ..transforms import Compose, ObservationCounts, Transform
from ..transforms.filling import Fill
from ..transforms.scaling import Scale
from .programs import Programs

Rows = Any
# New points of all streams, with padding, that are followed at a time: of long histories, one piece after the other.
_POINTS = 2**17


class Follower:
    """A trained neural model on streams: what it carries from point to point, and its outputs at any moment."""

    def __init__(self, estimator: Any):
        model, windows = estimator.model_, estimator.windows_
        one = model.first if isinstance(model, Ensemble) else model
        _check_model(one)
        _check_augmentation(estimator)
        self.channels, self.every = estimator.n_channels_in_, windows.every
        self.names = channel_names(estimator.transform_, self.channels)
        self.prepare = estimator.transform_
        self.prepare.begin(0, self.channels)  # an error if it looks ahead
        by = {"every": windows.every} if windows.every is not None else {"step": windows.step}
        self.tracks = [LogSignatureStreams(one, **by, shift=shift) for shift in windows.all_shifts()]
        self.programs = Programs(model, one.channels, self.tracks[0].controls)

    def start(self, streams: int) -> Rows:
        """Of streams that have seen nothing."""
        hidden = [np.broadcast_to(leaf, (streams, *leaf.shape)).copy() for leaf in self.programs.empty]
        return {
            "prepare": self.prepare.begin(streams, self.channels),
            "tracks": [{"windows": track.start(streams), "hidden": list(hidden)} for track in self.tracks],
        }

    def push(
        self,
        rows: Rows,
        values: Float[np.ndarray, "streams length channels"],
        times: Float[np.ndarray, "streams length"],
        lengths: Int[np.ndarray, "streams"],
    ) -> Rows:
        """The rows after new points, at least one of each stream. An error, and nothing has changed."""
        prepare, prepared = self.prepare.step(rows["prepare"], self._series(values, times, lengths))
        path, clock = np.asarray(prepared.values, np.float64), prepared.clock
        if np.isnan(path).any():
            channel = int(np.isnan(path).any(axis=(0, 1)).argmax())
            raise ValueError(
                f"Got a missing value in channel {prepared.channels[channel]!r}, and the model's transform fills none; "
                'expected numbers. Fit with a transform that fills them, such as `Standard(fill="forward")`.'
            )
        with np.errstate(over="ignore", invalid="ignore"):
            tracks = [
                self._on_track(track, own, path, clock, prepared.lengths)
                for track, own in zip(self.tracks, rows["tracks"], strict=True)
            ]
        return {"prepare": prepare, "tracks": tracks}

    def outputs(self, rows: Rows) -> Float[np.ndarray, "streams outputs"]:
        """The model's outputs for the series so far: the running window counts, and is not kept."""
        found = []
        with np.errstate(over="ignore", invalid="ignore"):
            for track, own in zip(self.tracks, rows["tracks"], strict=True):
                windows = own["windows"]
                found.append(self.programs.output(own["hidden"], track.running(windows), track.unfinished(windows)))
        return np.mean(found, axis=0)

    def check(self, rows: Rows, points: int, time: float) -> None:
        """Raise unless a row from elsewhere, of the right shapes, is one of a stream with so many points."""
        for track, own in zip(self.tracks, rows["tracks"], strict=True):
            windows = own["windows"]
            increments, window = int(windows["increments"][0]), int(windows["window"][0])
            if track.every is None:
                expected = increments // (track.step or 1)
            else:
                position, _ = positions_in_windows(np.array([[time]]), track.every, windows["start"], passed=window)
                expected = max(int(np.ceil(position[0, 0])) - 1, 0) if points else 0
            if bool(windows["begun"][0]) != (points > 0) or window != expected or increments > points + track.shift:
                raise ValueError(f"it counts {increments} increments and {window} windows after {points} points")

    def _series(self, values: np.ndarray, times: np.ndarray, lengths: np.ndarray) -> Series:
        return Series(values, times=times, lengths=lengths, channels=self.names)

    def _on_track(self, track: LogSignatureStreams, own: Any, path: Any, clock: Any, lengths: Any) -> Any:
        windows, hidden = own["windows"], [leaf.copy() for leaf in own["hidden"]]
        fresh = np.flatnonzero(~windows["begun"])
        if len(fresh):
            for leaf, first in zip(hidden, self.programs.begin(path[fresh, 0]), strict=True):
                leaf[fresh] = first
        after = {name: array.copy() for name, array in windows.items()}
        for rows in track.groups(windows, clock, lengths):
            longest = int(lengths[rows].max())
            taken = {name: array[rows] for name, array in windows.items()}
            kept, driving, counts = track.push(taken, path[rows, :longest], clock[rows, :longest], lengths[rows])
            new = self.programs.advance([leaf[rows] for leaf in hidden], driving, counts)
            for leaf, part in zip(hidden, new, strict=True):
                leaf[rows] = part
            for name, array in kept.items():
                after[name][rows] = array
        if not all(np.isfinite(leaf).all() for leaf in hidden):
            raise ValueError(
                "Got points after which the model's state is not a finite number: scaled as in training, they reach "
                f"{np.abs(path).max():.3g}, and the model computes in float32. Look for values that are no "
                "measurements, and write NaN for them."
            )
        return {"windows": after, "hidden": hidden}


def channel_names(transform: Transform, channels: int) -> tuple[str, ...]:
    """What the channels were called in training, if the transform knows; x0, x1, ... otherwise."""
    inner: Any = transform.transforms if isinstance(transform, Compose) else (getattr(transform, "fill_", transform),)
    for one in inner:
        if isinstance(one, Fill | Scale) and one.channels_ is not None:
            return tuple(one.channels_[:channels])
        if not isinstance(one, ObservationCounts | Fill):
            break
    return tuple(f"x{number}" for number in range(channels))


def piece(streams: int) -> int:
    """How many new points of each of so many streams are followed at a time.

    >>> piece(1), piece(256)
    (131072, 512)
    """
    return max(_POINTS // streams, 512)


def taken(rows: Rows, places: Any) -> Rows:
    """Some of the rows, copied."""
    return jax.tree.map(lambda array: array[places], rows)


def _check_augmentation(estimator: Any) -> None:
    augmentation = estimator.augmentation_
    if augmentation is None:
        return
    series = Series(np.zeros((1, 2, estimator.n_channels_in_)))
    versions = list(augmentation.test_versions(series))
    if len(versions) > 1 or versions[0][0] is not series:
        raise ValueError(
            f"Got {setting('augmentation', augmentation)}, with which predictions come from several "
            "versions of a whole series; expected one that predicts from series as they are. Fit for "
            "example with TimeStretch(..., speeds=(1.0,))."
        )


def _check_model(model: AbstractModel) -> None:
    if model.not_online is not None:
        others = " or ".join(repr(name) for name, cls in MODELS.items() if model_class(cls).not_online is None)
        raise ValueError(
            f"Got a model of the class {type(model).__name__}, which {model.not_online}; expected one "
            f"that is driven by log-signatures, window by window. Fit with model={others}."
        )
