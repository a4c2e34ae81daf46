"""The paper's two models, with PyTorch's initial weights: Equinox's linear layers have these too, our fields do not."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from neuralrde.fields import FreeField
from neuralrde.models import NeuralRDE
from neuralrde.signatures import log_signature_channels
from neuralrde.solvers import AbstractGradient, Recompute, RK4ThreeEighths

from .paper_bugs import SharedTrunk

ODE_WIDTH = 30  # of the ODE-RNN's field, whatever the state


def paper_neural_rde(
    channels: int,
    outputs: int,
    *,
    depth: int,
    state: int,
    width: int,
    layers: int,
    shared: bool,
    gradient: AbstractGradient = Recompute(),  # noqa: B008 (an immutable object)
    key: PRNGKeyArray,
) -> NeuralRDE:
    """The neural RDE (a neural CDE at depth 1): final state, unscaled log-signatures, the 3/8 rule.

    Args:
        shared: whether the hidden layers are one and the same, `Bug.SHARED_HIDDEN_LAYERS`.
        gradient: in the paper's main tables it is `Backsolve()`.

    >>> paper_neural_rde(3, 1, depth=2, state=4, width=8, layers=3, shared=True, key=jax.random.key(0)).depth
    2
    """
    model_key, field_key, trunk_key, weight_key, bias_key = jax.random.split(key, 5)
    controls = log_signature_channels(channels, depth)
    field = FreeField(controls, state, width=width, layers=layers, key=field_key)
    bound = 1 / math.sqrt(width)
    uniform = lambda key, like: jax.random.uniform(key, like.shape, like.dtype, -bound, bound)
    last = uniform(weight_key, field.weight), uniform(bias_key, field.bias)
    field = eqx.tree_at(lambda field: (field.weight, field.bias), field, last)
    if shared and layers > 2:
        trunk = SharedTrunk(state, width, layers, key=trunk_key)
    else:
        sizes, keys = [state] + [width] * (layers - 1), jax.random.split(trunk_key, layers)
        linears = tuple(eqx.nn.Linear(size, width, key=k) for size, k in zip(sizes, keys, strict=True))
        trunk = eqx.tree_at(lambda trunk: trunk.layers, field.features, linears)
    field = eqx.tree_at(lambda field: field.features, field, trunk)
    how = {"solver": RK4ThreeEighths(), "gradient": gradient}
    return NeuralRDE(channels, outputs, depth=depth, field=field, **how, key=model_key)


class PaperODERNN(eqx.Module):
    """h' = f(h) for unit time, then h = tanh(W x + U h + b): a plain cell, where `neuralrde.models.ODERNN` has gates.

    With a field of width 30 and two biases in the cell, it has as many weights as the paper's appendix says (3871 for
    state 32, step 8 on BIDMC).

    >>> model = PaperODERNN(24, 1, state=32, key=jax.random.key(0))
    >>> sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)))
    3871
    """

    from_input: eqx.nn.Linear
    from_state: eqx.nn.Linear
    inner: eqx.nn.Linear
    outer: eqx.nn.Linear
    decoder: eqx.nn.Linear

    def __init__(self, inputs: int, outputs: int, *, state: int, key: PRNGKeyArray):
        keys = jax.random.split(key, 5)
        self.from_input = _bounded(eqx.nn.Linear(inputs, state, key=keys[0]), state, keys[0])
        self.from_state = eqx.nn.Linear(state, state, key=keys[1])
        self.inner = eqx.nn.Linear(state, ODE_WIDTH, key=keys[2])
        self.outer = eqx.nn.Linear(ODE_WIDTH, state, key=keys[3])
        self.decoder = eqx.nn.Linear(state, outputs, key=keys[4])

    def __call__(self, blocks: Float[Array, "windows block"]) -> Float[Array, " outputs"]:
        field = lambda h: self.outer(jnp.tanh(self.inner(h)))

        def window(h, block):
            h = three_eighths_step(field, h)
            return jnp.tanh(self.from_input(block) + self.from_state(h)), None

        start = jnp.zeros(self.from_state.out_features, blocks.dtype)
        return self.decoder(jax.lax.scan(window, start, blocks)[0])


def three_eighths_step(
    field: Callable[[Float[Array, " state"]], Float[Array, " state"]], h: Float[Array, " state"]
) -> Float[Array, " state"]:
    """One step of torchdiffeq's rk4, the 3/8 rule, over unit time: `RK4ThreeEighths` for a field that nothing drives.

    >>> float(three_eighths_step(lambda h: h, jnp.ones(1))[0])  # e to order 4: 1 + 1 + 1/2 + 1/6 + 1/24
    2.7083332538604736
    """
    k1 = field(h)
    k2 = field(h + 1 / 3 * k1)
    k3 = field(h + (-1 / 3 * k1 + k2))
    k4 = field(h + (k1 - k2 + k3))
    return h + (1 / 8 * k1 + 3 / 8 * k2 + 3 / 8 * k3 + 1 / 8 * k4)


def _bounded(layer: eqx.nn.Linear, state: int, key: PRNGKeyArray) -> eqx.nn.Linear:
    """PyTorch's recurrent cells draw all weights by the size of the state, also those of the input."""
    bound = 1 / math.sqrt(state)
    shapes = [layer.weight.shape, (state,)]
    drawn = [jax.random.uniform(k, s, minval=-bound, maxval=bound) for k, s in zip(jax.random.split(key), shapes)]  # noqa: B905
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, drawn)
