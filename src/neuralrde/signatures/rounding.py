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
    noise would drive a model as strongly as the data. The bound is relative to a box: the product of how far apart the
    word's channels get within the window. (Not of how far they travel: in a long window of noise that is far more
    than any coefficient.)

    >>> path = np.array([[[0.0, 0.0], [0.1, 0.3], [0.7, 0.1]]])
    >>> straight = np.array([[[0.1, 0.3, 1e-17], [0.6, -0.2, 0.0]]])
    >>> without_rounding(straight, path, 2, np.array([0, 1, 2]))[0, :, 2]
    array([0., 0.])
    """
    channels = path.shape[2]
    words = lyndon_words(channels, depth)
    extents = _extents(path, np.broadcast_to(cuts, (len(path), cuts.shape[-1])))
    cleaned = np.array(log_signatures)
    for number, word in enumerate(words[channels:], channels):
        size = extents[..., list(word)].prod(axis=-1)
        cleaned[..., number][np.abs(cleaned[..., number]) < _ROUNDING * size] = 0.0
    return cleaned


def _extents(
    path: Float[np.ndarray, "samples length channels"], cuts: Int[np.ndarray, "samples cuts"]
) -> Float[np.ndarray, "samples windows channels"]:
    """Highest less lowest value of each channel, between two cuts and at both."""
    samples, length, channels = path.shape
    places = (cuts + length * np.arange(samples)[:, None]).ravel()
    points, ends = path.reshape(-1, channels), np.take_along_axis(path, cuts[..., None], axis=1)
    # From each cut up to the next, without it; what lies between two samples is left out.
    inside = lambda extreme: extreme.reduceat(points, places, axis=0).reshape(*cuts.shape, channels)[:, :-1]
    return np.maximum(inside(np.maximum), ends[:, 1:]) - np.minimum(inside(np.minimum), ends[:, 1:])
