"""The three ways to write a log-signature down, and the linear maps between them.

- `WORDS`: coefficients of the Lyndon words in the tensor logarithm. The cheapest, and the default.
- `BRACKETS`: coordinates in the Lyndon bracket basis of the free Lie algebra. What exact Lie-bracket fields need.
- `EXPANDED`: the whole tensor logarithm, with its redundant channels, level after level.

Words and brackets coincide up to depth 2 and differ from depth 3 on, by a unipotent map: feeding the one where the
other is meant is a bug that no shape would reveal, so the basis is always named.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import sparse

from .lyndon import Basis, basis_channels, basis_matrix, check_basis
from .tensor import as_floating, namespace


def change_basis(
    log_signature: Float[Any, "*batch old"], channels: int, depth: int, *, old: Basis, new: Basis
) -> Float[Any, "*batch new"]:
    """Write log-signatures in another basis.

    >>> import numpy as np
    >>> change_basis(np.array([0.0, 0.0, 1.0]), channels=2, depth=2, old="words", new="expanded")
    array([ 0.,  0.,  0.,  1., -1.,  0.])
    """
    log_signature = as_floating(log_signature, name="log_signature")
    expected = basis_channels(channels, depth, old)
    if log_signature.shape[-1:] != (expected,):
        raise ValueError(
            f"Got a log-signature of shape {log_signature.shape}; expected (..., {expected}) for a path of {channels} "
            f"channels at depth {depth} in the {old} basis. `channels` counts the path's channels, time included."
        )
    check_basis(new)
    # Up to depth 2 the two small bases coincide, so that there is nothing to do.
    if old == new or (depth <= 2 and "expanded" not in (old, new)):
        return log_signature
    return _apply(basis_matrix(channels, depth, old, new), log_signature)


def change_bases(
    log_signatures: Float[Any, "*batch old"], channels: int, depths: tuple[int, ...], *, old: Basis, new: Basis
) -> Float[Any, "*batch new"]:
    """`change_basis` for log-signatures that stand side by side, each with its depth."""
    if old == new:
        return log_signatures
    parts, start = [], 0
    for depth in depths:
        end = start + basis_channels(channels, depth, old)
        parts.append(change_basis(log_signatures[..., start:end], channels, depth, old=old, new=new))
        start = end
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concatenate(parts, axis=-1)


def _apply(matrix: sparse.csr_array, vectors):
    """Sparse matrix times a batch of vectors; entries are whole numbers, so it is exact up to the sums' rounding."""
    if not isinstance(vectors, jax.Array):
        flat = matrix.astype(vectors.dtype) @ vectors.reshape(-1, vectors.shape[-1]).T
        return np.ascontiguousarray(flat.T).reshape(*vectors.shape[:-1], len(flat))
    coo = matrix.tocoo()
    # 32-bit indices: JAX mistakes 64-bit ones for what they were before x64 was switched on or off.
    row, column = coo.row.astype(np.int32), coo.col.astype(np.int32)
    terms = vectors[..., column] * coo.data.astype(vectors.dtype)
    zeros = jnp.zeros((*vectors.shape[:-1], len(matrix.indptr) - 1), vectors.dtype)
    return zeros.at[..., row].add(terms)
