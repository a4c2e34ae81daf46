"""Losses of one example: of its prediction, or the mean over its predictions where a target is known."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from .examples import is_known


class CrossEntropy(eqx.Module):
    """-log softmax(prediction)[target], for classes counted from 0.

    Args:
        smoothing: the share of certainty that is spread over all classes.

    >>> round(float(CrossEntropy()(jnp.zeros(4), jnp.array(2))), 4)  # log 4: no idea
    1.3863
    """

    smoothing: float = 0.0

    def __call__(self, prediction: Float[Array, "*out classes"], target: Int[Array, "*out"]) -> Float[Array, ""]:
        known = is_known(target)
        classes = prediction.shape[-1]
        wanted = jnp.where(known[..., None], jnp.arange(classes) == jnp.maximum(target, 0)[..., None], 1 / classes)
        wanted = (1 - self.smoothing) * wanted + self.smoothing / classes
        return mean_of_known(optax.softmax_cross_entropy(prediction, wanted), known)


class SquaredError(eqx.Module):
    """Half the squared error, in units of the labels' spread: the same learning rate suits every unit.

    Args:
        spread: one for all outputs or one for each, usually the training labels' standard deviation.

    >>> float(SquaredError(spread=10.0)(jnp.array([80.0]), jnp.array([60.0])))
    2.0
    """

    spread: Any = 1.0

    def __call__(self, prediction: Float[Array, "*out outputs"], target: Float[Array, "*out outputs"]):
        known = is_known(target)
        return mean_of_known(optax.l2_loss(_errors(prediction, target, known, self.spread)), known)


class Huber(eqx.Module):
    """Squared near zero, linear beyond `delta` spreads: outliers among the labels pull less.

    >>> float(Huber(delta=1.0)(jnp.array([10.0]), jnp.array([0.0])))
    9.5
    """

    spread: Any = 1.0
    delta: float = 1.0

    def __call__(self, prediction: Float[Array, "*out outputs"], target: Float[Array, "*out outputs"]):
        known = is_known(target)
        return mean_of_known(optax.huber_loss(_errors(prediction, target, known, self.spread), delta=self.delta), known)


def _errors(prediction, target, known, spread):
    # The unknown target is replaced before it meets anything: the gradient of NaN times zero is NaN.
    return (prediction - jnp.where(known, target, 0.0)) / spread


def mean_of_known(losses: Float[Array, "*out"], known: Array) -> Float[Array, ""]:
    return jnp.where(known, losses, 0.0).sum() / jnp.maximum(known.sum(), 1)
