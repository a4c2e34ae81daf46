"""The true log-ODE: a field of the path's channels, whose Lie brackets meet the higher levels (Log-NCDE)."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float

from ..signatures.bases import Basis, change_basis
from ..signatures.lyndon import log_signature_channels
from .base import AbstractField, Autonomous
from .derivatives import split_levels, tensor_field

# Activations whose derivative jumps.
_KINKED = ("relu", "relu6", "leaky_relu", "hard_tanh", "hard_sigmoid", "hard_silu", "hard_swish")


def _has_activation(field: AbstractField, name: str) -> bool:
    return any(leaf is getattr(jax.nn, name) for leaf in jax.tree.leaves(field))


class BracketField(AbstractField):
    """The log-ODE of a CDE dZ = f(Z) dX, with exact Lie brackets (definition A.6; Walker et al., 2024).

        F(z) = Σ_w LogSig_w [f]_w(z)

    over Lyndon words w, `[f]_w` the bracket of the vector fields `f_i` after w's standard factorisation, and
    the log-signature in the *brackets* basis. f is another field, one driven by increments, and must be
    smooth: with ReLU the derivatives of f are not continuous and depth 2 gains nothing.

    Args:
        vectors: f, a field with one control for each channel of the path, for example `FreeField(channels,
            state, activation=jax.nn.silu, key=key)`. `MatrixField` turns any function z -> (state, channels) into one.
        depth: depth of the log-signatures.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import FreeField
    >>> field = BracketField(FreeField(2, 4, activation=jax.nn.silu, key=jax.random.key(0)), depth=3)
    >>> field.controls
    5
    >>> field.contract(jnp.array([0.1, 0.2, 0.01, 0.001, 0.0]))(jnp.ones(4)).shape
    (4,)
    """

    vectors: AbstractField
    depth: int = eqx.field(static=True)
    basis: ClassVar[Basis] = "brackets"

    def __init__(self, vectors: AbstractField, depth: int):
        kink = next((name for name in _KINKED if _has_activation(vectors, name)), None)
        if depth > 1 and kink is not None:
            raise ValueError(
                f"Got a field with the activation {kink} at depth {depth}; expected a smooth one, because brackets are "
                f"made of derivatives, and those of {kink} jump. Write activation=jax.nn.silu, or jnp.tanh."
            )
        self.vectors, self.depth = vectors, depth

    @property
    def state(self) -> int:
        return self.vectors.state

    @property
    def channels(self) -> int:
        """Number of channels of the path."""
        return self.vectors.controls

    @property
    def controls(self) -> int:
        return log_signature_channels(self.channels, self.depth)

    def contract(self, log_signature: Float[Array, " controls"]) -> Autonomous:
        # The sum of brackets is the action of f on the expanded log-signature, which takes fewer derivatives.
        expanded = change_basis(log_signature, self.channels, self.depth, old="brackets", new="expanded")
        return tensor_field(self.vectors.contract, split_levels(expanded, self.channels))


class MatrixField(AbstractField):
    """Any function z -> (state, controls) as a field: f(z) times what drives it.

    >>> import jax.numpy as jnp
    >>> field = MatrixField(lambda z: jnp.stack([z, -z], axis=1), state=3, controls=2)
    >>> field.contract(jnp.array([1.0, 0.5]))(jnp.ones(3)).tolist()
    [0.5, 0.5, 0.5]
    """

    function: Callable[[Float[Array, " state"]], Float[Array, "state controls"]]
    state: int = eqx.field(static=True)
    controls: int = eqx.field(static=True)
    basis: ClassVar[Basis] = "words"

    def contract(self, log_signature: Float[Array, " controls"]) -> Autonomous:
        return lambda z: self.function(z) @ log_signature
