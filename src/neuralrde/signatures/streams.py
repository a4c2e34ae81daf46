"""Log-signatures of series that are still arriving: of one, or of many that are computed together.

One call of the kernel follows the new points of all streams. What is kept between two calls is a dictionary of arrays,
whose first axis is the stream.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from ..paths.checks import check_number
from ..paths.series import as_numbers
from ..paths.windows import Windows, as_scales, cuts_by_count, depths_of, positions_in_windows
from ._log_signature import _numpy_runs, log_signatures
from ._spans import WindowSpan
from ._windows import join
from .bases import Basis, basis_channels, change_bases
from .lyndon import log_signature_channels
from .rounding import extremes, of_the_last, without_rounding_in

State = dict[str, np.ndarray]

# Windows of all streams that are followed at once, padding included.
_CELLS = 2**16
# The most windows that may pass between two points: a gap of more is no gap in a series.
MOST_AT_ONCE = 2**14


class LogSignatureStreams:
    """What drives a model, window by window, for many streams: log-signatures as estimators compute them.

    Straight pieces have no area, as in `without_rounding`. Windows are cut as in `window_cuts`.

    Args:
        model: driven by log-signatures: with `channels`, `depth`, `scales`, `basis`, `mixed` and `takes_increments`.
        step: increments in a window.
        every: instead of `step`, the time in a window.
        shift: how many points earlier windows by count end.
        exact: whether log-signatures are kept as they are, rounding included.
    """

    def __init__(
        self, model: Any, *, step: int | None = None, every: float | None = None, shift: int = 0, exact: bool = False
    ):
        self.step, self.every, self.shift, self.exact = step, every, shift, exact
        self.channels, self.basis, self.mixed = model.channels, model.basis, model.mixed
        self.increments = model.takes_increments
        self.scales: tuple[float, ...] = as_scales(model.scales)
        self.depth: Any = model.depth
        self.depths: tuple[int, ...] = depths_of(model.depth, self.scales)
        self._of_mixed = self.mixed(np.zeros((1, 1, self.channels))).shape[2]
        self._words = log_signature_channels(self._of_mixed, max(self.depths))
        basis: Basis = self.basis
        logs = basis_channels(self._of_mixed, self.depth, basis, scales=self.scales)
        self.controls = logs + self.channels * self.increments
        # Where a scale is no whole number of windows, each window is divided where looks from the ends of later ones
        # begin: so much before its end. All looks are then whole numbers of pieces.
        window: Any = step if step is not None else 1.0
        sizes = [divmod(round(one * step) if step is not None else one, window) for one in self.scales if one != np.inf]
        self._parts = sorted({part for _, part in sizes} - {0})
        self._pieces = len(self._parts) + 1
        runs = [int(back) * self._pieces + (1 + self._parts.index(part) if part else 0) for back, part in sizes]
        self._runs = [np.inf if one == np.inf else runs.pop(0) for one in self.scales]
        self._past = int(max((run for run in self._runs if run != np.inf), default=1)) - 1
        self._whole = np.inf in self.scales

    def start(self, streams: int) -> State:
        """The state of streams that have seen nothing."""
        held, mixed = self._past + self._whole, self._of_mixed
        state = {
            "begun": np.zeros(streams, bool),
            "point": np.zeros((streams, self.channels)),  # the last one
            "start": np.zeros(streams),  # the time of the first
            "increments": np.full(streams, self.shift, np.int64),
            "window": self.before(np.full(streams, self.shift)) if self.step else np.zeros(streams, np.int64),
            "words": np.zeros((streams, self._words)),  # the running piece's log-signature so far
            "highest": np.zeros((streams, mixed)),
            "lowest": np.zeros((streams, mixed)),
        }
        if held:  # with a look on the whole past, the first piece is all before the others
            state["past"] = np.zeros((streams, held, self._words))  # the log-signatures of the pieces before it
            state["past_highest"] = np.zeros((streams, held, mixed))
            state["past_lowest"] = np.zeros((streams, held, mixed))
        if self.increments:
            state["anchor"] = np.zeros((streams, self.channels))  # the point at which its window begins
        return state

    def push(
        self,
        state: State,
        path: Float[np.ndarray, "streams length channels"],
        times: Float[np.ndarray, "streams length"],
        lengths: Int[np.ndarray, "streams"],
    ) -> tuple[State, Float[np.ndarray, "streams windows controls"], Int[np.ndarray, "streams"]]:
        """What is kept, what drives the model in the windows that these points complete, and how many they are.

        Each stream has at least one new point; beyond its length it repeats the last. See `groups` first.
        """
        fresh, start = self._starts(state, times)
        counts, cuts = self._cuts(state, times, start, lengths, fresh)
        # In front of the new points, the last one of before; of a stream that begins, its first once more.
        path = np.concatenate([np.where(fresh[:, None], path[:, 0], state["point"])[:, None], path], axis=1)
        mixed, rows = self.mixed(path), np.arange(len(path))
        state = self._begun(state, mixed[:, 0], fresh)
        words = log_signatures(mixed, max(self.depths), cuts=cuts)
        join_to = state["words"].any(axis=1)
        if join_to.any():
            left, right = state["words"][join_to].T, words[join_to, 0].T
            words[join_to, 0] = join(left, right, self._of_mixed, max(self.depths)).T
        highest, lowest = extremes(mixed, cuts[:, :-1], cuts[:, 1:])
        highest[:, 0] = np.maximum(highest[:, 0], state["highest"])
        lowest[:, 0] = np.minimum(lowest[:, 0], state["lowest"])
        # The pieces with which windows end; the columns of streams with fewer windows repeat their last.
        windows = (state["window"] + counts) // self._pieces - state["window"] // self._pieces
        first = (-1 - state["window"]) % self._pieces
        ends = first[:, None] + self._pieces * np.arange(int(windows.max()))
        driving, kept = self._looking_back(state, words, highest, lowest, np.minimum(ends, counts[:, None]), counts)
        if self.increments:
            anchors = path[rows[:, None], np.take_along_axis(cuts, np.minimum(ends, counts[:, None]) + 1, axis=1)]
            anchor = np.where(fresh[:, None], path[:, 0], state["anchor"])
            anchors = np.concatenate([anchor[:, None], anchors], axis=1)
            driving = np.concatenate([np.diff(anchors, axis=1), driving], axis=2)
            kept["anchor"] = anchors[rows, windows]
        after = {
            "begun": np.ones(len(path), bool),
            "point": path[rows, lengths],
            "start": start,
            "increments": state["increments"] + lengths - fresh,
            "window": state["window"] + counts,
            "words": words[rows, counts],
            "highest": highest[rows, counts],
            "lowest": lowest[rows, counts],
        }
        return after | kept, driving, windows

    def groups(
        self, state: State, times: Float[np.ndarray, "streams length"], lengths: Int[np.ndarray, "streams"]
    ) -> list[Int[np.ndarray, "rows"]]:
        """Which streams to push together: a batch is padded to its longest, and after a gap one may be far longer."""
        fresh, start = self._starts(state, times)
        counts, _ = self._cuts(state, times, start, lengths, fresh, only_counts=True)
        if len(counts) * int(counts.max()) <= _CELLS:
            return [np.arange(len(counts))]
        groups, order = [], np.argsort(counts, kind="stable")
        while len(order):
            # From the longest down, as many as there is room for.
            rows = max(1, _CELLS // max(1, int(counts[order[-1]])))
            groups.append(np.sort(order[-rows:]))
            order = order[:-rows]
        return groups

    def running(self, state: State) -> Float[np.ndarray, "streams controls"]:
        """What drives the model in the running window, so far."""
        # The pieces that are still to come in its window are empty so far.
        here, left = self.mixed(state["point"][:, None]), (-1 - state["window"]) % self._pieces
        to_come = lambda now, empty: np.concatenate([now[:, None], *[empty] * (self._pieces - 1)], axis=1)
        words = to_come(state["words"], np.zeros_like(state["words"])[:, None])
        highest, lowest = (to_come(state[name], here) for name in ("highest", "lowest"))
        driving, _ = self._looking_back(state, words, highest, lowest, left[:, None], np.zeros_like(left))
        if self.increments:
            driving = np.concatenate([(state["point"] - state["anchor"])[:, None], driving], axis=2)
        return driving[:, 0]

    def unfinished(self, state: State) -> Bool[np.ndarray, "streams"]:
        """Whether the running window is one of the series so far, as `window_cuts` has it."""
        if self.step is None:
            return np.ones(len(state["begun"]), bool)
        return (state["increments"] % self.step > 0) | (state["increments"] < self.step)

    def before(self, at: np.ndarray, start: np.ndarray | None = None, passed: Any = 0) -> Int[np.ndarray, "..."]:
        """How many pieces are complete after so many increments, or by time before these moments."""
        if self.step is not None:
            return sum(((at + part) // self.step for part in self._parts), at // self.step)
        found = 0
        for part in (0.0, *self._parts):
            position, _ = positions_in_windows(at, self.every, start - part * self.every, passed=passed)  # type: ignore
            found = found + np.maximum(np.ceil(position).astype(np.int64) - 1, 0)
        return found  # type: ignore

    def _starts(self, state: State, times: np.ndarray) -> tuple[Bool[np.ndarray, "streams"], np.ndarray]:
        """Which streams begin, and when each did."""
        fresh = ~state["begun"]
        return fresh, np.where(fresh, times[:, 0], state["start"])

    def _cuts(
        self,
        state: State,
        times: np.ndarray,
        start: np.ndarray,
        lengths: np.ndarray,
        fresh: np.ndarray,
        *,
        only_counts: bool = False,
    ) -> tuple[Int[np.ndarray, "streams"], Int[np.ndarray, "streams cuts"]]:
        """How many pieces are completed, and cuts: of what is left of the running one, those, and the next running."""
        rows, begun = np.arange(len(times)), state["window"]
        if self.step is not None:
            increments = (state["increments"] - fresh)[:, None] + np.arange(1, times.shape[1] + 1)
            # A window by count is complete with its last point, and one by time with the next.
            counts = self.before(increments[rows, lengths - 1]) - begun
            pieces = self.before(np.maximum(increments - 1, 0))
        else:
            pieces = self.before(times, start, passed=begun // self._pieces)
            counts = np.maximum(pieces[rows, lengths - 1] - begun, 0)
        if only_counts:
            return counts, np.zeros((len(counts), 0), np.int64)
        most, valid = int(counts.max()), np.arange(times.shape[1]) < lengths[:, None]
        cells = (rows[:, None] * (most + 1) + np.maximum(pieces - begun[:, None], 0))[valid]
        arrived = np.bincount(cells, minlength=len(times) * (most + 1)).reshape(len(times), -1)
        ends = np.cumsum(arrived, axis=1)[:, :most]
        return counts, np.concatenate([np.zeros((len(ends), 1), np.int64), ends, lengths[:, None]], axis=1)

    def _begun(self, state: State, first: np.ndarray, fresh: np.ndarray) -> State:
        """Streams that begin do so at their first point; what stands for windows before it changes no extremes."""
        if not fresh.any():
            return state
        at_first = lambda old: np.where(
            fresh.reshape(-1, *[1] * (old.ndim - 1)), first if old.ndim == 2 else first[:, None], old
        )
        names = [name for name in state if name.endswith(("highest", "lowest"))]
        return state | {name: at_first(state[name]) for name in names}

    def _looking_back(
        self,
        state: State,
        words: Float[np.ndarray, "streams pieces words"],
        highest: Float[np.ndarray, "streams pieces mixed"],
        lowest: Float[np.ndarray, "streams pieces mixed"],
        ends: Int[np.ndarray, "streams windows"],
        counts: Int[np.ndarray, "streams"],
    ) -> tuple[Float[np.ndarray, "streams windows log_signatures"], State]:
        """Log-signatures at all scales that end with these pieces, with zero where there is nothing but rounding.

        And the past that is kept after so many pieces.
        """
        held, kept = self._past + self._whole, {}
        new = {"past": words, "past_highest": highest, "past_lowest": lowest}
        if held:
            new = {name: np.concatenate([state[name], pieces], axis=1) for name, pieces in new.items()}
        pieces, highest, lowest = new.values()
        last = held + ends
        if self._whole:  # what the first piece will be
            last = np.concatenate([last, counts[:, None]], axis=1)
        take = lambda array, places: np.take_along_axis(array, places[..., None], axis=1)
        runs = [int(min(run, pieces.shape[1])) for run in self._runs]
        ranges = [of_the_last(run, highest, np.maximum) - of_the_last(run, lowest, np.minimum) for run in runs]
        if runs == [1]:
            found = take(pieces, last)
        else:
            wanted = [WindowSpan(last, np.full_like(last, run), n) for run, n in zip(runs, self.depths, strict=True)]
            found, _ = _numpy_runs(pieces, wanted, self._of_mixed)
        if held:
            kept = {name: take(array, counts[:, None] + np.arange(held)) for name, array in new.items()}
        if self._whole:
            number, rows = self.scales.index(np.inf), np.arange(len(counts))
            *before, size = (log_signature_channels(self._of_mixed, n) for n in self.depths[: number + 1])
            kept["past"][:, 0, :size] = found[:, -1, sum(before) :][:, :size]
            for name, array, extreme in (("highest", highest, np.maximum), ("lowest", lowest, np.minimum)):
                kept[f"past_{name}"][:, 0] = of_the_last(np.inf, array, extreme)[rows, counts]
            found, last = found[:, :-1], last[:, :-1]
        found = change_bases(found, self._of_mixed, self.depths, old="words", new=self.basis)
        if not self.exact and self.basis != "expanded":  # which has other channels
            found = without_rounding_in(found, [take(one, last) for one in ranges], self.depths)
        return found, kept


@dataclass(frozen=True)
class _Path:
    """What `LogSignatureStreams` asks of a model, for a path as it is."""

    channels: int
    depth: int | tuple[int, ...]
    scales: tuple[float, ...]
    basis: Basis
    takes_increments: ClassVar[bool] = False

    def mixed(self, path: np.ndarray) -> np.ndarray:
        return path


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
        scales, lengths, whole: how far back each log-signature looks, as in `Windows`.
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
        scales: float | tuple[float, ...] = (1,),
        lengths: tuple[float, ...] | None = None,
        whole: int | None = None,
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
            check_number("every", every, above=True, finite=True, because="time runs forward")
        windows = Windows(step, depth, every, scales=as_scales(scales), lengths=lengths, whole=whole)
        self.channels, self.step, self.every, self.basis = channels, step, every, basis
        self.depth, self.scales = windows.looks["depth"], windows.looks["scales"]
        path = _Path(channels, self.depth, self.scales, basis)
        self._streams = LogSignatureStreams(path, step=step, every=every, exact=True)
        self._state, self._time = self._streams.start(1), 0.0

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
        clock = self._check_times(times, len(points))
        if len(points) == 0:
            return np.zeros((0, self._streams.controls))
        state, found, _ = self._streams.push(self._state, points[None], clock[None], np.array([len(points)]))
        self._state, self._time = state, float(clock[-1])
        return found[0]

    def running(self) -> Float[np.ndarray, "log_signature"]:
        """The log-signature of the unfinished window, so far."""
        return self._streams.running(self._state)[0]

    def finish(self) -> Float[np.ndarray, "windows log_signature"]:
        """The tail: the unfinished window, if anything has arrived in it, as a batch of one window or none."""
        unfinished = self._state["begun"][0] and self._streams.unfinished(self._state)[0]
        return self.running()[None] if unfinished else np.zeros((0, self._streams.controls))

    def _check_times(self, times: Any, count: int) -> Float[np.ndarray, "points"]:
        if self.every is None:
            if times is not None:
                raise ValueError("Got times for windows by count (step=...); leave them out, or make windows by time.")
            return np.zeros(count)
        if times is None:
            raise ValueError(
                "Got no times for windows by time (every=...); expected one a point: `stream.push(points, times)`."
            )
        times = np.atleast_1d(np.asarray(as_numbers(times, name="times"), np.float64))
        if times.shape != (count,):
            raise ValueError(f"Got times of shape {times.shape} for {count} points; expected one time a point.")
        begun = bool(self._state["begun"][0])
        steps = np.diff(np.concatenate([[self._time], times]) if begun else times)
        if not (steps > 0).all() or not np.isfinite(times).all():
            where = int(np.argmin(steps)) if len(steps) else 0
            raise ValueError(
                f"Got times that do not increase (by {steps[where] if len(steps) else times[0]} before point "
                f"{where + (not begun)} of this push); expected increasing, finite times, because a stream cannot go "
                "back. Sort the points."
            )
        return times

    def state(self) -> dict[str, Any]:
        """The whole state of the stream as plain numbers, which `json.dumps` keeps exactly."""
        return {
            "channels": int(self.channels),
            "depth": list(self.depth) if isinstance(self.depth, tuple) else int(self.depth),
            "step": None if self.step is None else int(self.step),
            "every": self.every,
            "scales": [None if one == np.inf else one for one in self.scales],
            "basis": self.basis,
            "time": self._time,
            **{name: array[0].tolist() for name, array in self._state.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "LogSignatureStream":
        """A stream that continues from a `state`.

        >>> stream = LogSignatureStream(channels=2, depth=2, step=8)
        >>> again = LogSignatureStream.from_state(stream.state())
        """
        depth = tuple(state["depth"]) if isinstance(state["depth"], list) else state["depth"]
        how = {name: state[name] for name in ("step", "every", "basis")}
        stream = cls(state["channels"], depth, scales=as_scales(state["scales"]), **how)
        found = {name: np.asarray([state[name]], array.dtype) for name, array in stream._state.items()}
        for name, array in found.items():
            if array.shape != (expected := stream._state[name].shape) or not np.isfinite(array).all():
                raise ValueError(
                    f"Got a state whose {name!r} has the shape {array.shape[1:]}; expected finite numbers of the "
                    f"shape {expected[1:]}, for {stream.channels} channels at depth {stream.depth}. Restore what "
                    "`state()` gave, unchanged."
                )
        stream._state, stream._time = found, float(state["time"])
        return stream
