"""Many streams that are advanced as one batch."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from .arrivals import checked, fitted_with_times, in_order
from .buffers import Buffer, check_last, has_a_neural_part, looks_at_whole_series, outputs_of
from .following import Follower, piece, taken
from .programs import SIZES
from .state import FORMAT, check_head, fingerprint, from_plain, refusal, to_plain

# What a push can be refused for.
_REFUSED = (ValueError, TypeError, OverflowError)


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

    def __init__(self, estimator: Any, *, last: int | None = None):
        estimator._check_fitted()
        self.estimator, self.last = estimator, last
        self._timed = fitted_with_times(estimator)
        self._channels: int = estimator.n_channels_in_
        self.model = fingerprint(estimator)
        """The fingerprint of the model, which is in every state."""
        whole = looks_at_whole_series(estimator)
        check_last(last, whole, type(estimator).__name__)
        self._buffered = whole
        self._follower = Follower(estimator) if has_a_neural_part(estimator) else None
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
            self._put(np.array([self._slots[name]]), taken(rows, slice(place, place + 1)))

    def _in_order(self, arrivals: Mapping[str, Any]) -> bool:
        """Whether all of them can be taken in as they are; otherwise `_checked` says of each what is wrong."""
        slots = [self._slots.get(name, -1) for name in arrivals]
        if not slots or min(slots) < 0:
            return False
        own, every = taken(self._meters, np.array(slots)), None if self._follower is None else self._follower.every
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
            before = taken(self._rows, slots)
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
            most = piece(len(left))
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
            own = taken(rows, left)
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
        predicted = self.estimator._predicted_from(self._outputs(names), *([] if interval is None else [interval]))
        if interval is None:
            return dict(zip(names, predicted.tolist(), strict=True))
        both = zip(*(part.tolist() for part in predicted), strict=True)
        return dict(zip(names, both, strict=True))

    def predict_proba(self, names: Iterable[str]) -> dict[str, list[float]]:
        """For each stream the probability of each class, in the order of the estimator's `classes_`."""
        names = list(names)
        if not hasattr(self.estimator, "classes_"):
            raise ValueError(f"Got {type(self.estimator).__name__}, which has no classes. Write `predict`.")
        return dict(zip(names, self.estimator._proba_from(self._outputs(names)).tolist(), strict=True))

    def _outputs(self, names: list[str]) -> Float[np.ndarray, "streams outputs"]:
        slots = np.array([self._slot(name) for name in names], np.int64)
        if not names:
            return np.zeros((0, self.estimator.outputs_))
        empty = self._rows["points"][slots] == 0
        if empty.any():
            name = names[int(empty.argmax())]
            raise ValueError(f"Got no point of the stream {name!r} yet; expected at least one to predict from.")
        neural = None
        if self._follower is not None:
            rows = taken(self._rows, slots)["model"] if self._carries else self._followed_anew(names)
            neural = self._follower.outputs(rows)
        outputs = self.estimator._blended(
            neural, lambda closed: outputs_of(closed, [self._buffers[name] for name in names])
        )
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
        row, buffer = taken(self._rows, self._slot(name)), self._buffers[name]
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
