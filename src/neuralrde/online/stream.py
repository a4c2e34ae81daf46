"""Series that are still arriving: one `Stream`, or many in a `StreamBatch`, which are advanced together.

New points are checked, then the neural model follows them (`model.py`), and for the closed form, which looks at series
as a whole, they are kept in a `Buffer`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from ..errors import setting
from ..paths import Series
from ..paths.checks import as_numbers, check_whole
from ..signatures.streams import MOST_AT_ONCE
from ..transforms import BasePoint, Compose, Resample, TimeChannel
from .model import SIZES, StreamModel, chunk_points, select_rows
from .state import FORMAT, as_array, check_head, fingerprint, from_plain, refusal, to_plain

# What a push can be refused for.
_REFUSED = (ValueError, TypeError, OverflowError)
# Points of a stream that are kept where nothing else was said: a quarter of an hour at 125 a second.
MOST = 2**17
# Numbers of all series that are looked at as a whole at a time, padding included.
_NUMBERS = 2**22
_NAME = "stream"


@dataclass(frozen=True)
class Buffer:
    """Raw points and their times, oldest first; with `last`, no more than so many.

    >>> buffer = Buffer.empty(1, last=3).plus(np.arange(5.0)[:, None], None)
    >>> buffer.values[:, 0].tolist()
    [2.0, 3.0, 4.0]
    """

    values: Float[np.ndarray, "points channels"]
    times: Float[np.ndarray, "points"] | None
    last: int | None

    @staticmethod
    def empty(channels: int, last: int | None) -> "Buffer":
        return Buffer(np.zeros((0, channels)), None, last)

    def plus(self, values: Float[np.ndarray, "points channels"], times: Float[np.ndarray, "points"] | None) -> "Buffer":
        """With new points. A buffer has times from its first point on, or never."""
        if self.last is None and len(self.values) + len(values) > MOST:
            raise ValueError(
                f"Got {len(self.values) + len(values)} points of a stream, all of which are kept, because this "
                f"estimator looks at series as a whole; expected at most {MOST}. Write `estimator.stream(last=N)` for "
                f"predictions from the last N points, or fit a neural estimator with {setting('closed_form', False)}, "
                "which keeps none."
            )
        if not len(self.values):  # copied: whoever pushed them may use their memory again
            joined, clock = values.copy(), None if times is None else times.copy()
        else:
            joined = np.concatenate([self.values, values])
            clock = None if self.times is None or times is None else np.concatenate([self.times, times])
        if self.last is not None and len(joined) > self.last:
            # Copied, so that the points before them can go.
            joined, clock = (None if a is None else a[-self.last :].copy() for a in (joined, clock))
        assert joined is not None
        return Buffer(joined, clock, self.last)

    def state(self) -> dict[str, Any]:
        """The points as plain numbers; None is a missing value."""
        times = None if self.times is None else self.times.tolist()
        return {"values": to_plain(self.values), "dtype": str(self.values.dtype), "times": times}

    def restored(self, state: Mapping, points: int, timed: bool) -> "Buffer":
        """The buffer of a `state`, after so many points: an error unless it can be one."""
        kept = points if self.last is None else min(points, self.last)
        values = as_array(state.get("values"), (None, self.values.shape[1]), "values")
        if len(values) != kept:
            raise ValueError(f"values are {len(values)} points; expected {kept}")
        if state.get("dtype") not in ("float32", "float64"):
            raise ValueError("dtype is neither float32 nor float64")
        with np.errstate(over="ignore"):
            values = values.astype(state["dtype"])
        if np.isinf(values).any():
            raise ValueError("values are not finite")
        if not timed or not points:
            return self.plus(values, None)
        times = as_array(state.get("times"), (kept,), "times")
        if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
            raise ValueError("times do not increase")
        return self.plus(values, times)


class Stream:
    """A series that is still arriving: its predictions are those that the whole series so far would get.

    `estimator.stream()` makes one. A neural model keeps one point, the log-signature of the running window, its hidden
    state and what its readout needs: some hundred numbers, or some thousand with several members and scales, however
    long the series is. Estimators that look at series as a whole keep the points: the last so many, `last=`, or all of
    them, up to 131,072.

    >>> import numpy as np
    >>> from neuralrde import Config, NeuralRDE, NeuralRDERegressor
    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(40, 33)), axis=1)
    >>> small = {"model": Config(NeuralRDE, state=4, width=8), "windows": 8, "epochs": 1, "verbose": False}
    >>> estimator = NeuralRDERegressor(**small, random_state=0).fit(X, X[:, -1])
    >>> stream = estimator.stream()
    >>> for value in X[0]:
    ...     stream.push(value)
    >>> stream.points, bool(np.isclose(stream.predict(), estimator.predict(X[:1])[0], rtol=1e-4))
    (33, True)
    >>> again = estimator.stream(stream.state())  # in another process, if you like
    >>> again.predict() == stream.predict()
    True

    Args:
        fitted: what a classifier or regressor has learned, `estimator.fitted_`.
        state: of a stream to go on with.
        last: how many points to look back over, for estimators that look at series as a whole.
    """

    def __init__(self, fitted: Any, state: Any = None, *, last: int | None = None):
        if state is not None and last is None and isinstance(state, dict):
            last = _last_of(state)
        self._streams = StreamBatch(fitted, last=last)
        self._streams.open(_NAME, state)

    def push(self, values: Any, times: Any = None) -> None:
        """Take in points `(count, channels)`, or one point `(channels,)`; NaN is a missing value.

        Args:
            values: any number of points, as raw as in `fit`.
            times: one per point, increasing, if the estimator was fitted on series with times.

        Points that are refused leave the stream as it was.
        """
        errors = self._streams.push({_NAME: (values, times)})
        if errors:
            raise ValueError(errors[_NAME])

    def predict(self, interval: float | None = None) -> Any:
        """For the series so far, the running window included: a number, a label, or a list for several outputs.

        With targets at every point it is the prediction at the last point. With `interval=0.9`, regressors give a pair:
        the prediction, and the interval's lower and upper end.
        """
        return self._streams.predict([_NAME], interval)[_NAME]

    def predict_proba(self) -> list[float]:
        """The probability of each class, in the order of the estimator's `classes_`."""
        return self._streams.predict_proba([_NAME])[_NAME]

    @property
    def points(self) -> int:
        """How many points have been seen."""
        return self._streams.points(_NAME)

    def state(self) -> dict[str, Any]:
        """The whole state as plain numbers, lists and strings, which `json.dumps` keeps exactly.

        `estimator.stream(state)` goes on from there. A state holds the fingerprint of its model, and no other takes it.
        """
        return self._streams.state(_NAME)


def _last_of(state: dict[str, Any]) -> int | None:
    """What a state says; whether it may say so is checked later."""
    last = state.get("last")
    return last if isinstance(last, int) and not isinstance(last, bool) else None


class StreamBatch:
    """Streams by name, all of one fitted estimator; see `Stream` for what a stream is.

    New points of many streams are transformed, cut and driven through the model together. Each stream's predictions
    are those that it would have alone.

    >>> import numpy as np
    >>> from neuralrde import Config, NeuralRDE, NeuralRDERegressor
    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(40, 33)), axis=1)
    >>> small = {"model": Config(NeuralRDE, state=4, width=8), "windows": 8, "epochs": 1, "verbose": False}
    >>> estimator = NeuralRDERegressor(**small, random_state=0).fit(X, X[:, -1])
    >>> streams = estimator.streams()
    >>> streams.open("a"); streams.open("b")
    >>> errors = streams.push({"a": (X[0], None), "b": ("no numbers", None)})
    >>> errors["b"].split(";")[0], "a" in errors  # an error is that of its own stream only
    ('Got values of type <U10', False)
    >>> bool(np.isclose(streams.predict(["a"])["a"], estimator.predict(X[:1])[0], rtol=1e-4))
    True
    """

    def __init__(self, fitted: Any, *, last: int | None = None):
        self.fitted, self.last = fitted, last
        self._timed = fitted_with_times(fitted)
        self._channels = len(fitted.inputs.channels)
        self.model = fingerprint(fitted)
        """The fingerprint of the model, which is in every state."""
        whole = fitted.closed_form is not None
        check_last(last, whole)
        self._buffered = whole
        self._follower = None if fitted.neural_model is None else StreamModel(fitted)
        # With `last`, the model follows the last points anew for each prediction.
        self._carries = self._follower is not None and last is None
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._rows = self._started(0)
        self._buffers: dict[str, Buffer] = {}
        self._before: dict[str, tuple[Any, int, Buffer]] = {}  # of each stream of the last push, what it was

    # Which streams there are.

    def open(self, name: str, state: Any = None) -> None:
        """Begin a stream, or go on with one from its `state`."""
        if name in self._slots:
            raise ValueError(f"Got the name {name!r}, which is open already; expected a new one, or `close` it first.")
        row, buffer = self._restored(state) if state is not None else (self._started(1), self._empty_buffer())
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._put(np.array([slot]), row)
        self._slots[name], self._buffers[name] = slot, buffer

    def close(self, name: str) -> dict[str, Any]:
        """End a stream, and give its last state."""
        state = self.state(name)
        self.discard(name)
        return state

    def discard(self, name: str) -> None:
        """End a stream whose state nobody wants."""
        self._free.append(self._slots.pop(name))
        del self._buffers[name]

    def rename(self, name: str, new: str) -> None:
        """Give a stream another name; the one that had it ends."""
        if new in self._slots:
            self.discard(new)
        self._slots[new], self._buffers[new] = self._slots.pop(name), self._buffers.pop(name)

    def __contains__(self, name: object) -> bool:
        return name in self._slots

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self):
        return iter(list(self._slots))

    def points(self, name: str) -> int:
        """How many points a stream has seen."""
        return int(self._rows["points"][self._slot(name)])

    # New points.

    def push(self, arrivals: Mapping[str, tuple[Any, Any]]) -> dict[str, str]:
        """Take in new points, `{name: (values, times or None)}`, and return an error for each stream that was refused.

        A stream that is refused is left as it was, and the others are not concerned.
        """
        errors, ready = {}, dict(arrivals)
        self._before = {}
        if not self._in_order(ready):
            for name, given in arrivals.items():
                try:
                    ready[name] = self._checked(name, given)
                except _REFUSED as error:
                    errors[name] = str(error)
                    del ready[name]
        # What was given in float32 is computed as for a whole series in float32.
        for dtype in (np.float32, np.float64):
            names = [name for name, (values, _) in ready.items() if values.dtype == dtype and len(values)]
            self._take_in(names, ready, errors)
        return errors

    def undo(self, name: str) -> None:
        """Leave a stream as it was before the last push, if it was in that."""
        if name in self._before and name in self._slots:
            rows, place, self._buffers[name] = self._before.pop(name)
            self._put(np.array([self._slots[name]]), select_rows(rows, slice(place, place + 1)))

    def _in_order(self, arrivals: Mapping[str, Any]) -> bool:
        """Whether all of them can be taken in as they are; otherwise `_checked` says of each what is wrong."""
        slots = [self._slots.get(name, -1) for name in arrivals]
        if not slots or min(slots) < 0:
            return False
        own, every = (
            select_rows(self._meters, np.array(slots)),
            None if self._follower is None else self._follower.every,
        )
        return in_order(list(arrivals.values()), own, channels=self._channels, timed=self._timed, every=every)

    def _checked(self, name: str, given: Any) -> tuple[np.ndarray, np.ndarray | None]:
        slot, rows = self._slot(name), self._rows
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise ValueError(f"Got {type(given).__name__} for the stream {name!r}; expected (values, times or None).")
        points, timed = int(rows["points"][slot]), self._timed
        if timed is None and points:
            timed = bool(rows["timed"][slot])
        every = None if self._follower is None else self._follower.every
        known = {"channels": self._channels, "timed": timed, "points": points, "time": rows["time"][slot]}
        return checked(given[0], given[1], every=every, **known)

    def _take_in(self, names: list[str], ready: Mapping[str, Any], errors: dict[str, str]) -> None:
        """All of them at once; if that fails, in halves, until those that are wrong are alone."""
        if not names:
            return
        try:
            slots = np.array([self._slots[name] for name in names])
            before = select_rows(self._rows, slots)
            rows = self._advanced(before, [ready[name] for name in names])
            buffers = {name: self._buffers[name].plus(*ready[name]) for name in names} if self._buffered else {}
        except _REFUSED as error:
            if len(names) == 1:
                errors[names[0]] = str(error)
                return
            middle = len(names) // 2
            self._take_in(names[:middle], ready, errors)
            self._take_in(names[middle:], ready, errors)
            return
        self._put(slots, rows)
        self._before.update((name, (before, place, self._buffers[name])) for place, name in enumerate(names))
        self._buffers.update(buffers)

    def _advanced(self, rows: Any, arrivals: Sequence[tuple[np.ndarray, np.ndarray | None]]) -> Any:
        lengths, first = np.array([len(values) for values, _ in arrivals]), 0
        while len(left := np.flatnonzero(lengths > first)):
            most = chunk_points(len(left))
            counts = np.minimum(lengths[left] - first, most)
            some = [(v[first : first + most], None if t is None else t[first : first + most])
                    for v, t in (arrivals[number] for number in left.tolist())]  # fmt: skip
            there = np.arange(int(counts.max())) < counts[:, None]
            values = np.zeros((*there.shape, self._channels), arrivals[0][0].dtype)
            values[there] = np.concatenate([new for new, _ in some])
            # Where no times are known, the points are numbered.
            times = rows["points"][left, None] + np.arange(int(counts.max()), dtype=np.float64)
            timed = np.array([clock is not None for _, clock in some])
            if timed.any():
                times[there & timed[:, None]] = np.concatenate([clock for _, clock in some if clock is not None])
            own = select_rows(rows, left)
            after = {"points": own["points"] + counts, "time": times[np.arange(len(left)), counts - 1], "timed": timed}
            if "model" in own and self._follower is not None:
                after["model"] = self._follower.push(own["model"], values, times, counts)
            if len(left) == len(lengths):
                rows = after
            else:
                rows = jax.tree.map(lambda old, new, left=left: _put(old.copy(), left, new), rows, after)
            first += most
        return rows

    # Predictions.

    def predict(self, names: Iterable[str], interval: float | None = None) -> dict[str, Any]:
        """For each stream what the estimator would predict for its series so far: a number, a label or a list.

        With `interval`, regressors give a pair: the prediction, and the interval's lower and upper end.
        """
        names = list(names)
        predicted = self.fitted.predictions(self.fitted.one_per_series(self._outputs(names)), interval)
        if interval is None:
            return dict(zip(names, predicted.tolist(), strict=True))
        both = zip(*(part.tolist() for part in predicted), strict=True)
        return dict(zip(names, both, strict=True))

    def predict_proba(self, names: Iterable[str]) -> dict[str, list[float]]:
        """For each stream the probability of each class, in the order of the estimator's `classes_`."""
        names = list(names)
        if self.fitted.targets.classes is None:
            raise ValueError("Got a regressor, which has no classes; expected a classifier. Write `predict`.")
        probabilities = self.fitted.probabilities(self.fitted.one_per_series(self._outputs(names)))
        return dict(zip(names, probabilities.tolist(), strict=True))

    def _outputs(self, names: list[str]) -> Float[np.ndarray, "streams outputs"]:
        slots = np.array([self._slot(name) for name in names], np.int64)
        if not names:
            return np.zeros((0, self.fitted.targets.outputs))
        empty = self._rows["points"][slots] == 0
        if empty.any():
            name = names[int(empty.argmax())]
            raise ValueError(f"Got no point of the stream {name!r} yet; expected at least one to predict from.")
        neural = None
        if self._follower is not None:
            rows = select_rows(self._rows, slots)["model"] if self._carries else self._followed_anew(names)
            neural = self._follower.outputs(rows)
        closed = None
        if self._buffered:
            closed = outputs_of(self.fitted.closed_form, [self._buffers[name] for name in names])
        outputs = self.fitted.blended(neural, closed)
        wrong = ~np.isfinite(outputs).all(axis=1)
        if wrong.any():
            raise ValueError(
                f"Got the stream {names[int(wrong.argmax())]!r}, for which the model's prediction is not a finite "
                "number. Look for values that are no measurements, and write NaN for them."
            )
        return outputs

    def _followed_anew(self, names: list[str]) -> Any:
        kept = [(self._buffers[name].values, self._buffers[name].times) for name in names]
        assert self._follower is not None
        return self._advanced(self._meter(len(names)) | {"model": self._follower.start(len(names))}, kept)["model"]

    # States.

    def state(self, name: str) -> dict[str, Any]:
        """A stream's whole state as plain numbers, lists and strings, which `json.dumps` keeps exactly."""
        row, buffer = select_rows(self._rows, self._slot(name)), self._buffers[name]
        state = {"stream": "neuralrde", "format": FORMAT, "model": self.model, "last": self.last}
        state |= {name: to_plain(row[name]) for name in ("points", "time", "timed")}
        if self._carries:
            state["carried"] = to_plain(row["model"])
        if self._buffered:
            state |= buffer.state()
        return state

    def _restored(self, state: Any) -> tuple[Any, Buffer]:
        state = check_head(state, self.model, self.last)
        template = jax.tree.map(lambda array: array[0], self._started(1))
        parts: dict[str, Any] = {name: template[name] for name in ("points", "time", "timed")}
        try:
            if self._carries:
                parts["carried"] = template["model"]
            row: Any = from_plain(parts, {name: state.get(name) for name in parts}, "state")
            row = jax.tree.map(lambda array: array[None], row)
            points, timed = int(row["points"][0]), bool(row["timed"][0])
            if points and self._timed not in (None, timed):
                raise ValueError(f"timed is {timed}, which is not what the model was fitted with")
            if self._carries and self._follower is not None:
                row["model"] = row.pop("carried")
                self._follower.check(row["model"], points, float(row["time"][0]))
            buffer = self._empty_buffer()
            return row, buffer.restored(state, points, timed) if self._buffered else buffer
        except ValueError as error:
            raise refusal(error) from None

    # Compiling.

    def warm_up(self, sizes: Iterable[int] = SIZES) -> None:
        """Compile the programs for batches of these sizes, so that nothing is compiled later.

        More streams than the largest are taken in several batches.
        """
        if self._follower is not None:
            self._follower.programs.warm_up(list(sizes))

    # Rows.

    def _slot(self, name: str) -> int:
        if name not in self._slots:
            raise ValueError(f"Got the stream {name!r}, which is not open; write `streams.open({name!r})` first.")
        return self._slots[name]

    @property
    def _meters(self) -> dict[str, np.ndarray]:
        return {name: self._rows[name] for name in ("points", "time", "timed")}

    def _meter(self, streams: int) -> dict[str, Any]:
        return {
            "points": np.zeros(streams, np.int64),
            "time": np.zeros(streams),  # of the last point, or its number
            "timed": np.zeros(streams, bool),
        }

    def _started(self, streams: int) -> dict[str, Any]:
        model = {"model": self._follower.start(streams)} if self._carries and self._follower is not None else {}
        return self._meter(streams) | model

    def _empty_buffer(self) -> Buffer:
        return Buffer.empty(self._channels, self.last)

    def _grow(self) -> None:
        have = len(self._rows["points"])
        more = max(1, have)
        self._rows = jax.tree.map(lambda *arrays: np.concatenate(arrays), self._rows, self._started(more))
        self._free += list(range(have + more - 1, have - 1, -1))

    def _put(self, slots: np.ndarray, rows: Any) -> None:
        jax.tree.map(lambda whole, part: _put(whole, slots, part), self._rows, rows)


def _put(whole: np.ndarray, places: np.ndarray, part: np.ndarray) -> np.ndarray:
    whole[places] = part
    return whole


def check_last(last: int | None, whole: bool) -> None:
    if last is None:
        return
    if not whole:
        raise ValueError(
            f"Got last={last!r} for an estimator without a closed form, which keeps no points; expected None: its "
            "state is of a fixed size, and its predictions are those for the whole series. Leave `last` out."
        )
    check_whole("last", last, high=2**24)


def outputs_of(closed: Any, buffers: Sequence[Buffer]) -> Float[np.ndarray, "streams outputs"]:
    """The outputs of a closed form for the points that were kept."""
    outputs = np.zeros((len(buffers), closed.targets.outputs))
    at_once = max(1, _NUMBERS // max(buffer.values.size for buffer in buffers))
    for timed in (False, True):
        places = [place for place, buffer in enumerate(buffers) if (buffer.times is not None) == timed]
        for first in range(0, len(places), at_once):
            some = places[first : first + at_once]
            times: Any = [buffers[place].times for place in some] if timed else None
            values = [buffers[place].values for place in some]
            series = Series.from_arrays(values, times=times, channels=closed.inputs.channels)
            outputs[some] = closed.whole_outputs(series)
    return outputs


def fitted_with_times(fitted: Any) -> bool | None:
    """Whether the series of the training set had times; None if nothing that was learned depends on it."""
    for part in (fitted, fitted.closed_form):
        if part is None:
            continue
        if getattr(getattr(part, "windows", None), "every", None) is not None:
            return True
        for transform in part.transform.transforms if isinstance(part.transform, Compose) else (part.transform,):
            if isinstance(transform, TimeChannel) and transform.timed_ is not None:
                return transform.timed_
            if isinstance(transform, BasePoint) and transform.gap_ is not None:
                return True
            if isinstance(transform, Resample) and transform.spacing_ is not None:
                return True
    return None


def checked(
    values: Any, times: Any, *, channels: int, timed: bool | None, points: int, time: float, every: float | None
) -> tuple[Float[np.ndarray, "points channels"], Float[np.ndarray, "points"] | None]:
    """New points `(count, channels)` and their times.

    Args:
        values, times: as they were pushed.
        channels: of the model.
        timed: whether times are expected; None if both will do.
        points: how many have been seen.
        time: of the last one.
        every: the time in a window, if windows are cut by time.
    """
    values = as_numbers(values)
    if values.ndim < 2 and (values.size == 0 or channels == 1):
        values = values.reshape(-1, channels)
    values = values[None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] != channels:
        raise ValueError(
            f"Got points of shape {values.shape}; expected (count, {channels}), or ({channels},) for a single point, "
            f"because the model was fitted on series of {channels} channel{'' if channels == 1 else 's'}."
        )
    if not np.isfinite(values.sum(dtype=np.float64)) and np.isinf(values).any():
        raise ValueError(
            f"Got infinity in channel {int(np.isinf(values).any(axis=0).argmax())}; expected finite numbers, or NaN "
            "for missing values, because no path runs through infinity."
        )
    if timed is not None and timed != (times is not None):
        raise ValueError(
            f"Got points {'without' if timed else 'with'} times; expected them {'with' if timed else 'without'}, as "
            f"{'before' if points else 'in training'}. Write `push(values{', times' if timed else ''})`."
        )
    if times is None:
        return values, None
    times = np.atleast_1d(as_numbers(times, name="times").astype(np.float64, copy=False))
    if times.shape != values.shape[:1]:
        raise ValueError(f"Got times of shape {times.shape} for {len(values)} points; expected one time per point.")
    if not len(times):
        return values, times
    steps = np.concatenate([[time], times]) if points else times
    steps = steps[1:] - steps[:-1]
    # Between a finite first and last time, times that increase are finite.
    if not (steps > 0).all() or not np.isfinite(times[0]) or not np.isfinite(times[-1]):
        where = int(np.argmin(steps > 0)) + (points == 0) if len(steps) else 0
        before = times[where - 1] if where else time
        raise ValueError(
            f"Got the time {times[where]} at point {where} of this push, after {before}; expected finite times that "
            "increase, because a stream cannot go back. Sort the points, and merge those of one time."
        )
    if every is not None and len(steps) and not steps.max() / every < MOST_AT_ONCE:
        raise ValueError(
            f"Got a gap of {steps.max():g} between points, {steps.max() / every:.3g} windows of {every:g}; expected "
            f"fewer than {MOST_AT_ONCE}. Close the stream and begin another after such a gap."
        )
    return values, times


def in_order(
    arrivals: Sequence[Any], seen: Mapping[str, np.ndarray], *, channels: int, timed: bool | None, every: float | None
) -> bool:
    """Whether `checked` would let all of these pass as they are: one look at many streams, which is soon done.

    Args:
        arrivals: of each stream what was pushed.
        seen: of each stream its "points" so far, the "time" of the last, and whether it is "timed".
        channels, timed, every: as in `checked`.
    """
    for given in arrivals:
        if type(given) is not tuple or len(given) != 2 or not _plain(given[0], (None, channels)) or not len(given[0]):
            return False
        if given[1] is not None and not _plain(given[1], (len(given[0]),)):
            return False
    if np.isinf(np.concatenate([values for values, _ in arrivals])).any():
        return False
    clocks = [times for _, times in arrivals if times is not None]
    have = bool(clocks)
    expected = timed if timed is not None else np.where(seen["points"] > 0, seen["timed"], have)
    if len(clocks) not in (0, len(arrivals)) or np.any(expected != have):
        return False
    if not have:
        return True
    times, lengths = np.concatenate(clocks), np.array([len(clock) for clock in clocks])
    first = np.cumsum(lengths) - lengths
    before = np.concatenate([times[:1], times[:-1]])
    before[first] = np.where(seen["points"] > 0, seen["time"], -np.inf)
    steps = times - before
    if (
        not (steps > 0).all()
        or not np.isfinite(times[first]).all()
        or not np.isfinite(times[first + lengths - 1]).all()
    ):
        return False
    return every is None or bool((steps[np.isfinite(steps)] / every < MOST_AT_ONCE).all())


def _plain(array: Any, shape: tuple[int | None, ...]) -> bool:
    return (
        type(array) is np.ndarray
        and array.dtype == np.float64
        and array.ndim == len(shape)
        and all(size is None or size == own for size, own in zip(shape, array.shape, strict=True))
    )
