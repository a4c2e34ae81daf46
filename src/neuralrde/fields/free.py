"""The paper's field: a network with one output for each state and log-signature channel, free of any Lie
structure.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..signatures.bases import Basis
from .base import AbstractField, check_size
from .trunk import Trunk


class ContractedNetwork(eqx.Module):
    """z -> matrix · features(z) + offset: what is left of a network whose linear last layer met the
    log-signature.

    The solver knows this form, because the gradient of `matrix` can then be gathered once a window (see
    `neuralrde.solve.runge_kutta`).
    """

    features: Callable[[Float[Array, " state"]], Float[Array, " width"]]
    matrix: Float[Array, "state width"]
    offset: Float[Array, " state"]

    def __call__(self, z: Float[Array, " state"]) -> Float[Array, " state"]:
        return self.matrix @ self.features(z) + self.offset


class FreeField(AbstractField):
    """The neural RDE's own field, F(z) = f(z) LogSig with a network f (equation 10 of the paper).

    A trunk of `layers` linear maps with `activation` between them and tanh after the last, then one linear
    map to state x controls. That last map is linear, so it is contracted with the log-signature once a
    window, and all Runge-Kutta stages share the result.

    Args:
        controls: channels of the log-signature; see `neuralrde.log_signature_channels`.
        state: channels of the hidden state.
        width: of the trunk's layers.
        layers: number of linear maps in the trunk.
        activation: between them.

    >>> import jax, jax.numpy as jnp
    >>> field = FreeField(controls=3, state=4, key=jax.random.key(0))
    >>> field.contract(jnp.array([0.1, -0.2, 0.05]))(jnp.ones(4)).shape
    (4,)
    """

    features: Trunk
    weight: Float[Array, "controls state width"]
    bias: Float[Array, "controls state"]
    state: int = eqx.field(static=True)
    controls: int = eqx.field(static=True)
    basis: ClassVar[Basis] = "words"

    def __init__(
        self,
        controls: int,
        state: int,
        *,
        width: int = 64,
        layers: int = 3,
        activation: Callable = jax.nn.relu,
        key: PRNGKeyArray,
    ):
        check_size(controls * state * (width + 1), controls=controls, state=state)
        trunk_key, last_key = jax.random.split(key)
        self.state, self.controls = state, controls
        self.features = Trunk(state, width, layers, activation, key=trunk_key)
        # One over the root of what is summed, controls included: with log-signatures of unit size the state
        # moves by about one a unit of time whatever the depth, which without this grows with the number of
        # channels.
        self.weight = jax.random.normal(last_key, (controls, state, width)) / math.sqrt(width * controls)
        self.bias = jnp.zeros((controls, state))

    def contract(self, log_signature: Float[Array, " controls"]) -> ContractedNetwork:
        # Stored as (controls, state, width) and flattened, so that a batch makes one large matrix product,
        # and with the width last, so that its gradient needs no transposed copy (that copy was a fifth of a
        # training step).
        flat = log_signature @ self.weight.reshape(self.controls, -1)
        matrix = flat.reshape(self.state, -1)
        return ContractedNetwork(self.features, matrix, log_signature @ self.bias)
