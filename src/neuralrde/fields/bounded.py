"""Kidger's variant of the network field, with tanh after the last linear map instead of before it."""

import math
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..errors import ParameterError, setting
from ..signatures.bases import Basis
from .base import AbstractField, Autonomous, check_size


class BoundedField(AbstractField):
    """tanh(W features(z) + b) · LogSig: each entry of the field lies between -1 and 1 (Kidger et al., 2020).

    Such a field cannot run away, whatever its weights. But because of the last nonlinearity it cannot be contracted
    with the log-signature first, so each Runge-Kutta stage pays for the whole last layer.

    >>> import jax, jax.numpy as jnp
    >>> field = BoundedField(controls=3, state=4, key=jax.random.key(0))
    >>> bool(jnp.abs(field.contract(jnp.array([0.0, 1.0, 0.0]))(jnp.ones(4))).max() < 1)
    True
    """

    network: eqx.nn.MLP
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
        if layers < 1:  # `eqx.nn.MLP` would leave out the last tanh, and with it the bound
            raise ParameterError("layers", layers, "at least 1 hidden layer", remedy=f"Write {setting('layers', 3)}.")
        check_size(controls * state * (width + 1), controls=controls, state=state)
        self.state, self.controls = state, controls
        network = eqx.nn.MLP(state, state * controls, width, layers, activation, jnp.tanh, key=key)
        last = lambda network: network.layers[-1].weight
        self.network = eqx.tree_at(last, network, last(network) / math.sqrt(controls))

    def contract(self, log_signature: Float[Array, " controls"]) -> Autonomous:
        return lambda z: self.network(z).reshape(self.state, self.controls) @ log_signature
