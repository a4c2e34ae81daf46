"""The compiled programs of a stream: begin, advance, answer, for batches of a few fixed sizes.

XLA compiles a program for each shape. Batches are padded to the next of some sizes, and windows go in a few at a time,
so that after `warm_up` nothing is compiled again, however many streams there are and however they push.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..paths.checks import check_whole

SIZES = (1, 4, 16, 64, 256)
# Windows that a program takes in at a time. It stops at the last that is there, so that few cost no more.
AT_ONCE = 16
# Windows of all streams of a small batch that a second program takes in at a time: a long series is few calls.
MANY_AT_ONCE = 2048
Leaves = list[np.ndarray]


def begin(model: Any, x0: Float[Array, "batch channels"]) -> Any:
    return jax.vmap(model.start)(x0)


def advance(
    model: Any, states: Any, driving: Float[Array, "batch windows controls"], counts: Int[Array, " batch"]
) -> Any:
    """Each state after its own number of windows."""

    def window(carried):
        number, states = carried
        new = jax.vmap(model.advance)(states, jax.lax.dynamic_index_in_dim(driving, number, 1, keepdims=False))
        return number + 1, _where(number < counts, new, states)

    return jax.lax.while_loop(lambda carried: carried[0] < counts.max(), window, (jnp.int32(0), states))[1]


def output(
    model: Any, states: Any, running: Float[Array, "batch controls"], unfinished: Bool[Array, " batch"]
) -> Float[Array, "batch outputs"]:
    """Predictions with a look into the running windows, which nobody keeps."""
    return jax.vmap(model.output)(_where(unfinished, jax.vmap(model.advance)(states, running), states))


_begin, _advance, _output = eqx.filter_jit(begin), eqx.filter_jit(advance), eqx.filter_jit(output)


class Programs:
    """A model's states as plain arrays, the first axis of each the stream, and what is done with them."""

    def __init__(self, model: Any, channels: int, controls: int):
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
            at_once = self._at_once(int((counts > first).sum()), most - first)
            left = np.clip(counts - first, 0, at_once).astype(np.int32)
            rows, part = np.flatnonzero(left), driving[:, first : first + at_once]
            windows = np.zeros((len(rows), at_once, self.controls), np.float32)
            windows[:, : part.shape[1]] = part[rows]
            new = self._run(lambda *a: _advance(self.model, *a), [s[rows] for s in states], windows, left[rows])
            states = [_replaced(old, rows, one) for old, one in zip(states, new, strict=True)]
            first += at_once
        return states

    def output(
        self, states: Leaves, running: Float[np.ndarray, "streams controls"], unfinished: Bool[np.ndarray, "streams"]
    ) -> Float[np.ndarray, "streams outputs"]:
        """Predictions for the series so far."""
        return self._run(lambda *a: _output(self.model, *a), states, running.astype(np.float32), unfinished)[0]

    def warm_up(self, sizes: Sequence[int]) -> None:
        """Compile everything for these sizes of batches, and use no others from now on."""
        sizes = tuple(sorted(set(sizes)))
        for size in sizes or (0,):
            check_whole("size", size, high=2**16)
        self.sizes = sizes
        for size in sizes:
            states = self.begin(np.zeros((size, self.channels)))
            for at_once in {AT_ONCE, _most_at_once(size)}:
                self.advance(states, np.zeros((size, at_once, self.controls), np.float32), np.full(size, at_once))
            self.output(states, np.zeros((size, self.controls), np.float32), np.ones(size, bool))

    def _size(self, count: int) -> int:
        """The size to which a batch of so many streams is padded; more go in several batches."""
        return next((size for size in self.sizes if size >= count), self.sizes[-1])

    def _at_once(self, streams: int, windows: int) -> int:
        return AT_ONCE if windows <= AT_ONCE else _most_at_once(self._size(streams))

    def _run(self, program: Callable, states: Leaves, *others: np.ndarray) -> Leaves:
        """The program's result for all streams, in batches of the sizes that there are."""
        found, streams, largest = [], len(others[0]), self.sizes[-1]
        for first in range(0, streams, largest):
            count = min(largest, streams - first)
            size = self._size(count)
            part = [_padded(array[first : first + count], size) for array in (*states, *others)]
            tree = [jax.tree.unflatten(self._tree, part[: len(states)])] if states else []
            found.append([np.asarray(leaf)[:count] for leaf in jax.tree.leaves(program(*tree, *part[len(states) :]))])
        return found[0] if len(found) == 1 else [np.concatenate(leaves) for leaves in zip(*found, strict=True)]


def _most_at_once(size: int) -> int:
    return max(AT_ONCE, MANY_AT_ONCE // size)


def _where(chosen: Bool[Array, " batch"], new: Any, old: Any) -> Any:
    pick = lambda new, old: jnp.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)
    return jax.tree.map(pick, new, old)


def _padded(array: np.ndarray, size: int) -> np.ndarray:
    """A batch of this size: the first row stands for those that are missing, and nobody looks at them."""
    if len(array) == size:
        return array
    return np.concatenate([array, np.broadcast_to(array[:1], (size - len(array), *array.shape[1:]))])


def _replaced(array: np.ndarray, rows: Int[np.ndarray, "rows"], new: np.ndarray) -> np.ndarray:
    if len(rows) == len(array):
        return new
    array = array.copy()
    array[rows] = new
    return array
