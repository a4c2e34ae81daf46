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

from ..errors import ParameterError, setting
from ..signatures.bases import Basis
from .base import AbstractField, Autonomous, check_size


class Trunk(eqx.Module):
    """Linear, [activation, Linear] x (layers - 1), tanh: features of the state, each between -1 and 1.

    Weights are normal with variance 2 / inputs (He), biases zero: through a few ReLU layers the features keep
    their size, where the usual uniform initialisation loses a factor of about 2.5 a layer. (Not `eqx.nn.MLP`:
    with a single layer it leaves out the last activation.)

    >>> Trunk(state=4, width=8, layers=1, key=jax.random.key(0))(jnp.zeros(4)).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    layers: tuple[eqx.nn.Linear, ...]
    activation: Callable

    def __init__(self, state: int, width: int, layers: int, activation: Callable = jax.nn.relu, *, key: PRNGKeyArray):
        for name, value in (("state", state), ("width", width), ("layers", layers)):
            if value < 1 or (name == "layers" and value > 100):
                raise ParameterError(
                    name, value, "at least 1, and at most 100 layers", remedy=f"Write for example {setting(name, 3)}."
                )
        inputs = [state] + [width] * (layers - 1)
        self.layers = tuple(
            _linear(size, width, key=k) for size, k in zip(inputs, jax.random.split(key, layers), strict=True)
        )
        self.activation = activation

    def __call__(self, z: Float[Array, " state"]) -> Float[Array, " width"]:
        for layer in self.layers[:-1]:
            z = self.activation(layer(z))
        return jnp.tanh(self.layers[-1](z))


def _linear(inputs: int, outputs: int, *, key: PRNGKeyArray) -> eqx.nn.Linear:
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    weight = jax.random.normal(key, (outputs, inputs)) * math.sqrt(2 / inputs)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (weight, jnp.zeros(outputs)))


class ContractedNetwork(eqx.Module):
    """z -> matrix · features(z) + offset: what is left of a network whose linear last layer met the
    log-signature.

    The solver knows this form, because the gradient of `matrix` can then be gathered once a window (see
    `neuralrde.solvers.runge_kutta`).
    """

    features: Callable[[Float[Array, " state"]], Float[Array, " width"]]
    matrix: Float[Array, "state width"]
    offset: Float[Array, " state"]

    def __call__(self, z: Float[Array, " state"]) -> Float[Array, " state"]:
        return self.matrix @ self.features(z) + self.offset


class FreeField(AbstractField):
    """The neural RDE's own field, F(z) = f(z) LogSig with a network f (equation 10 of the paper).

    A trunk of `layers` linear maps with `activation` between them and tanh after the last, then one linear
    map to state x controls. That last map is linear, so it is contracted with the log-signature once per window, and
    all Runge-Kutta stages share the result.

    Args:
        controls: channels of the log-signature; see `neuralrde.signatures.log_signature_channels`.
        state: channels of the hidden state.
        width: width of the trunk's layers.
        layers: number of linear maps in the trunk.
        activation: activation between them.

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
