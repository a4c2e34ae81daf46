"""Log-signatures of straight pieces: zero, and not what rounding leaves."""

import numpy as np
from jaxtyping import Float, Int

from ..paths.windows import depths_of
from ._log_signature import log_signatures_since
from ._spans import Since, spans_of
from .bases import Basis
from .lyndon import lyndon_words
from .tensor import check_path

# Series often come with seven digits (float32): an area that is a millionth of its natural size is none.
_ROUNDING = 1e-6


def driving_log_signatures(
    path: Float[np.ndarray, "samples length channels"],
    depth: int | tuple[int, ...],
    cuts: Int[np.ndarray, "*samples cuts"],
    *,
    scales: tuple[float, ...] = (1,),
    since: Since | None = None,
    basis: Basis = "words",
) -> Float[np.ndarray, "samples windows log_signature"]:
    """Log-signatures as they drive a model: zero where there is nothing but rounding, or padding.

    `since` has where each scale starts that is no whole number of windows; `Windows.starts` gives it.
    """
    spans = spans_of(path := check_path(path), None, cuts, None, None, 1)
    windows = log_signatures_since(path, depth, spans, since, scales=scales, basis=basis)
    if basis != "expanded":  # which has other channels
        windows = without_rounding(windows, path, depth, cuts, scales=scales, since=since)
    return windows if scales == (1,) else without_padding(windows, cuts)


def without_rounding(
    log_signatures: Float[np.ndarray, "samples windows log_signature"],
    path: Float[np.ndarray, "samples length channels"],
    depth: int | tuple[int, ...],
    cuts: Int[np.ndarray, "*samples cuts"],
    *,
    scales: tuple[float, ...] = (1,),
    since: Since | None = None,
) -> Float[np.ndarray, "samples windows log_signature"]:
    """Log-signatures with zero where there is nothing but rounding.

    A straight piece of path has no area, but rounding leaves one of 1e-17. Divided by the size of its channel, such
    noise would drive a model as strongly as the data. The bound is relative to a box: the product of the ranges of the
    word's channels within the window. (Not of how far they travel: in a long window of noise that is far more
    than any coefficient.)

    >>> path = np.array([[[0.0, 0.0], [0.1, 0.3], [0.7, 0.1]]])
    >>> straight = np.array([[[0.1, 0.3, 1e-17], [0.6, -0.2, 0.0]]])
    >>> without_rounding(straight, path, 2, np.array([0, 1, 2]))[0, :, 2]
    array([0., 0.])
    """
    cuts = np.broadcast_to(cuts, (len(path), cuts.shape[-1]))
    highest, lowest = extremes(path, cuts[:, :-1], cuts[:, 1:])
    ranges = []
    for scale, starts in zip(scales, since or [None] * len(scales), strict=True):
        if starts is None:
            ranges.append(of_the_last(scale, highest, np.maximum) - of_the_last(scale, lowest, np.minimum))
        else:
            ranges.append(np.subtract(*extremes(path, np.broadcast_to(starts, cuts[:, 1:].shape), cuts[:, 1:])))
    return without_rounding_in(log_signatures, ranges, depths_of(depth, scales))


def without_rounding_in(
    log_signatures: Float[np.ndarray, "samples windows log_signature"],
    ranges: list[Float[np.ndarray, "samples windows channels"]],
    depths: tuple[int, ...],
) -> Float[np.ndarray, "samples windows log_signature"]:
    """`without_rounding`, where it is known how far each channel ranges in what each scale sees."""
    cleaned, number = np.array(log_signatures), 0
    for extents, depth in zip(ranges, depths, strict=True):
        for word in lyndon_words(extents.shape[2], depth):
            if len(word) > 1:
                size = extents[..., list(word)].prod(axis=-1)
                cleaned[..., number][np.abs(cleaned[..., number]) < _ROUNDING * size] = 0.0
            number += 1
    return cleaned


def without_padding(
    log_signatures: Float[np.ndarray, "samples windows log_signature"], cuts: Int[np.ndarray, "*samples cuts"]
) -> Float[np.ndarray, "samples windows log_signature"]:
    """Log-signatures with zero in the windows after a sample's end.

    Those windows are empty, but scales that look back still see what came before. Nothing may drive a model there, or
    its prediction would depend on how long the other series are.

    >>> without_padding(np.ones((1, 3, 1)), np.array([0, 2, 4, 4]))[0, :, 0]
    array([1., 1., 0.])
    """
    return np.where((cuts[..., :-1] < cuts[..., -1:])[..., None], log_signatures, 0)


def of_the_last(scale: float, values: Float[np.ndarray, "samples windows channels"], extreme: np.ufunc) -> np.ndarray:
    """The extreme over the last windows, by doubling: it does not matter that some are seen twice."""
    done = 1
    while done < min(scale, values.shape[1]):
        by = min(done, scale - done)
        values = np.concatenate([values[:, :by], extreme(values[:, by:], values[:, :-by])], axis=1)
        done += by
    return values


def extremes(
    path: Float[np.ndarray, "samples length channels"],
    starts: Int[np.ndarray, "samples windows"],
    ends: Int[np.ndarray, "samples windows"],
) -> tuple[Float[np.ndarray, "samples windows channels"], Float[np.ndarray, "samples windows channels"]]:
    """Highest and lowest value of each channel, from the first to the last point of each window."""
    samples, length, channels = path.shape
    # From each start up to the end, without it; what lies between an end and the next start is left out.
    places = (np.stack([starts, ends], axis=-1) + length * np.arange(samples)[:, None, None]).ravel()
    points, last = path.reshape(-1, channels), np.take_along_axis(path, ends[..., None], axis=1)
    inside = lambda extreme: extreme.reduceat(points, places, axis=0)[::2].reshape(*ends.shape, channels)
    return np.maximum(inside(np.maximum), last), np.minimum(inside(np.minimum), last)
