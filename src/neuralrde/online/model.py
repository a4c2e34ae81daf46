"""A trained neural model on series that are still arriving: from raw points to outputs, for many streams at once.

`StreamModel` transforms, cuts and drives; `Programs` are the compiled parts of it, for batches of a few fixed sizes.
Nothing here has a name or a lock. Both are functions of rows: trees of arrays whose first axis is the stream. So a
stream can be taken out, kept elsewhere, and put back.

XLA compiles a program for each shape. Batches are padded to the next of some sizes, and windows go in a few at a time,
so that after `warm_up` nothing is compiled again, however many streams there are and however they push.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._types import Model, Options, State
from ..errors import setting
from ..models import MODELS, Ensemble
from ..models.base import model_class
from ..paths import Series
from ..paths.checks import check_whole
from ..signatures.streams import LogSignatureStreams

StreamStates = PyTree
"""Arrays whose first axis is the stream."""
# New points of all streams, with padding, that are followed at a time: of long histories, one piece after the other.
_POINTS = 2**17
SIZES = (1, 4, 16, 64, 256)
# Windows that a program takes in at a time. It stops at the last that is there, so that few cost no more.
AT_ONCE = 16
# Windows of all streams of a small batch that a second program takes in at a time: a long series is few calls.
MANY_AT_ONCE = 2048
Leaves = list[np.ndarray]


class StreamModel:
    """A trained neural model on streams: what it carries from point to point, and its outputs at any moment."""

    def __init__(self, fitted: Any):
        model, windows, augmentation = fitted.model, fitted.windows, fitted.augmentation
        one = model.first if isinstance(model, Ensemble) else model
        if one.not_online is not None:
            others = " or ".join(repr(name) for name, cls in MODELS.items() if model_class(cls).not_online is None)
            raise ValueError(
                f"Got a model of the class {type(one).__name__}, which {one.not_online}; expected one that is driven "
                f"by log-signatures, window by window. Fit with model={others}."
            )
        self.names, self.every = fitted.inputs.channels, windows.every
        self.channels, self.prepare = len(self.names), fitted.transform
        series = Series(np.zeros((1, 2, self.channels)))
        versions = [(series, None)] if augmentation is None else list(augmentation.test_versions(series))
        if len(versions) > 1 or versions[0][0] is not series:
            raise ValueError(
                f"Got {setting('augmentation', augmentation)}, with which predictions come from several versions of a "
                "whole series; expected one that predicts from series as they are. Fit for example with "
                "TimeStretch(..., speeds=(1.0,))."
            )
        self.prepare.begin(0, self.channels)  # an error if it looks ahead
        by = {"every": windows.every} if windows.every is not None else {"step": windows.step}
        self.shifts = [LogSignatureStreams(one, **by, shift=shift) for shift in windows.all_shifts()]
        self.programs = Programs(model, one.channels + fitted.inputs.static_numbers, self.shifts[0].controls)

    def start(self, streams: int) -> StreamStates:
        """The state of streams that have seen nothing."""
        hidden = [np.broadcast_to(leaf, (streams, *leaf.shape)).copy() for leaf in self.programs.empty]
        return {
            "prepare": self.prepare.begin(streams, self.channels),
            "shifts": [{"windows": shift.start(streams), "hidden": list(hidden)} for shift in self.shifts],
        }

    def push(
        self,
        rows: StreamStates,
        values: Float[np.ndarray, "streams length channels"],
        times: Float[np.ndarray, "streams length"],
        lengths: Int[np.ndarray, "streams"],
        static: Float[np.ndarray, "streams numbers"] | None = None,
    ) -> StreamStates:
        """The rows after new points, at least one of each stream. An error, and nothing has changed."""
        series = Series(values, times=times, lengths=lengths, channels=self.names)
        prepare, prepared = self.prepare.step(rows["prepare"], series)
        path = np.asarray(prepared.values, np.float64)
        if np.isnan(path).any():
            channel = int(np.isnan(path).any(axis=(0, 1)).argmax())
            raise ValueError(
                f"Got a missing value in channel {prepared.channels[channel]!r}, and the model's transform fills none; "
                'expected numbers. Fit with a transform that fills them, such as `Standard(fill="forward")`.'
            )
        with np.errstate(over="ignore", invalid="ignore"):
            shifts = [
                self._on_shift(shift, own, path, prepared.clock, prepared.lengths, static)
                for shift, own in zip(self.shifts, rows["shifts"], strict=True)
            ]
        return {"prepare": prepare, "shifts": shifts}

    def _on_shift(
        self,
        shift: LogSignatureStreams,
        own: Options,
        path: np.ndarray,
        clock: np.ndarray,
        lengths: np.ndarray,
        static: Any,
    ) -> Options:
        """The windows and states of one shift after new points; streams with long gaps are followed apart."""
        hidden = [leaf.copy() for leaf in own["hidden"]]
        after = {name: array.copy() for name, array in own["windows"].items()}
        fresh = np.flatnonzero(~after["begun"])
        if len(fresh):
            x0 = path[fresh, 0] if static is None else np.concatenate([path[fresh, 0], static[fresh]], axis=1)
            for leaf, first in zip(hidden, self.programs.begin(x0), strict=True):
                leaf[fresh] = first
        for rows in shift.groups(own["windows"], clock, lengths):
            longest = int(lengths[rows].max())
            taken = {name: array[rows] for name, array in own["windows"].items()}
            kept, driving, counts = shift.push(taken, path[rows, :longest], clock[rows, :longest], lengths[rows])
            new = self.programs.advance([leaf[rows] for leaf in hidden], driving, counts)
            for whole, part in [*zip(hidden, new, strict=True), *((after[name], kept[name]) for name in kept)]:
                whole[rows] = part
        if not all(np.isfinite(leaf).all() for leaf in hidden):
            raise ValueError(
                "Got points after which the model's state is not a finite number: scaled as in training, they reach "
                f"{np.abs(path).max():.3g}, and the model computes in float32. Look for values that are no "
                "measurements, and write NaN for them."
            )
        return {"windows": after, "hidden": hidden}

    def outputs(self, rows: StreamStates) -> Float[np.ndarray, "streams outputs"]:
        """The model's outputs for the series so far: the running window counts, and is not kept."""
        found = []
        with np.errstate(over="ignore", invalid="ignore"):
            for shift, own in zip(self.shifts, rows["shifts"], strict=True):
                windows = own["windows"]
                found.append(self.programs.output(own["hidden"], shift.running(windows), shift.unfinished(windows)))
        return np.mean(found, axis=0)

    def check(self, rows: StreamStates, points: int, time: float) -> None:
        """Raise unless a row from elsewhere, of the right shapes, is that of a stream with `points` points."""
        for shift, own in zip(self.shifts, rows["shifts"], strict=True):
            windows = own["windows"]
            increments, window = int(windows["increments"][0]), int(windows["window"][0])
            if shift.every is None:
                expected = int(shift.before(np.array([increments]))[0])
            else:
                expected = int(shift.before(np.array([[time]]), windows["start"], passed=window)[0, 0]) if points else 0
            if bool(windows["begun"][0]) != (points > 0) or window != expected or increments > points + shift.shift:
                raise ValueError(f"it counts {increments} increments and {window} windows after {points} points")


def chunk_points(streams: int) -> int:
    """How many new points of each stream are followed at a time.

    >>> chunk_points(1), chunk_points(256)
    (131072, 512)
    """
    return max(_POINTS // streams, 512)


def select_rows(rows: StreamStates, places: Any) -> StreamStates:
    """Some of the rows, copied."""
    return jax.tree.map(lambda array: array[places], rows)


def begin(model: Model, x0: Float[Array, "batch channels"]) -> State:
    return jax.vmap(model.start)(x0)


def advance(
    model: Model, states: State, driving: Float[Array, "batch windows controls"], counts: Int[Array, " batch"]
) -> State:
    """Each state after its own number of windows."""

    def window(carried):
        number, states = carried
        new = jax.vmap(model.advance)(states, jax.lax.dynamic_index_in_dim(driving, number, 1, keepdims=False))
        return number + 1, _where(number < counts, new, states)

    return jax.lax.while_loop(lambda carried: carried[0] < counts.max(), window, (jnp.int32(0), states))[1]


def output(
    model: Model, states: State, running: Float[Array, "batch controls"], unfinished: Bool[Array, " batch"]
) -> Float[Array, "batch outputs"]:
    """Predictions with a look into the running windows, which nobody keeps."""
    return jax.vmap(model.output)(_where(unfinished, jax.vmap(model.advance)(states, running), states))


_begin, _advance, _output = eqx.filter_jit(begin), eqx.filter_jit(advance), eqx.filter_jit(output)


class Programs:
    """A model's states as plain arrays, the first axis of each the stream, and what is done with them."""

    def __init__(self, model: Model, channels: int, controls: int):
        arrays, rest = eqx.partition(model, eqx.is_array)
        # It may have been trained on several devices.
        self.model = eqx.combine(jax.device_put(arrays, jax.local_devices()[0]), rest)
        self.channels, self.controls, self.sizes = channels, controls, SIZES
        shapes = eqx.filter_eval_shape(begin, self.model, jnp.zeros((1, channels), jnp.float32))
        leaves, self._tree = jax.tree.flatten(shapes)
        self.empty: Leaves = [np.zeros(leaf.shape[1:], leaf.dtype) for leaf in leaves]

    def begin(self, x0: Float[np.ndarray, "streams channels"]) -> Leaves:
        """The states of streams that begin at these points."""
        return self._run(lambda x0: _begin(self.model, x0), [], x0.astype(np.float32))

    def advance(
        self, states: Leaves, driving: Float[np.ndarray, "streams windows controls"], counts: Int[np.ndarray, "streams"]
    ) -> Leaves:
        """The states after each stream's own number of windows."""
        first, most = 0, driving.shape[1]
        while first < most:
            at_once = AT_ONCE
            if most - first > AT_ONCE:
                at_once = _most_at_once(self._size(int((counts > first).sum())))
            left = np.clip(counts - first, 0, at_once).astype(np.int32)
            rows, part = np.flatnonzero(left), driving[:, first : first + at_once]
            windows = np.zeros((len(rows), at_once, self.controls), np.float32)
            windows[:, : part.shape[1]] = part[rows]
            new = self._run(lambda *a: _advance(self.model, *a), [s[rows] for s in states], windows, left[rows])
            if len(rows) < len(left):
                for whole, one in zip(states := [state.copy() for state in states], new, strict=True):
                    whole[rows] = one
            else:
                states = new
            first += at_once
        return states

    def output(
        self, states: Leaves, running: Float[np.ndarray, "streams controls"], unfinished: Bool[np.ndarray, "streams"]
    ) -> Float[np.ndarray, "streams outputs"]:
        """Predictions for the series so far."""
        return self._run(lambda *a: _output(self.model, *a), states, running.astype(np.float32), unfinished)[0]

    def warm_up(self, sizes: Sequence[int]) -> None:
        """Compile everything for these sizes of batches, and use no others from now on."""
        for size in sizes or (0,):
            check_whole("size", size, high=2**16)
        self.sizes = tuple(sorted(set(sizes)))
        for size in self.sizes:
            states = self.begin(np.zeros((size, self.channels)))
            for at_once in {AT_ONCE, _most_at_once(size)}:
                self.advance(states, np.zeros((size, at_once, self.controls), np.float32), np.full(size, at_once))
            self.output(states, np.zeros((size, self.controls), np.float32), np.ones(size, bool))

    def _size(self, count: int) -> int:
        """The size to which a batch of `count` streams is padded; more go in several batches."""
        return next((size for size in self.sizes if size >= count), self.sizes[-1])

    def _run(self, program: Callable, states: Leaves, *others: np.ndarray) -> Leaves:
        """The program's result for all streams, in batches of the sizes that there are."""
        found, streams, largest = [], len(others[0]), self.sizes[-1]
        for first in range(0, streams, largest):
            count = min(largest, streams - first)
            part = [_padded(array[first : first + count], self._size(count)) for array in (*states, *others)]
            tree = [jax.tree.unflatten(self._tree, part[: len(states)])] if states else []
            found.append([np.asarray(leaf)[:count] for leaf in jax.tree.leaves(program(*tree, *part[len(states) :]))])
        return found[0] if len(found) == 1 else [np.concatenate(leaves) for leaves in zip(*found, strict=True)]


def _most_at_once(size: int) -> int:
    return max(AT_ONCE, MANY_AT_ONCE // size)


def _where(chosen: Bool[Array, " batch"], new: State, old: State) -> State:
    pick = lambda new, old: jnp.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)
    return jax.tree.map(pick, new, old)


def _padded(array: np.ndarray, size: int) -> np.ndarray:
    """A batch of this size: the first row stands for those that are missing, and nobody looks at them."""
    if len(array) == size:
        return array
    return np.concatenate([array, np.broadcast_to(array[:1], (size - len(array), *array.shape[1:]))])
