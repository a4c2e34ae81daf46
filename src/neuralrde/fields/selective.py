"""A rotation and a decay for each pair of states, at speeds that the input chooses, as in selective state spaces."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..errors import setting
from ._expm import phi_of_pair
from .affine import AbstractAffine, RotationFlow, complex_product
from .base import AbstractControlledField

# How far the input can slow down or speed up the decay: factors of exp(-3) and exp(3).
_GATES = 3.0


class SelectiveAffine(AbstractAffine):
    """Pairs of states that decay and turn for unit time, then are moved by the offset.

    The angle is twice the arc tangent of `tangent`: sine and cosine are then quotients, and cost a third.
    """

    decay: Float[Array, " pairs"]
    tangent: Float[Array, " pairs"]
    offset: Float[Array, " state"]

    def __call__(self, z):
        # A constant drive over unit time that moves the state as far: the offset divided by phi.
        growth, turning = -self.decay, 2.0 * jnp.arctan(self.tangent)
        real, imaginary = phi_of_pair(growth, turning)
        square = real**2 + imaginary**2
        return complex_product(growth, turning, z) + complex_product(real / square, -imaginary / square, self.offset)

    def flow(self) -> RotationFlow:
        size = jnp.exp(-self.decay) / (1.0 + self.tangent**2)
        return RotationFlow(size * (1.0 - self.tangent**2), size * 2.0 * self.tangent, self.offset)


class SelectiveField(AbstractControlledField):
    """Pairs of states that turn and decay at speeds that depend on the input: what to forget, and when, is learned.

    Unlike that of `RotationField`, the decay is positive whatever the input, so that states stay bounded however long
    a series is. At a zero input states go on turning and decaying, so this is no `AbstractField`: tokens of a model
    drive it, whose readouts leave padding out, and not log-signatures, which must leave the state alone where nothing
    happens.

    Args:
        controls: channels of the input.
        state: channels of the hidden state, an even number.
        turns: slowest and fastest turning, in radians per step.
        memory: shortest and longest memory, in steps.

    >>> import jax
    >>> field = SelectiveField(controls=3, state=8, key=jax.random.key(0))
    >>> bool((field.contract(jnp.array([5.0, -5.0, 0.0])).decay > 0).all())
    True
    """

    turning: Float[Array, " pairs"]
    decay: Float[Array, " pairs"]
    gates: eqx.nn.Linear
    offsets: eqx.nn.Linear
    state: int = eqx.field(static=True)
    controls: int = eqx.field(static=True)

    def __init__(
        self,
        controls: int,
        state: int,
        *,
        turns: tuple[float, float] = (0.02, 2.0),
        memory: tuple[float, float] = (1.5, 50.0),
        key: PRNGKeyArray,
    ):
        if state % 2:
            raise ValueError(
                f"Got a state of {state} channels; expected an even number, because a rotation acts "
                f"on pairs of them. Write {setting('state', state + 1)}."
            )
        turn_key, decay_key, gate_key, offset_key = jax.random.split(key, 4)
        self.state, self.controls = state, controls
        draw = lambda key, low, high: jax.random.uniform(
            key, (state // 2,), minval=math.log(low), maxval=math.log(high)
        )
        self.turning, self.decay = draw(turn_key, *turns), -draw(decay_key, *memory)
        self.gates = eqx.nn.Linear(controls, state, key=gate_key)
        self.offsets = eqx.nn.Linear(controls, state, key=offset_key)

    def contract(self, control: Float[Array, " controls"]) -> SelectiveAffine:
        slower, faster = jnp.split(self.gates(control), 2)
        decay = jnp.exp(self.decay + jnp.clip(slower, -_GATES, _GATES))
        tangent = jnp.exp(self.turning) * (0.5 + 0.5 * jnp.tanh(faster))
        # By the root of the decay, so that long memories do not grow larger than short ones under a noisy input.
        size = jnp.sqrt(-jnp.expm1(-2.0 * decay))
        return SelectiveAffine(decay, tangent, jnp.tile(size, 2) * self.offsets(control))
