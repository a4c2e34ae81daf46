"""Diagonal linear fields: a rate of decay for each state, or a rotation for each pair of states.

Diagonal matrices commute, so exact brackets would nearly vanish and depth would add nothing. Therefore each channel of
the log-signature has its own rate and offset, as it has its own column in the paper's network.
"""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..errors import setting
from ..signatures.bases import Basis
from .affine import DiagonalAffine, RotationAffine
from .base import AbstractField


class DiagonalField(AbstractField):
    """F(z) = sum_w LogSig_w (rate_w z + offset_w), entry by entry.

    >>> import jax
    >>> DiagonalField(controls=3, state=8, key=jax.random.key(0)).rates.shape
    (3, 8)
    """

    rates: Float[Array, "controls state"]
    offsets: Float[Array, "controls state"]
    basis: ClassVar[Basis] = "words"

    def __init__(self, controls: int, state: int, *, key: PRNGKeyArray):
        rate_key, offset_key = jax.random.split(key)
        self.rates = 0.5 * jax.random.normal(rate_key, (controls, state)) / math.sqrt(controls)
        self.offsets = jax.random.normal(offset_key, (controls, state)) / math.sqrt(controls)

    @property
    def state(self) -> int:
        return self.rates.shape[1]

    @property
    def controls(self) -> int:
        return self.rates.shape[0]

    def contract(self, log_signature: Float[Array, " controls"]) -> DiagonalAffine:
        return DiagonalAffine(log_signature @ self.rates, log_signature @ self.offsets)


class RotationField(AbstractField):
    """A rotation and a decay for each pair of states: a diagonal field with complex rates.

    At first only the `clock` channel turns the states: pair k by `turns[k]` times its increment, with turns
    spaced evenly on a logarithmic scale, so that together they resolve slow and fast changes, and with a
    decay of a tenth of the turning. How the other channels turn them starts at zero and is learnt.

    Args:
        controls: channels that drive the field.
        state: channels of the hidden state, an even number.
        clock: the channel that turns the states at first; 0, where time is.
        turns: slowest and fastest turning, in radians for a unit increment of the clock.

    >>> import jax
    >>> RotationField(controls=3, state=8, key=jax.random.key(0)).turning.shape
    (3, 4)
    """

    turning: Float[Array, "controls pairs"]
    decay: Float[Array, "controls pairs"]
    offsets: Float[Array, "controls state"]
    state: int = eqx.field(static=True)
    controls: int = eqx.field(static=True)
    basis: ClassVar[Basis] = "words"

    def __init__(
        self,
        controls: int,
        state: int,
        *,
        clock: int = 0,
        turns: tuple[float, float] = (0.3, 30.0),
        key: PRNGKeyArray,
    ):
        if state % 2:
            raise ValueError(
                f"Got a state of {state} channels; expected an even number, because a rotation acts "
                f"on pairs of them. Write {setting('state', state + 1)}."
            )
        self.state, self.controls = state, controls
        pairs = jnp.geomspace(*turns, state // 2)
        self.turning = jnp.zeros((controls, state // 2)).at[clock].set(pairs)
        self.decay = jnp.zeros((controls, state // 2)).at[clock].set(pairs / 10)
        self.offsets = jax.random.normal(key, (controls, state)) / math.sqrt(controls)

    def contract(self, log_signature: Float[Array, " controls"]) -> RotationAffine:
        growth, turning = -(log_signature @ self.decay), log_signature @ self.turning
        return RotationAffine(growth, turning, log_signature @ self.offsets)
