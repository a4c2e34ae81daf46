"""Windowed log-signatures in plain JAX, window by window, all points of a window at once.

Any device, any depth, derivatives of any order. The compiled kernel gives the same on a CPU, several times faster.
Nothing but the path and the result is kept for the gradient: blocks of windows, and of points in long windows, are
computed again on the way back.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._spans import Spans
from .lyndon import lyndon_words, signature_channels, word_position
from .tensor import tensor_log

# Numbers that are held at once, beside path and result: enough work for a GPU, little beside any path that is large.
_AT_ONCE = 2**20
# Points of a window that are summed at once: in closed form, and by Chen's relation, whose cost grows with them.
_POINTS, _POINTS_OF_CHEN = 1024, 16
# GPUs and TPUs would round what they multiply to fewer digits.
_einsum = functools.partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


def words(
    path: Float[Any, "*batch length channels"], spans: Spans, depth: int
) -> Float[Any, "*batch windows log_signature"]:
    """Log-signatures in the words basis over windows."""
    channels = path.shape[-1]
    starts, ends = _points_of_windows(path, spans)
    shape, points = ends.shape[:-1], starts.shape[-2]
    expanded = functools.partial(_in_closed_form if depth <= 3 else _by_chen, depth=depth)
    # What a window's largest tensors take: one for each point of a block, and the result in all its channels.
    largest = min(points, _POINTS if depth <= 3 else _POINTS_OF_CHEN) * channels ** max(depth - 1, 1)
    block = max(1, _AT_ONCE // (largest + points * channels + signature_channels(channels, depth)))
    positions = [word_position(word, channels) for word in lyndon_words(channels, depth)]
    positions = np.array(positions, np.int32)  # see `bases._apply`
    one = jax.checkpoint(lambda window: expanded(jnp.concatenate([window[0], window[1][None]]))[positions])
    # Blocks of equal size where there are such: what is left over would be cut off and put back in copies.
    count = max(math.prod(shape), 1)
    block = max((size for size in range(max(block // 2, 1), min(block, count) + 1) if count % size == 0), default=block)
    windows = starts.reshape(-1, points, channels), ends.reshape(-1, channels)
    found = jax.lax.map(one, windows, batch_size=min(block, count))
    return found.reshape(*shape, len(positions))


def _points_of_windows(
    path: Float[Any, "*batch length channels"], spans: Spans
) -> tuple[Float[Any, "*batch windows points channels"], Float[Any, "*batch windows channels"]]:
    """The points of each window but its last, and that; shorter windows repeat their last, which drives nothing."""
    spans.narrow()
    longest = max(int(spans.increments.max(initial=0)), 1)
    first = spans.table[0] if spans.table.ndim == 1 else 0
    if (
        spans.consecutive
        and spans.dilation == 1
        and spans.table.ndim == 1
        and (spans.starts == first + longest * np.arange(spans.windows)).all()
    ):
        # Windows of equal length are a reshape, whose gradient is one too; that of a gather would be a slow scatter.
        last = int(spans.table[-1])
        rest = [(0, 0)] * (path.ndim - 2) + [(0, int(first) + longest * spans.windows - last), (0, 0)]
        used = jnp.pad(path[..., int(first) : last + 1, :], rest, mode="edge")
        starts = used[..., :-1, :].reshape(*path.shape[:-2], spans.windows, longest, path.shape[-1])
        return starts, used[..., longest::longest, :]
    points = np.minimum(spans.starts[..., None] + spans.dilation * np.arange(longest + 1), spans.ends[..., None])
    points = np.broadcast_to(points, (*path.shape[:-2], *points.shape[-2:]))
    flat = points.reshape(*points.shape[:-2], points.shape[-2] * points.shape[-1]).astype(np.int32)
    gathered = jnp.take_along_axis(path, flat[..., None], axis=-2)
    gathered = gathered.reshape(*points.shape, path.shape[-1])
    return gathered[..., :-1, :], gathered[..., -1, :]


def _over_blocks(add: Any, total: Any, size: int, *rows: Float[Array, "points _"]) -> Any:
    """`total = add(total, *rows)` for blocks of rows, filled up with zeros, which add nothing."""
    count = -(-len(rows[0]) // size)
    if count == 1:
        return add(total, *rows)
    blocks = [jnp.pad(one, [(0, count * size - len(one)), (0, 0)]).reshape(count, size, one.shape[-1]) for one in rows]
    return jax.lax.scan(lambda total, block: (jax.checkpoint(add)(total, *block), None), total, tuple(blocks))[0]


def _in_closed_form(window: Float[Array, "points channels"], depth: int) -> Float[Array, "signature"]:
    """The log-signature up to depth 3; of its last level only the coefficients of Lyndon words count.

    `kernel/closed_form.h` has the formulas.
    """
    increments = jnp.diff(window, axis=0)
    middles = (window[:-1] - window[:1]) + 0.5 * increments
    channels = window.shape[-1]

    def add(total: list, middles: Array, increments: Array) -> list:
        total = [total[0] + increments.sum(axis=0), *total[1:]]
        if depth > 1:
            total[1] = total[1] + _einsum("ti,tj->ij", middles, increments)
        if depth > 2:
            outer = middles[:, :, None] * middles[:, None] + increments[:, :, None] * increments[:, None] / 12
            total[2] = total[2] + _einsum("tik,tj->ijk", outer, increments)
        return total

    zeros = [jnp.zeros((channels,) * level, window.dtype) for level in range(1, depth + 1)]
    s, *more = _over_blocks(add, zeros, _POINTS, middles, increments)
    levels = [s]
    if depth > 1:
        areas = 0.5 * (more[0] - more[0].T)
        levels.append(areas)
    if depth > 2:
        first, second, third = s[:, None, None], s[None, :, None], s[None, None]
        brackets = areas[:, :, None] * third - first * areas[None]
        levels.append(0.5 * brackets + first * second * third / 3 - more[1])
    return jnp.concatenate([level.reshape(-1) for level in levels])


def _by_chen(window: Float[Array, "points channels"], depth: int) -> Float[Array, "signature"]:
    increments, channels = jnp.diff(window, axis=0), window.shape[-1]
    start = [jnp.zeros(channels**level, window.dtype) for level in range(1, depth + 1)]
    # Two sizes of blocks, so that few signatures between them are kept on the way back.
    large = _POINTS_OF_CHEN * math.ceil(math.sqrt(len(increments) / _POINTS_OF_CHEN))
    several = lambda levels, block: _over_blocks(_multiply_by_exponentials, levels, _POINTS_OF_CHEN, block)
    return tensor_log(jnp.concatenate(_over_blocks(several, start, large, increments)), channels)


def _multiply_by_exponentials(levels: list, increments: Float[Array, "points channels"]) -> list:
    """S ⊗ exp(dx) ⊗ exp(dx') ⊗ ..., level after level: each by Horner's rule from those below it at all points.

    Level n of S ⊗ exp(dx) is Sn + ((dx/n + S1) ⊗ dx/(n-1) + S2) ⊗ ... ⊗ dx.
    """
    outer = lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(a), -1)
    before = jnp.tril(jnp.ones((len(increments), len(increments)), increments.dtype), -1)
    out, at_points = [], []
    for n, level in enumerate(levels, 1):
        inner = jnp.ones_like(increments[:, :1])
        for k in range(1, n):
            inner = outer(inner, increments / (n - k + 1)) + at_points[k - 1]
        if n < len(levels):
            added = outer(inner, increments)
            at_points.append(level[None] + _einsum("st,ti->si", before, added))
            out.append(level + added.sum(axis=0))
        else:
            out.append(level + _einsum("ti,tj->ij", inner, increments).reshape(-1))
    return out
