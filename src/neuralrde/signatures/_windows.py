"""How windows that overlap share work.

What overlapping windows share is followed once, in consecutive pieces. `join_pieces` doubles the length of pieces again
and again by Chen's relation, so that a window over k pieces costs about log2(k) joins, however many points it has. For
NumPy arrays and up to depth 3 the kernel does the same (`kernel/join.h`), some ten times faster.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ._spans import WindowSpan, doublings
from .bases import change_basis
from .lyndon import log_signature_channels, lyndon_words
from .tensor import chen_product, namespace, tensor_exp, tensor_log


def join(
    left: Float[Any, "log_signature *batch"], right: Float[Any, "log_signature *batch"], channels: int, depth: int
) -> Float[Any, "log_signature *batch"]:
    r"""The log-signature of one piece followed by another, in the words basis: log(exp(left) ⊗ exp(right)).

    Up to depth 3 this is the Baker-Campbell-Hausdorff formula. With x, y the increments, A, B the areas and
    C = x ⊗ y - y ⊗ x,

        level 2:  A + B + C/2,
        level 3:  left + right + [x, B/2 + C/12] - [y, A/2 + C/12],     [x, P] = x ⊗ P - P ⊗ x.
    """
    if depth > 3:
        return _join_as_tensors(left, right, channels, depth)
    together = left + right
    if depth == 1 or channels == 1:
        return together
    at, xp = _places(channels), namespace(left)
    x, y, pairs = left[:channels], right[:channels], slice(channels, channels + len(at.i))
    C = x[at.i] * y[at.j] - x[at.j] * y[at.i]
    levels = [together[:channels], together[pairs] + 0.5 * C]
    if depth == 3:
        # With both signs and a zero behind them: entry (j, k) of an antisymmetric matrix is one row.
        matrix = lambda upper: xp.concatenate([upper, -upper, xp.zeros_like(upper[:1])])
        P, Q = matrix(0.5 * right[pairs] + C / 12), matrix(0.5 * left[pairs] + C / 12)
        brackets = x[at.first] * P[at.last_two] - P[at.first_two] * x[at.last]
        brackets += Q[at.first_two] * y[at.last] - y[at.first] * Q[at.last_two]
        levels.append(together[pairs.stop :] + brackets)
    return xp.concatenate(levels)


class _Places(NamedTuple):
    """Letters of the Lyndon words of two letters, (i, j), and of three; where pairs of the latter are in a matrix."""

    i: Int[np.ndarray, "areas"]
    j: Int[np.ndarray, "areas"]
    first: Int[np.ndarray, "triples"]
    last: Int[np.ndarray, "triples"]
    first_two: Int[np.ndarray, "triples"]
    last_two: Int[np.ndarray, "triples"]


@lru_cache(maxsize=16)
def _places(channels: int) -> _Places:
    i, j = np.triu_indices(channels, 1)
    matrix = np.full((channels, channels), 2 * len(i))
    matrix[i, j], matrix[j, i] = np.arange(len(i)), np.arange(len(i)) + len(i)
    triples = np.array([word for word in lyndon_words(channels, 3) if len(word) == 3]).reshape(-1, 3).T
    numbers = (i, j, triples[0], triples[2], matrix[triples[0], triples[1]], matrix[triples[1], triples[2]])
    return _Places(*(array.astype(np.int32) for array in numbers))  # see `bases._apply`


def _join_as_tensors(left: Any, right: Any, channels: int, depth: int) -> Any:
    xp = namespace(left)
    before, after = (
        tensor_exp(change_basis(xp.moveaxis(piece, 0, -1), channels, depth, old="words", new="expanded"), channels)
        for piece in (left, right)
    )
    whole = tensor_log(chen_product(before, after, channels), channels)
    return xp.moveaxis(change_basis(whole, channels, depth, old="expanded", new="words"), -1, 0)


def join_pieces(
    pieces: Float[Any, "*batch pieces log_signature"], wanted: list[WindowSpan], channels: int
) -> Float[Any, "*batch windows log_signatures"]:
    """Log-signatures over runs of pieces, each at its depth, side by side in the words basis."""
    xp = namespace(pieces)
    # Piece 0 is none: its log-signature is zero, which changes nothing.
    level = xp.moveaxis(pieces, -1, 0)
    level = xp.concatenate([xp.zeros_like(level[..., :1]), level], axis=-1)
    found: list[Any] = [None] * len(wanted)
    done = [np.zeros_like(one.count) for one in wanted]
    for bit in range(doublings(wanted) + 1):
        # Entry p of `level` is the log-signature of the 2^bit pieces that end with p, or of as many as there are.
        depth = max(one.depth for one in wanted if int(one.count.max(initial=1)) >> bit)
        level = level[: log_signature_channels(channels, depth)]
        if bit:
            level = join(_shifted(level, 2 ** (bit - 1)), level, channels, depth)
        for number, one in enumerate(wanted):
            here = (one.count >> bit) & 1
            if not here.any():
                continue
            block = _take(
                level[: log_signature_channels(channels, one.depth)],
                np.where(here, np.maximum(one.last + 1 - done[number], 0), 0),
            )
            later = found[number]
            found[number] = block if later is None else join(block, later, channels, one.depth)
            done[number] = done[number] + (here << bit)
    for number, one in enumerate(wanted):
        if found[number] is None:  # windows in which nothing happens, all of them
            size = log_signature_channels(channels, one.depth)
            found[number] = _take(level[:size], np.zeros_like(one.last))
    return xp.moveaxis(xp.concatenate(found), 0, -1)


def _shifted(level: Float[Any, "log_signature *batch pieces"], by: int) -> Float[Any, "log_signature *batch pieces"]:
    """Each piece's log-signature `by` places later, and nothing before them."""
    by = min(by, level.shape[-1])
    xp = namespace(level)
    return xp.concatenate([xp.zeros_like(level[..., :by]), level[..., : level.shape[-1] - by]], axis=-1)


def _take(level: Any, pieces: Int[np.ndarray, "*samples windows"]) -> Any:
    """The log-signatures of some pieces; those of neighbours, as scales have them, without a gather."""
    before = int((pieces == 0).sum()) if pieces.ndim == 1 else 0
    if pieces.ndim == 1 and (pieces[before:] == np.arange(1, len(pieces) - before + 1)).all():
        return _shifted(level[..., 1 : len(pieces) + 1], before)
    pieces = pieces.astype(np.int32)
    if pieces.ndim == 1:
        return level[..., pieces]
    return namespace(level).take_along_axis(level, pieces[None], axis=-1)
