"""The trunk of the network fields."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray


def trunk(state: int, width: int, layers: int, activation: Callable, *, key: PRNGKeyArray) -> eqx.nn.MLP:
    """Linear, [activation, Linear] x (layers - 1), tanh: features of the state, each between -1 and 1.

    Weights are normal with variance 2 / inputs (He), biases zero: through a few ReLU layers the features keep
    their size, where the usual uniform initialisation loses a factor of about 2.5 a layer.
    """
    for name, value in (("state", state), ("width", width), ("layers", layers)):
        if value < 1:
            raise ValueError(f"Got {name}={value}; expected at least 1. Write for example {name}=3.")
    build_key, *keys = jax.random.split(key, layers + 1)
    network = eqx.nn.MLP(state, width, width, layers - 1, activation, jnp.tanh, key=build_key)

    def he(layer: eqx.nn.Linear, key: PRNGKeyArray) -> eqx.nn.Linear:
        weight = jax.random.normal(key, layer.weight.shape) * math.sqrt(2 / layer.weight.shape[1])
        bias = jnp.zeros(layer.weight.shape[0])
        return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (weight, bias))

    layers_ = tuple(he(layer, key) for layer, key in zip(network.layers, keys, strict=True))
    return eqx.tree_at(lambda m: m.layers, network, layers_)
