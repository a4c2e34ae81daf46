"""Which windows to follow point by point, and which to join from the pieces that they share with others."""

import numpy as np
from jaxtyping import Int

from ._join import Run, doublings
from ._spans import Spans

# What a join costs, in increments that could be followed in that time, at depth 1, 2, 3 and beyond; and what each
# window costs that is joined at all. Measured with 4 channels: both kinds of work grow alike with their number.
_JOIN, _EACH = (4, 4, 4, 2000), 30


def plan(spans: Spans, scales: tuple[int, ...], depths: tuple[int, ...], length: int) -> tuple[Spans, list[Run]] | None:
    """Consecutive pieces, and the windows of each scale as runs of them; None if no work is saved by that."""
    if scales != (1,):
        last = np.arange(spans.windows)
        counts = (np.full(spans.windows, min(scale, spans.windows)) for scale in scales)
        pieces, wanted = spans, [Run(last, count, depth) for count, depth in zip(counts, depths, strict=True)]
        direct = sum(_increments(spans.looking_back(scale)) for scale in scales)
    elif spans.consecutive or spans.dilation > 1 or (direct := _increments(spans)) <= length:
        return None
    else:
        pieces, last, count = _pieces(spans, length)
        wanted = [Run(last, count, depths[0])]
    joins = doublings(wanted) * pieces.windows + sum(one.joins() * one.last.shape[-1] for one in wanted)
    cost = _increments(pieces) + _JOIN[min(max(depths), len(_JOIN)) - 1] * joins
    cost += _EACH * sum(one.last.shape[-1] for one in wanted)
    return (pieces, wanted) if cost < direct else None


def _increments(spans: Spans) -> float:
    """Of all windows of a sample together, on average."""
    return float(spans.increments.sum(axis=-1).mean()) if spans.table.size else 0.0


def _pieces(
    spans: Spans, length: int
) -> tuple[Spans, Int[np.ndarray, "*samples windows"], Int[np.ndarray, "*samples windows"]]:
    """The pieces between neighbouring boundaries of windows; each window's last piece, and how many it has."""
    boundary = np.zeros((*spans.table.shape[:-1], length), bool)
    np.put_along_axis(boundary, spans.table, True, axis=-1)
    number = boundary.cumsum(axis=-1) - 1
    starts, ends = (np.take_along_axis(number, points, axis=-1) for points in (spans.starts, spans.ends))
    # Samples with fewer boundaries than others repeat their last: empty pieces.
    size = max(2, int(number[..., -1].max(initial=0)) + 1)
    cuts = np.repeat(spans.ends.max(axis=-1, keepdims=True), size, axis=-1)
    np.put_along_axis(
        cuts, np.where(boundary, number, size - 1), np.where(boundary, np.arange(length), cuts[..., -1:]), -1
    )
    return Spans.between(cuts), ends - 1, ends - starts
