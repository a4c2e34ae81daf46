"""Log-signatures of a series that is still arriving."""

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..paths.checks import as_number, as_numbers, as_positive
from ..paths.cuts import cuts_by_count, positions_in_windows
from ..paths.windows import as_scales, depths_of
from ._join import Run, join, runs
from ._log_signature import log_signatures
from .bases import Basis, basis_channels, change_bases
from .lyndon import log_signature_channels


class LogSignatureStream:
    """Push points as they come, one or many at a time; get each window's log-signature when it is complete.

    Together with the tail from `finish`, the results equal those of `log_signatures` for the whole series. Between
    calls the stream keeps one point and one log-signature, however long the window is, and with several scales those of
    the last windows.

    Args:
        channels: channels of the path, time included if it is a channel.
        depth: depth of the log-signatures; with several scales it may be a tuple, one for each.
        step: increments in a window; a window is complete with its last point.
        every: instead of `step`, the time in a window, counted from the first point. An increment belongs to the window
            in which its right end is observed, so a window is complete when a point after its end arrives. A window
            without a new point has a zero log-signature.
        scales: how many windows back each log-signature looks, as in `log_signatures`.
        basis: "words", "brackets" or "expanded".

    >>> import numpy as np
    >>> path = np.random.default_rng(0).normal(size=(100, 2))
    >>> stream = LogSignatureStream(channels=2, depth=3, step=32)
    >>> [stream.push(part).shape[0] for part in np.split(path, 4)]  # windows completed by each 25 points
    [0, 1, 1, 1]
    >>> tail = stream.finish()
    """

    def __init__(
        self,
        channels: int,
        depth: int | tuple[int, ...],
        *,
        step: int | None = None,
        every: float | None = None,
        scales: int | tuple[int, ...] = (1,),
        basis: Basis = "words",
    ):
        if (step is None) == (every is None):
            raise TypeError(
                f"Got step={step} and every={every}; expected exactly one of them. Write step=32 for windows of 32 "
                "increments, or every=0.5 for windows of half a unit of time."
            )
        if step is not None:
            cuts_by_count(1, step)  # raises for a step that is not one
        else:
            every = as_positive(every, name="every", example="every=0.5", why="time runs forward")
        self.channels, self.depth, self.step, self.every = channels, depth, step, every
        self.basis: Basis = basis
        self.scales = as_scales(scales)
        self._depths = depths_of(depth, self.scales)
        self._depth = max(self._depths)
        self._empty = np.zeros((0, sum(basis_channels(channels, n, basis) for n in self._depths)))
        self._point: np.ndarray | None = None  # the last one seen
        self._time = self._start = 0.0  # of that point, and of the first
        self._increments = 0  # seen so far
        self._window = 0  # number of the window in progress
        self._words = np.zeros(log_signature_channels(channels, self._depth))  # its log-signature so far
        self._past = np.zeros((0, len(self._words)))  # of the last windows, as many as the scales look back over

    def push(self, points: ArrayLike, times: ArrayLike | None = None) -> Float[np.ndarray, "windows log_signature"]:
        """Take in points `(count, channels)`, or one point `(channels,)`, and return the windows they complete.

        With windows by time, `times` has one time per point. A point that is refused leaves the stream as it was.
        """
        points = np.asarray(as_numbers(points, name="points"), np.float64)
        points = points[None] if points.ndim == 1 else points
        if points.ndim != 2 or points.shape[1] != self.channels:
            raise ValueError(
                f"Got points of shape {points.shape}; expected (count, {self.channels}), or ({self.channels},) for a "
                "single point, because this stream was made for that many channels."
            )
        times = self._check_times(times, len(points))
        if len(points) == 0:
            return self._empty
        new = len(points)
        if self._point is None:
            new -= 1
            if times is not None:
                self._time = self._start = times[0]
        else:
            points = np.concatenate([self._point[None], points])

        window = self._windows_of_increments(times[len(times) - new :] if times is not None else None, new)
        complete = (self._increments + new) // self.step if self.step else (window[-1] if new else self._window)
        # Window by window: what is left of the one in progress, those in between, and the next in progress.
        cuts = np.searchsorted(window, np.arange(self._window, complete + 1), side="right")
        words = log_signatures(points, self._depth, cuts=np.concatenate([[0], cuts]))
        if self._words.any():
            words[0] = join(self._words, words[0], self.channels, self._depth)
        found, past = self._looking_back(words[:-1]), np.concatenate([self._past, words[:-1]])
        self._past = past[max(0, len(past) - max(self.scales) + 1) :]
        self._words, self._window, self._point = words[-1], int(complete), points[-1].copy()
        self._increments += new
        if times is not None:
            self._time = times[-1]
        return found

    def running(self) -> Float[np.ndarray, "log_signature"]:
        """The log-signature of the unfinished window, so far."""
        return self._looking_back(self._words[None])[0]

    def finish(self) -> Float[np.ndarray, "windows log_signature"]:
        """The tail: the unfinished window, if anything has arrived in it, as a batch of one window or none."""
        complete = self.step is not None and self._increments > 0 and self._increments % self.step == 0
        return self._empty if complete or self._point is None else self.running()[None]

    def _windows_of_increments(self, times: np.ndarray | None, new: int) -> np.ndarray:
        """The number of the window to which each new increment belongs."""
        if self.step:
            return (self._increments + np.arange(new)) // self.step
        if new == 0 or times is None or self.every is None:
            return np.zeros(0, np.int64)
        position, _ = positions_in_windows(times[None], self.every, self._start, passed=self._window)
        return np.maximum(np.ceil(position[0]).astype(np.int64) - 1, self._window)

    def _looking_back(self, words: Float[np.ndarray, "windows words"]) -> Float[np.ndarray, "windows log_signature"]:
        """The log-signatures of new windows at all scales, side by side."""
        if not len(words):
            return self._empty
        pieces, past = np.concatenate([self._past, words]), len(self._past)
        last = past + np.arange(len(words))
        wanted = [
            Run(last, np.full(len(words), min(scale, len(pieces))), depth)
            for scale, depth in zip(self.scales, self._depths, strict=True)
        ]
        words = runs(pieces, wanted, self.channels)
        return change_bases(words, self.channels, self._depths, old="words", new=self.basis)

    def _check_times(self, times: Any, count: int) -> np.ndarray | None:
        if self.every is None:
            if times is not None:
                raise ValueError("Got times for windows by count (step=...); leave them out, or make windows by time.")
            return None
        if times is None:
            raise ValueError(
                "Got no times for windows by time (every=...); expected one a point: `stream.push(points, times)`."
            )
        times = np.atleast_1d(np.asarray(as_numbers(times, name="times"), np.float64))
        if times.shape != (count,):
            raise ValueError(f"Got times of shape {times.shape} for {count} points; expected one time a point.")
        steps = np.diff(times if self._point is None else np.concatenate([[self._time], times]))
        if not (steps > 0).all() or not np.isfinite(times).all():
            where = int(np.argmin(steps)) if len(steps) else 0
            point = where + (self._point is None)
            raise ValueError(
                f"Got times that do not increase (by {steps[where] if len(steps) else times[0]} before point {point} "
                "of this push); expected increasing, finite times, because a stream cannot go back. Sort the points."
            )
        return times

    def state(self) -> dict[str, Any]:
        """The whole state of the stream as plain numbers, which `json.dumps` keeps exactly."""
        return {
            "channels": int(self.channels),
            "depth": list(self.depth) if isinstance(self.depth, tuple) else int(self.depth),
            "step": None if self.step is None else int(self.step),
            "every": self.every,
            "scales": list(self.scales),
            "basis": self.basis,
            "point": None if self._point is None else self._point.tolist(),
            "time": float(self._time),
            "start": float(self._start),
            "increments": int(self._increments),
            "window": int(self._window),
            "words": self._words.tolist(),
            "past": self._past.tolist(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "LogSignatureStream":
        """A stream that continues from a `state`.

        >>> stream = LogSignatureStream(channels=2, depth=2, step=8)
        >>> again = LogSignatureStream.from_state(stream.state())
        """
        depth, scales = state["depth"], tuple(state.get("scales", (1,)))  # states of 0.2 have one scale
        depth = tuple(depth) if isinstance(depth, list) else depth
        how = {name: state[name] for name in ("step", "every", "basis")}
        stream = cls(state["channels"], depth, scales=scales, **how)
        words = np.asarray(state["words"], np.float64)
        past = np.asarray(state.get("past", []), np.float64).reshape(-1, stream._words.size)
        point = None if state["point"] is None else np.asarray(state["point"], np.float64)
        if words.shape != stream._words.shape or (point is not None and point.shape != (stream.channels,)):
            raise ValueError(
                f"Got a state with {words.size} log-signature channels; expected {stream._words.size} for "
                f"{stream.channels} channels at depth {stream.depth}. Restore what `state()` gave, unchanged."
            )
        stream._point, stream._words, stream._past = point, words, past
        stream._time, stream._start = (
            as_number(state[name], name=name, example=f"{name}=0.0") for name in ("time", "start")
        )
        stream._increments, stream._window = int(state["increments"]), int(state["window"])
        return stream
