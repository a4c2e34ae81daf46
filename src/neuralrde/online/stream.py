"""Series that are still arriving: one `Stream`, or many in a `StreamBatch`, which are advanced together.

New points are checked, then the neural model follows them (`model.py`), and for the closed form, which looks at series
as a whole, they are kept.

The state of a stream may come from a file: names, shapes and ranges are those that the model makes, or it is refused; a
wrong number of the right kind makes wrong predictions of its own stream, and nothing else.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree

from .._types import Options, Plain, TableLike
from ..errors import setting
from ..paths import Series
from ..paths.checks import check_whole
from ..paths.series import as_numbers
from ..signatures.streams import MOST_AT_ONCE
from ..training.archive import arrays_of
from .model import SIZES, StreamModel, StreamStates, chunk_points, select_rows

FORMAT = 1
# Whole numbers above this are not exact in JSON, which other languages read as floats.
_MOST = 2**53


def fingerprint(fitted: Any) -> str:
    """A checksum of all that a prediction depends on: the same for the same fitted model, wherever it was loaded."""
    digest = hashlib.sha256()
    for part in (fitted,) if fitted.closed_form in (None, fitted) else (fitted, fitted.closed_form):
        targets, blend = part.targets, part.blend
        plain = [type(part).__name__, part.transform.state(), repr(part.windows)]
        plain += [part.members, None if blend is None else blend.factors, list(part.inputs.channels)]
        plain += [targets.one_dimensional, None if targets.classes is None else targets.classes.tolist()]
        plain += [part.threshold]
        plain += [] if part.inputs.static is None else [astuple(part.inputs.static)]
        digest.update(json.dumps(plain).encode())
        for name, array in sorted(arrays_of(part.model, "model").items()):
            # The same model where JAX computes in float64: its weights have been converted.
            array = np.ascontiguousarray(array, np.float32 if array.dtype == np.float64 else None)
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()[:32]


def to_plain(tree: PyTree) -> Plain:
    """One row of a tree of arrays; NaN, which JSON has not, becomes None."""

    def listed(leaf: Any) -> Plain:
        array = np.asarray(leaf)
        if array.dtype.kind == "f" and np.isnan(array).any():
            return np.where(np.isnan(array), np.array(None), array).tolist()
        return array.tolist()

    return jax.tree.map(listed, tree)


def from_plain(template: PyTree, plain: Plain, where: str = "carried") -> PyTree:
    """What `to_plain` was given: a tree like the template, every number of it checked."""

    def checked(path: Any, template: Any, plain: Plain) -> np.ndarray:
        place = where + jax.tree_util.keystr(path)
        array, kind = as_array(plain, template.shape, place), template.dtype.kind
        if not np.isfinite(array).all():
            raise ValueError(f"{place} has numbers that are not finite")
        if kind in "ib":
            most = 1 if kind == "b" else min(_MOST, int(np.iinfo(template.dtype).max))
            if (array != np.round(array)).any() or array.min(initial=0) < 0 or array.max(initial=0) > most:
                raise ValueError(f"{place} is {_brief(plain)}; expected whole numbers from 0 to {most}")
        elif np.abs(array).max(initial=0) > np.finfo(template.dtype).max:
            raise ValueError(f"{place} has numbers beyond {template.dtype}")
        return array.astype(template.dtype)

    try:
        return jax.tree_util.tree_map_with_path(checked, template, plain)
    except (ValueError, TypeError) as error:  # JAX says where a tree is not like the template
        raise ValueError(_brief(error)) from None


def as_array(plain: Plain, shape: tuple[int | None, ...], where: str) -> np.ndarray:
    """Nested lists of numbers as an array of a shape; None in it stands for any size, and in the lists for NaN."""
    try:
        array = np.array(plain, np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise ValueError(f"{where} is {_brief(plain)}; expected lists of numbers") from None
    if array.size == 0 and None in shape:
        return np.zeros([size or 0 for size in shape])
    if array.ndim != len(shape) or any(s not in (None, own) for s, own in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{where} has the shape {array.shape}; expected {shape}")
    return array


def check_head(state: Plain, mark: str, last: int | None) -> Mapping:
    """Raise unless a state is one of this format, of this model, and of a stream that looks back as far."""
    if not isinstance(state, Mapping) or state.get("stream") != "neuralrde":
        raise ValueError(f"Got the state {_brief(state)}; expected what `stream.state()` returned, unchanged.")
    if state.get("format") != FORMAT or isinstance(state.get("format"), bool):
        raise ValueError(
            f"Got a state of format {_brief(state.get('format'))}; expected {FORMAT}, which this version of neuralrde "
            "writes. Go on with the version that wrote it, or begin the stream anew."
        )
    if state.get("model") != mark:
        raise ValueError(
            f"Got a state of the model {_brief(state.get('model'))}; expected {mark}, the fingerprint of this one, "
            "because another model's numbers mean nothing here. Load the model that the stream began with."
        )
    if state.get("last", "nothing") != last:
        raise ValueError(
            f"Got a state of a stream with last={_brief(state.get('last'))}; expected last={last}, as this one has."
        )
    return state


def _brief(what: object) -> str:
    try:
        text = str(what) if isinstance(what, ValueError) else repr(what)
    except RecursionError:
        return "something too deep"
    return text if len(text) <= 400 else f"{text[:400]} ..."


# What a push can be refused for.
_REFUSED = (ValueError, TypeError, OverflowError)
# Points of a stream that are kept where nothing else was said: a quarter of an hour at 125 a second.
MOST = 2**17
# Numbers of all series that are looked at as a whole at a time, padding included.
_NUMBERS = 2**22
_NAME = "stream"
Points = tuple[Float[np.ndarray, "_ channels"], Float[np.ndarray, "_"] | None]


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
        static: what is known of the series as a whole, by column, for estimators that were fitted with such a table.
    """

    def __init__(self, fitted: Any, state: Plain = None, *, last: int | None = None, static: TableLike = None):
        if last is None and isinstance(state, dict) and type(state.get("last")) is int:
            last = state["last"]  # whether it may say so is checked later
        self._streams = StreamBatch(fitted, last=last)
        self._streams.open(_NAME, state, static)

    def push(self, values: Any, times: Any = None) -> None:
        """Take in points `(count, channels)`, or one point `(channels,)`; NaN is a missing value.

        Args:
            values: any number of points, as raw as in `fit`.
            times: one per point, increasing, if the estimator was fitted on series with times.

        Points that are refused leave the stream as it was.
        """
        if errors := self._streams.push({_NAME: (values, times)}):
            raise ValueError(errors[_NAME])

    def predict(self, interval: float | None = None) -> Any:
        """A number, a label, or a list for several outputs: for the series so far, the running window included.

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

    def state(self) -> Options:
        """The whole state as plain numbers, lists and strings, which `json.dumps` keeps exactly.

        `estimator.stream(state)` goes on from there. A state holds the fingerprint of its model, and no other takes it.
        """
        return self._streams.state(_NAME)


class StreamBatch:
    """Streams by name, all of one fitted estimator; see `Stream` for what a stream is.

    New points of many streams are transformed, cut and driven through the model together. Each stream's predictions
    are those that it would have alone.
    """

    def __init__(self, fitted: Any, *, last: int | None = None):
        self.fitted, self.last = fitted, last
        self._timed, self._channels = fitted_with_times(fitted), len(fitted.inputs.channels)
        self.model = fingerprint(fitted)
        """The fingerprint of the model, which is in every state."""
        self._buffered = fitted.closed_form is not None
        if last is not None and not self._buffered:
            raise ValueError(
                f"Got last={last!r} for an estimator without a closed form, which keeps no points; expected None: its "
                "state is of a fixed size, and its predictions are those for the whole series. Leave `last` out."
            )
        if last is not None:
            check_whole("last", last, high=2**24)
        self._stream_model = None if fitted.neural_model is None else StreamModel(fitted)
        # With `last`, the model follows the last points anew for each prediction.
        self._carries = self._stream_model is not None and last is None
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._rows = self._started(0, carries=self._carries)
        self._buffers: dict[str, Points | None] = {}
        self._before: dict[str, tuple[StreamStates, int, Points | None]] = {}  # the last push

    # Which streams there are.

    def open(self, name: str, state: Plain = None, static: TableLike = None) -> None:
        """Begin a stream, with what is known of it as a whole; or go on with one from its `state`."""
        if name in self._slots:
            raise ValueError(f"Got the name {name!r}, which is open already; expected a new one, or `close` it first.")
        row, buffer = (self._begun(static), None) if state is None else self._restored(state, static)
        if not self._free:  # twice as many rows
            have = len(self._rows["points"])
            more = self._started(max(1, have), carries=self._carries)
            self._rows = jax.tree.map(lambda *arrays: np.concatenate(arrays), self._rows, more)
            self._free = list(range(len(self._rows["points"]) - 1, have - 1, -1))
        self._slots[name], self._buffers[name] = self._free.pop(), buffer
        _put(self._rows, [self._slots[name]], row)

    def close(self, name: str) -> Options:
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
        slot, buffer = self._slots.pop(name), self._buffers.pop(name)
        if new in self._slots:
            self.discard(new)
        self._slots[new], self._buffers[new] = slot, buffer

    def __contains__(self, name: object) -> bool:
        return name in self._slots

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._slots))

    def points(self, name: str) -> int:
        """How many points a stream has seen."""
        return int(self._rows["points"][self._slot(name)])

    def kept(self, name: str) -> tuple[Series, np.ndarray | None]:
        """The points that a stream keeps, as a series, and the numbers of the table beside it."""
        slot, points = self._slot(name), self._buffers[name]
        if points is None:
            why = "has no point yet" if self._buffered else "keeps none, because its model has no closed form"
            raise ValueError(f"Got the stream {name!r}, which {why}; expected one that keeps its points.")
        values, times = points
        clock = None if times is None else times[None]
        series = Series(values[None], times=clock, channels=self.fitted.inputs.channels)
        return series, self._rows["static"][[slot]] if "static" in self._rows else None

    # New points.

    def push(self, arrivals: Mapping[str, tuple[Any, Any]]) -> dict[str, str]:
        """Take in new points, `{name: (values, times or None)}`, and return an error for each stream that was refused.

        A stream that is refused is left as it was, and the others are not concerned.
        """
        ready, errors = self._checked(arrivals)
        self._before = {}
        # What was given in float32 is computed as for a whole series in float32.
        for dtype in (np.float32, np.float64):
            names = [name for name, (values, _) in ready.items() if values.dtype == dtype and len(values)]
            self._take_in(names, ready, errors)
        return errors

    def undo(self, name: str) -> None:
        """Leave a stream as it was before the last push, if it was in that."""
        if name in self._before and name in self._slots:
            rows, place, self._buffers[name] = self._before.pop(name)
            _put(self._rows, [self._slots[name]], select_rows(rows, slice(place, place + 1)))

    def _checked(self, arrivals: Mapping[str, Any]) -> tuple[dict[str, Points], dict[str, str]]:
        """The points and times of each stream, and an error for each that cannot be taken."""
        ready: dict[str, Points] = {}
        errors: dict[str, str] = {}
        for name, given in arrivals.items():
            try:
                self._slot(name)
                if not isinstance(given, tuple | list) or len(given) != 2:
                    raise ValueError(
                        f"Got {type(given).__name__} for the stream {name!r}; expected (values, times or None)."
                    )
                ready[name] = as_points(*given, channels=self._channels)
            except _REFUSED as error:
                errors[name] = str(error)
        errors |= self._refused(ready) if ready else {}
        return {name: given for name, given in ready.items() if name not in errors} if errors else ready, errors

    def _refused(self, ready: Mapping[str, Points]) -> dict[str, str]:
        """An error for each stream whose numbers or times cannot come next: one look at all of them."""
        errors: dict[str, str] = {}
        names, slots = list(ready), [self._slots[name] for name in ready]
        points, last, was_timed = (self._rows[name][slots] for name in ("points", "time", "timed"))
        owners = np.repeat(np.arange(len(names)), [len(values) for values, _ in ready.values()])
        infinite = np.isinf(np.concatenate([values for values, _ in ready.values()]))
        for k, place in _first_of(infinite.any(axis=1), owners):
            errors[names[k]] = (
                f"Got infinity in channel {int(infinite[place].argmax())}; expected finite numbers, or NaN for missing "
                "values, because no path runs through infinity."
            )
        timed = np.array([times is not None for _, times in ready.values()])
        expected = np.where(points > 0, was_timed, timed) if self._timed is None else self._timed
        for k in np.flatnonzero(timed != expected).tolist():
            errors[names[k]] = (
                f"Got points {'with' if timed[k] else 'without'} times; expected them "
                f"{'without' if timed[k] else 'with'}, as {'before' if points[k] else 'in training'}. Write "
                f"`push(values{'' if timed[k] else ', times'})`."
            )
        if not timed.any():
            return errors
        owners = owners[timed[owners]]
        times = np.concatenate([times for _, times in ready.values() if times is not None])
        first = np.diff(owners, prepend=-1) > 0
        before = np.concatenate([times[:1], times[:-1]])
        before[first] = np.where(points > 0, last, -np.inf)[owners[first]]
        with np.errstate(invalid="ignore", over="ignore"):
            steps = times - before
        for k, place in _first_of(~(steps > 0) | ~np.isfinite(times), owners):
            errors[names[k]] = (
                f"Got the time {times[place]} at point {place - np.searchsorted(owners, k)} of this push, after "
                f"{before[place]}; expected finite times that increase, because a stream cannot go back. Sort the "
                "points, and merge those of one time."
            )
        every = None if self._stream_model is None else self._stream_model.every
        if every is not None:  # not more windows at once than a model can be driven through
            for k, place in _first_of(np.isfinite(before) & ~(steps / every < MOST_AT_ONCE), owners):
                message = (
                    f"Got a gap of {steps[place]:g} between points, {steps[place] / every:.3g} windows of {every:g}; "
                    f"expected fewer than {MOST_AT_ONCE}. Close the stream and begin another after such a gap."
                )
                errors.setdefault(names[k], message)
        return errors

    def _take_in(self, names: list[str], ready: Mapping[str, Points], errors: dict[str, str]) -> None:
        """Take in all of them at once; if that fails, in halves, until those that are wrong are alone."""
        if not names:
            return
        try:
            slots = np.array([self._slots[name] for name in names])
            before = select_rows(self._rows, slots)
            rows = self._advanced(before, [ready[name] for name in names])
            buffers = {name: self._joined(self._buffers[name], ready[name]) for name in names if self._buffered}
        except _REFUSED as error:
            if len(names) == 1:
                errors[names[0]] = str(error)
                return
            middle = len(names) // 2
            self._take_in(names[:middle], ready, errors)
            self._take_in(names[middle:], ready, errors)
            return
        _put(self._rows, slots, rows)
        self._before.update((name, (before, place, self._buffers[name])) for place, name in enumerate(names))
        self._buffers.update(buffers)

    def _joined(self, kept: Points | None, new: Points) -> Points:
        """The points of a stream with new ones, copied: whoever pushed them may use their memory again."""
        parts = [new] if kept is None else [kept, new]
        count = sum(len(values) for values, _ in parts)
        if self.last is None and count > MOST:
            raise ValueError(
                f"Got {count} points of a stream, all of which are kept, because this estimator looks at series as a "
                f"whole; expected at most {MOST}. Write `estimator.stream(last=N)` for predictions from the last N "
                f"points, or fit a neural estimator with {setting('closed_form', False)}, which keeps none."
            )
        values = np.concatenate([values for values, _ in parts])
        clocks = [times for _, times in parts if times is not None]
        times = np.concatenate(clocks) if clocks else None
        if self.last is not None and count > self.last:  # copied, so that the points before them can go
            values, times = values[-self.last :].copy(), None if times is None else times[-self.last :].copy()
        return values, times

    def _advanced(self, rows: StreamStates, arrivals: Sequence[Points]) -> StreamStates:
        """Rows after new points of each stream: of long histories, one piece after the other."""
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
            after |= {"static": own["static"]} if "static" in own else {}
            if "model" in own and self._stream_model is not None:
                after["model"] = self._stream_model.push(own["model"], values, times, counts, own.get("static"))
            if len(left) < len(lengths):
                rows = jax.tree.map(np.copy, rows)
                _put(rows, left, after)
            else:
                rows = after
            first += most
        return rows

    # Predictions.

    def predict(self, names: Iterable[str], interval: float | None = None) -> Options:
        """What the estimator would predict for the series so far of each stream: a number, a label or a list.

        With `interval`, regressors give a pair: the prediction, and the interval's lower and upper end.
        """
        names = list(names)
        found = self.fitted.predictions(self.fitted.one_per_series(self._outputs(names)), interval)
        each = found.tolist() if interval is None else zip(*(part.tolist() for part in found), strict=True)
        return dict(zip(names, each, strict=True))

    def predict_proba(self, names: Iterable[str]) -> dict[str, list[float]]:
        """The probability of each class for each stream, in the order of the estimator's `classes_`."""
        names = list(names)
        if self.fitted.targets.classes is None:
            raise ValueError("Got a regressor, which has no classes; expected a classifier. Write `predict`.")
        probabilities = self.fitted.probabilities(self.fitted.one_per_series(self._outputs(names)))
        return dict(zip(names, probabilities.tolist(), strict=True))

    def _outputs(self, names: list[str]) -> Float[np.ndarray, "streams outputs"]:
        if not names:
            return np.zeros((0, self.fitted.targets.outputs))
        slots, neural, closed = np.array([self._slot(name) for name in names]), None, None
        if (empty := self._rows["points"][slots] == 0).any():
            name = names[int(empty.argmax())]
            raise ValueError(f"Got no point of the stream {name!r} yet; expected at least one to predict from.")
        kept: Any = [self._buffers[name] for name in names]
        static = self._rows["static"][slots] if "static" in self._rows else None
        if self._stream_model is not None:
            if self._carries:
                rows = select_rows(self._rows["model"], slots)
            else:
                fresh = self._started(len(names), carries=True)
                fresh |= {} if static is None else {"static": static}
                rows = self._advanced(fresh, kept)["model"]
            neural = self._stream_model.outputs(rows)
        if self._buffered:
            closed = outputs_of(self.fitted.closed_form, kept, static)
        outputs = self.fitted.blended(neural, closed)
        if (wrong := ~np.isfinite(outputs).all(axis=1)).any():
            raise ValueError(
                f"Got the stream {names[int(wrong.argmax())]!r}, for which the model's prediction is not a finite "
                "number. Look for values that are no measurements, and write NaN for them."
            )
        return outputs

    # States.

    def state(self, name: str) -> Options:
        """A stream's whole state as plain numbers, lists and strings, which `json.dumps` keeps exactly."""
        row = select_rows(self._rows, self._slot(name))
        state = {"stream": "neuralrde", "format": FORMAT, "model": self.model, "last": self.last}
        state |= {name: to_plain(row[name]) for name in ("points", "time", "timed", "static") if name in row}
        if self._carries:
            state["carried"] = to_plain(row["model"])
        if self._buffered:
            values, times = self._buffers[name] or (np.zeros((0, self._channels)), None)
            state |= {"values": to_plain(values), "dtype": str(values.dtype)}
            state["times"] = None if times is None else times.tolist()
        return state

    def _begun(self, static: TableLike) -> StreamStates:
        """The row of a stream that begins with this table of one row."""
        row = self._started(1, carries=self._carries)
        coded = self.fitted.inputs.coded(static, 1)
        return row if coded is None else row | {"static": coded}

    def _restored(self, state: Plain, static: TableLike) -> tuple[StreamStates, Points | None]:
        """The row and the kept points of a state; an error unless it is one of this model's."""
        state = check_head(state, self.model, self.last)
        if static is not None:
            raise ValueError("Got static and a state, which holds its stream's own; expected one of them.")
        parts = jax.tree.map(lambda array: array[0], self._started(1, carries=self._carries))
        parts |= {"carried": parts.pop("model")} if self._carries else {}
        try:
            row = from_plain(parts, {name: state.get(name) for name in parts}, "state")
            row = jax.tree.map(lambda array: array[None], row)
            points, timed = int(row["points"][0]), bool(row["timed"][0])
            if points and self._timed not in (None, timed):
                raise ValueError(f"timed is {timed}, which is not what the model was fitted with")
            if self._carries and self._stream_model is not None:
                row["model"] = row.pop("carried")
                self._stream_model.check(row["model"], points, float(row["time"][0]))
            if not self._buffered:
                return row, None
            count = points if self.last is None else min(points, self.last)
            values = as_array(state.get("values"), (None, self._channels), "values")
            if len(values) != count:
                raise ValueError(f"values are {len(values)} points; expected {count}")
            if state.get("dtype") not in ("float32", "float64"):
                raise ValueError("dtype is neither float32 nor float64")
            with np.errstate(over="ignore"):
                values = values.astype(state["dtype"])
            if np.isinf(values).any():
                raise ValueError("values are not finite")
            times = as_array(state.get("times"), (count,), "times") if timed and points else None
            if times is not None and (not np.isfinite(times).all() or (np.diff(times) <= 0).any()):
                raise ValueError("times do not increase")
            return row, self._joined(None, (values, times)) if points else None
        except ValueError as error:
            raise ValueError(
                f"Got a state that is not one of this model: {error}. Restore what `state()` gave, unchanged."
            ) from None

    def warm_up(self, sizes: Iterable[int] = SIZES) -> None:
        """Compile the programs for batches of these sizes, so that nothing is compiled later.

        More streams than the largest are taken in several batches.
        """
        if self._stream_model is not None:
            self._stream_model.programs.warm_up(list(sizes))

    # Rows.

    def _slot(self, name: str) -> int:
        if name not in self._slots:
            raise ValueError(f"Got the stream {name!r}, which is not open; write `streams.open({name!r})` first.")
        return self._slots[name]

    def _started(self, streams: int, *, carries: bool) -> Options:
        """Rows of streams that have seen nothing; "time" is the last point's time, or its number."""
        rows: Options = {"points": np.zeros(streams, np.int64), "time": np.zeros(streams)}
        rows["timed"] = np.zeros(streams, bool)
        if numbers := self.fitted.inputs.static_numbers:
            rows["static"] = np.zeros((streams, numbers), np.float32)
        return rows | (
            {"model": self._stream_model.start(streams)} if carries and self._stream_model is not None else {}
        )


def _put(rows: StreamStates, places: Any, part: StreamStates) -> None:
    for whole, new in zip(jax.tree.leaves(rows), jax.tree.leaves(part), strict=True):
        whole[places] = new


def _first_of(wrong: Any, owners: np.ndarray) -> list[tuple[int, int]]:
    """Each stream that has a wrong point, by number, and the place of the first one among all points."""
    places = np.flatnonzero(wrong)
    found, firsts = np.unique(owners[places], return_index=True)
    return list(zip(found.tolist(), places[firsts].tolist(), strict=True))


def as_points(values: Any, times: Any, *, channels: int) -> Points:
    """New points `(count, channels)` and their times, as arrays of floating-point numbers."""
    if type(values) is not np.ndarray or values.dtype != np.float64:  # a look that costs a service little
        values = as_numbers(values)
    if values.ndim < 2:
        values = values.reshape(-1, channels) if values.size == 0 or channels == 1 else values[None]
    if values.shape[1:] != (channels,):
        raise ValueError(
            f"Got points of shape {values.shape}; expected (count, {channels}), or ({channels},) for a single point, "
            f"because the model was fitted on series of {channels} channel{'' if channels == 1 else 's'}."
        )
    if times is None:
        return values, None
    if type(times) is not np.ndarray or times.dtype != np.float64:
        times = np.atleast_1d(as_numbers(times, name="times").astype(np.float64, copy=False))
    if times.shape != values.shape[:1]:
        raise ValueError(f"Got times of shape {times.shape} for {len(values)} points; expected one time per point.")
    return values, times


def outputs_of(
    closed: Any, kept: Sequence[Points], static: np.ndarray | None = None
) -> Float[np.ndarray, "streams outputs"]:
    """The outputs of a closed form for the points that were kept, and the numbers of a table beside them."""
    outputs = np.zeros((len(kept), closed.targets.outputs))
    at_once = max(1, _NUMBERS // max(values.size for values, _ in kept))
    for timed in (False, True):
        places = [place for place, (_, times) in enumerate(kept) if (times is not None) == timed]
        for first in range(0, len(places), at_once):
            some = places[first : first + at_once]
            times: Any = [kept[place][1] for place in some] if timed else None
            series = Series.from_arrays(
                [kept[place][0] for place in some], times=times, channels=closed.inputs.channels
            )
            outputs[some] = closed.whole_outputs(series, None if static is None else static[some])
    return outputs


def fitted_with_times(fitted: Any) -> bool | None:
    """Whether the series of the training set had times; None if nothing that was learned depends on it."""
    for part in (fitted, fitted.closed_form):
        if part is None:
            continue
        if part.windows is not None and part.windows.every is not None:
            return True
        if part.transform.timed is not None:
            return part.transform.timed
    return None
