"""Linear fields with exact brackets: dense matrices, or block-diagonal ones."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..signatures.bases import Basis
from ..signatures.lyndon import factorise, log_signature_channels, lyndon_words
from .affine import BlockAffine
from .base import AbstractField, check_size


class LinearField(AbstractField):
    r"""The log-ODE of an affine CDE dZ = sum_i (A_i Z + b_i) dX^i, with exact brackets (appendix B of the
    paper).

    The brackets of affine fields are affine again, so F(z) = A z + b with A and b linear in the
    log-signature, and the flow of a window is a matrix exponential: solve it with `neuralrde.solvers.Exponential()`.
    The brackets depend on the weights only and are computed once per solve.

    Args:
        channels: channels of the path.
        state: channels of the hidden state.
        depth: depth of the log-signatures, in the brackets basis.
        block: side of the diagonal blocks of the A_i; `state` (the default) for dense matrices. Blocks cost
            (state / block) · block³ per window instead of state³. For blocks of 1 or rotations see
            `DiagonalField` and `RotationField`.

    >>> import jax
    >>> field = LinearField(channels=3, state=8, depth=2, block=4, key=jax.random.key(0))
    >>> field.matrices.shape
    (3, 2, 4, 4)
    """

    matrices: Float[Array, "channels blocks block block"]
    offsets: Float[Array, "channels blocks block"]
    depth: int = eqx.field(static=True)
    basis: ClassVar[Basis] = "brackets"

    def __init__(self, channels: int, state: int, depth: int, *, block: int | None = None, key: PRNGKeyArray):
        block = state if block is None else block
        if block < 1 or state % block:
            raise ValueError(
                f"Got blocks of side {block} for a state of {state} channels; expected a side that divides "
                "it, because the matrices are block-diagonal. Write for example "
                f"block={math.gcd(state, max(block, 1))}."
            )
        check_size(channels * state * (block + 1), controls=channels, state=state)
        self.depth = depth
        matrix_key, offset_key = jax.random.split(key)
        # Norms about 1/2 over all channels together: the flow then neither explodes nor forgets over a unit
        # of time.
        scale = 0.5 / math.sqrt(channels * block)
        self.matrices = scale * jax.random.normal(matrix_key, (channels, state // block, block, block))
        self.offsets = jax.random.normal(offset_key, (channels, state // block, block)) / math.sqrt(channels)

    @property
    def channels(self) -> int:
        """Number of channels of the path."""
        return self.matrices.shape[0]

    @property
    def state(self) -> int:
        return self.offsets.shape[1] * self.offsets.shape[2]

    @property
    def controls(self) -> int:
        return log_signature_channels(self.channels, self.depth)

    def prepare(self) -> "FreeLinearField":
        """The brackets of all Lyndon words, once per solve."""
        fields = {}
        for word in lyndon_words(self.channels, self.depth):
            if len(word) == 1:
                fields[word] = self.matrices[word[0]], self.offsets[word[0]]
            else:
                fields[word] = _bracket(*(fields[part] for part in factorise(word)))
        matrices, offsets = zip(*fields.values(), strict=True)
        return FreeLinearField(jnp.stack(matrices), jnp.stack(offsets))

    def contract(self, log_signature: Float[Array, " controls"]) -> BlockAffine:
        return self.prepare().contract(log_signature)


def _bracket(f, g):
    """[f, g] = Dg f - Df g of f(z) = A z + a, g(z) = B z + b: minus the commutator of A and B."""
    (A, a), (B, b) = f, g
    apply = lambda matrix, vector: jnp.einsum("kij,kj->ki", matrix, vector)
    return B @ A - A @ B, apply(B, a) - apply(A, b)


class FreeLinearField(AbstractField):
    """F(z) = sum_w LogSig_w (A_w z + b_w) with a matrix of its own for each control w: `LinearField` once
    prepared.

    `FreeLinearField.random` makes one to be trained as it is, with no structure between the matrices.

    >>> import jax.numpy as jnp
    >>> field = FreeLinearField(jnp.ones((2, 1, 3, 3)), jnp.zeros((2, 1, 3)))
    >>> field.contract(jnp.array([1.0, 0.5]))(jnp.ones(3)).tolist()
    [4.5, 4.5, 4.5]
    """

    matrices: Float[Array, "controls blocks block block"]
    offsets: Float[Array, "controls blocks block"]
    basis: ClassVar[Basis] = "brackets"

    def __init__(
        self,
        matrices: Float[Array, "controls blocks block block"],
        offsets: Float[Array, "controls blocks block"],
    ):
        self.matrices, self.offsets = matrices, offsets

    @staticmethod
    def random(controls: int, state: int, *, block: int | None = None, key: PRNGKeyArray) -> "FreeLinearField":
        """Random matrices and offsets; of depth 1 there is no bracket, so that each control is a letter of
        its own.
        """
        return LinearField(controls, state, 1, block=block, key=key).prepare()

    @property
    def state(self) -> int:
        return self.offsets.shape[1] * self.offsets.shape[2]

    @property
    def controls(self) -> int:
        return self.offsets.shape[0]

    def contract(self, log_signature: Float[Array, " controls"]) -> BlockAffine:
        flat = log_signature @ self.matrices.reshape(self.controls, -1)
        offset = log_signature @ self.offsets.reshape(self.controls, -1)
        return BlockAffine(flat.reshape(self.matrices.shape[1:]), offset.reshape(self.offsets.shape[1:]))
