"""The truncated tensor algebra in PyTorch, and log-signatures in it: any device, derivatives of any order.

An element is a list of levels 1 to N; level n has the shape (..., v^n). Level 0 is not stored: it is 1 for signatures
and 0 for logarithms.
"""

from typing import Any

import torch
from torch import Tensor

from ..signatures._spans import Spans
from ..signatures.lyndon import Basis, basis_matrix, signature_channels

Levels = list[Tensor]


def split(flat: Tensor, channels: int, depth: int) -> Levels:
    return list(flat.split([channels**level for level in range(1, depth + 1)], dim=-1))


def chen(left: Levels, right: Levels) -> Levels:
    """The signature of one path followed by another."""
    return [a + b + more for a, b, more in zip(left, right, _product(left, right), strict=True)]


def inverse(levels: Levels) -> Levels:
    """The signature of the path run backwards: 1/(1 + x) = 1 - x (1 - x (1 - ...))."""
    found = [-level for level in levels]
    for _ in levels[1:]:
        found = [-level - more for level, more in zip(levels, _product(levels, found), strict=True)]
    return found


def logarithm(levels: Levels) -> Levels:
    """log(1 + x) = x (1 - x (1/2 - x (1/3 - ...)))."""
    depth = len(levels)
    found = [level * ((-1) ** (depth + 1) / depth) for level in levels]
    for k in range(depth - 1, 0, -1):
        factor = (-1) ** (k + 1) / k
        found = [factor * level + more for level, more in zip(levels, _product(levels, found), strict=True)]
    return found


def exponential(levels: Levels) -> Levels:
    """exp(x) = 1 + x (1 + x/2 (1 + x/3 (...)))."""
    depth = len(levels)
    found = [level / depth for level in levels]
    for k in range(depth - 1, 0, -1):
        found = [(level + more) / k for level, more in zip(levels, _product(levels, found), strict=True)]
    return found


def _product(a: Levels, b: Levels) -> Levels:
    """The product of two elements without level 0: level n is the sum of a_k ⊗ b_(n-k)."""
    out = [torch.zeros_like(a[0])]
    for n in range(1, len(a)):
        terms = [(a[k][..., :, None] * b[n - 1 - k][..., None, :]).flatten(-2) for k in range(n)]
        out.append(sum(terms[1:], terms[0]))
    return out


def signatures_of_increments(increments: Tensor, depth: int) -> Levels:
    """Signatures of pieces that are straight: the exponential of each increment."""
    levels = [increments]
    for n in range(2, depth + 1):
        levels.append((levels[-1][..., :, None] * (increments / n)[..., None, :]).flatten(-2))
    return levels


def joined(pieces: Levels) -> Levels:
    """The signature of all pieces (..., pieces, v^n), one after the other: pairs are joined, and pairs of those."""
    while (count := pieces[0].shape[-2]) > 1:
        pieces = [torch.nn.functional.pad(level, (0, 0, 0, count % 2)) for level in pieces]
        pieces = chen([level[..., ::2, :] for level in pieces], [level[..., 1::2, :] for level in pieces])
    return [level[..., 0, :] for level in pieces]


def running(pieces: Levels) -> Levels:
    """The signatures of the first piece, the first two, ...: those of twice as many pieces in every round."""
    by = 1
    while by < pieces[0].shape[-2]:
        before = [torch.nn.functional.pad(level[..., :-by, :], (0, 0, by, 0)) for level in pieces]
        pieces, by = chen(before, pieces), 2 * by
    return pieces


def in_basis(expanded: Tensor, channels: int, depth: int, basis: Basis) -> Tensor:
    """Expanded log-signatures in another basis: a sparse matrix times a batch of vectors."""
    if basis == "expanded":
        return expanded
    matrix: Any = basis_matrix(int(channels), depth, "expanded", basis)
    coo = matrix.tocoo()
    row, column, data = (torch.from_numpy(array).to(expanded.device) for array in (coo.row, coo.col, coo.data))
    terms = expanded[..., column.long()] * data.to(expanded.dtype)
    return expanded.new_zeros(*expanded.shape[:-1], matrix.shape[0]).index_add(-1, row.long(), terms)


def log_signatures(path: Tensor, spans: Spans, depths: list[int], scales: list[int], basis: Basis) -> Tensor:
    """What the kernel computes, from plain operations of PyTorch; all points of all windows are in memory at once."""
    parts = []
    for scale, depth in zip(scales, depths, strict=True):
        levels = logarithm(joined(signatures_of_increments(_increments(path, spans.looking_back(scale)), depth)))
        parts.append(in_basis(torch.cat(levels, dim=-1), path.shape[-1], depth, basis))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _increments(path: Tensor, spans: Spans) -> Tensor:
    """Of each window, (..., windows, points, channels); shorter ones repeat their last point, which drives nothing."""
    longest = max(int(spans.increments.max(initial=0)), 1)
    starts, ends = (torch.from_numpy(array.copy()).to(path.device)[..., None] for array in (spans.starts, spans.ends))
    steps = spans.dilation * torch.arange(longest + 1, device=path.device)
    points = torch.minimum(starts + steps, ends).expand(*path.shape[:-2], -1, -1)
    flat = points.flatten(-2)[..., None].expand(*points.shape[:-2], -1, path.shape[-1])
    return path.gather(-2, flat).unflatten(-2, points.shape[-2:]).diff(dim=-2)


def depth_of(size: int, channels: int) -> int:
    """The depth of a signature of this many channels."""
    depth = 1
    while signature_channels(channels, depth) < size:
        depth += 1
    if signature_channels(channels, depth) != size:
        raise ValueError(
            f"Got {size} signature channels for a path of {channels} channels; expected v + v² + ... + v^depth. Is "
            "`channels` the number of channels of the path, and is the leading 1 left out?"
        )
    return depth
