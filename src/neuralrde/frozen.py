"""Numbers that a model keeps and does not train: statistics of its training set; and what is known of a model."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._types import Model


class Frozen(eqx.Module):
    """An array that is saved and loaded with a model, but is not one of its weights.

    `partition_weights` leaves it out of the weights. In a training loop of your own, write `weights, rest =
    partition_weights(model)` instead of `eqx.partition(model, eqx.is_inexact_array)`. Otherwise weight decay would
    shrink it.

    >>> Frozen(np.array([0.5, 2.0])).value.tolist()
    [0.5, 2.0]
    """

    array: Float[Array | np.ndarray, "..."]

    def __init__(self, values: Any):
        # JAX's arrays as they are, so that `eqx.filter_eval_shape` allocates nothing.
        floats = np.float64 if jax.config.jax_enable_x64 else np.float32  # type: ignore
        self.array = values.astype(floats) if isinstance(values, jax.Array) else np.asarray(values, floats)

    @property
    def value(self) -> Float[Array, "..."]:
        return jax.lax.stop_gradient(jnp.asarray(self.array))

    @property
    def size(self) -> int:
        return self.array.size


def once_per_model(function: Callable) -> Callable:
    """Remember what a function makes of a model, which never changes, for as long as the model lives."""
    known: dict[tuple, Any] = {}

    @functools.wraps(function)
    def remembered(model: Model, *others: Any) -> Any:
        key = (id(model), *others)
        if key not in known:
            known[key] = function(model, *others)
            weakref.finalize(model, known.pop, key, None)
        return known[key]

    return remembered


def partition_weights(model: Model) -> tuple[Model, Model]:
    """A model's weights, and everything else; `eqx.combine` puts them together again.

    >>> weights, rest = partition_weights({"weight": jnp.ones(2), "mean": Frozen(jnp.zeros(2))})
    >>> [leaf.shape for leaf in jax.tree.leaves(weights)], rest["mean"].value.tolist()
    ([(2,)], [0.0, 0.0])
    """
    is_weight = jax.tree.map(eqx.is_inexact_array, model, is_leaf=_is_frozen)
    return eqx.partition(model, is_weight, is_leaf=_is_frozen)


def weights_of(model: Model) -> Model:
    """A model's weights, with None in place of everything else.

    >>> sum(leaf.size for leaf in jax.tree.leaves(weights_of(eqx.nn.Linear(3, 2, key=jax.random.key(0)))))
    8
    """
    return partition_weights(model)[0]


def _is_frozen(node: Any) -> bool:
    return isinstance(node, Frozen)
