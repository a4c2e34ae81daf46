"""Windowed log-signatures in plain JAX: Chen's relation point by point, all windows at once.

Any device, any depth, derivatives of any order. The compiled kernel gives the same on a CPU, many times faster.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ._windows import Spans
from .lyndon import lyndon_words, word_position
from .tensor import signature_of_increments, tensor_log


def words(
    path: Float[Any, "*batch length channels"], spans: Spans, depth: int
) -> Float[Any, "*batch windows log_signature"]:
    """Log-signatures in the words basis over windows."""
    channels = path.shape[-1]
    signatures = signature_of_increments(windows_of_increments(path, spans), depth)
    positions = [word_position(word, channels) for word in lyndon_words(channels, depth)]
    return tensor_log(signatures, channels)[..., np.array(positions, np.int32)]


def windows_of_increments(
    path: Float[Any, "*batch length channels"], spans: Spans
) -> Float[Any, "*batch windows longest channels"]:
    """The increments of each window, shorter windows filled up with zeros, which drive nothing."""
    spans.narrow()
    longest = max(int(spans.increments.max(initial=0)), 1)
    points = np.minimum(spans.starts[..., None] + spans.dilation * np.arange(longest + 1), spans.ends[..., None])
    points = np.broadcast_to(points, (*path.shape[:-2], *points.shape[-2:]))
    flat = points.reshape(*points.shape[:-2], points.shape[-2] * points.shape[-1]).astype(
        np.int32
    )  # see `bases._apply`
    gathered = jnp.take_along_axis(path, flat[..., None], axis=-2)
    return jnp.diff(gathered.reshape(*points.shape, path.shape[-1]), axis=-2)
