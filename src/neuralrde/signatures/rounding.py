"""Log-signatures of straight pieces: zero, and not what rounding leaves."""

import numpy as np
from jaxtyping import Float, Int

from .lyndon import lyndon_words

# Series often come with seven digits (float32): an area that is a millionth of its natural size is none.
_ROUNDING = 1e-6


def without_rounding(
    log_signatures: Float[np.ndarray, "samples windows log_signature"],
    path: Float[np.ndarray, "samples length channels"],
    depth: int,
    cuts: Int[np.ndarray, "*samples cuts"],
) -> Float[np.ndarray, "samples windows log_signature"]:
    """Log-signatures with zero where there is nothing but rounding.

    A straight piece of path has no area, yet comes out with one of 1e-17; divided by the size of its channel, such
    noise would drive a model as strongly as the data. The bound is relative: a word's coefficient is at most about
    the product of how far its channels have travelled in the window.

    >>> path = np.array([[[0.0, 0.0], [0.1, 0.3], [0.7, 0.1]]])
    >>> straight = np.array([[[0.1, 0.3, 1e-17], [0.6, -0.2, 0.0]]])
    >>> without_rounding(straight, path, 2, np.array([0, 1, 2]))[0, :, 2]
    array([0., 0.])
    """
    channels = path.shape[2]
    words = lyndon_words(channels, depth)
    travelled = np.cumsum(np.abs(np.diff(path, axis=1, prepend=path[:, :1])), axis=1)
    cuts = np.broadcast_to(cuts, (len(path), cuts.shape[-1]))
    travelled = np.diff(np.take_along_axis(travelled, cuts[..., None], axis=1), axis=1)
    cleaned = np.array(log_signatures)
    for number, word in enumerate(words[channels:], channels):
        size = travelled[..., list(word)].prod(axis=-1)
        cleaned[..., number][np.abs(cleaned[..., number]) < _ROUNDING * size] = 0.0
    return cleaned
