"""The trunk of the network fields."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


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
            if value < 1:
                raise ValueError(f"Got {name}={value}; expected at least 1. Write for example {name}=3.")
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
