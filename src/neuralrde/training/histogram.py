"""Regression by a distribution over bins of the label, instead of one number."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .examples import is_known


class Histogram(eqx.Module):
    """Cross-entropy between what a model says about each bin and where the label is: a loss for `fit`.

    The model has an output for each bin, and `median(prediction)` is its answer. Where it hesitates between two
    numbers, as between a rhythm and its double, one trained on squared errors answers with neither, the mean of both;
    the median is one of them. And how wide the distribution is says how sure the model is: `quantile`.

    Args:
        start: the lower edge of the first bin; its logarithm with `ratios`.
        width: of a bin, in the same units.
        bins: how many; the model's outputs.
        ratios: whether bins have equal ratios instead of equal widths: for rates, whose errors are shares of them.
        blur: how many bins a label is blurred by (a standard deviation), so that neighbours count as near.

    >>> ages = Histogram.fit(np.array([20.0, 40.0, 60.0]), bins=100)
    >>> sure = -jnp.abs(ages.start + ages.width * (jnp.arange(100) + 0.5) - 33.0)  # logits with their peak at 33
    >>> [round(float(ages.quantile(sure, share)[0])) for share in (0.1, 0.5, 0.9)]
    [31, 33, 35]
    """

    start: float
    width: float
    bins: int = eqx.field(static=True, default=240)
    ratios: bool = eqx.field(static=True, default=False)
    blur: float = 2.0

    @staticmethod
    def fit(labels: Any, *, bins: int = 240, ratios: bool = False, blur: float = 2.0) -> "Histogram":
        """Bins for the training labels, and a twentieth of their range more on either side."""
        labels = np.asarray(labels, np.float64)
        labels = labels[~np.isnan(labels)]
        if not labels.size or (ratios and labels.min() <= 0):
            got = f"labels down to {labels.min():g}" if labels.size else "no label"
            raise ValueError(
                f"Got {got}; expected {'positive ones' if ratios else 'at least one'}, because bins are laid out over "
                f"their range{', by ratios' if ratios else ''}. Write ratios=False, or leave samples out."
            )
        low, high = (np.log if ratios else np.asarray)(np.array([labels.min(), labels.max()]))
        margin = (high - low or 1.0) / 20
        return Histogram(float(low - margin), float((high - low + 2 * margin) / bins), bins, ratios, blur)

    def __call__(self, prediction: Float[Array, "*out bins"], target: Float[Array, "*out 1"]) -> Float[Array, ""]:
        known = is_known(target[..., 0])
        losses = optax.softmax_cross_entropy(prediction, self.shares(jnp.where(known, target[..., 0], 1.0)))
        return jnp.where(known, losses, 0.0).sum() / jnp.maximum(known.sum(), 1)

    def shares(self, label: Float[Array, "*out"]) -> Float[Array, "*out bins"]:
        """How much of a blurred label lies in each bin; a label outside of all bins counts as on the edge."""
        place = ((jnp.log(label) if self.ratios else label) - self.start) / self.width
        edges = jnp.arange(self.bins + 1) - jnp.clip(place, 0.0, self.bins)[..., None]
        below = jax.scipy.stats.norm.cdf(edges / self.blur)
        shares = jnp.diff(below, axis=-1)
        return shares / shares.sum(axis=-1, keepdims=True)

    def median(self, prediction: Float[Array, "*out bins"]) -> Float[Array, "*out 1"]:
        return self.quantile(prediction, 0.5)

    def quantile(self, prediction: Float[Array, "*out bins"], share: float) -> Float[Array, "*out 1"]:
        """The label below which a share of the distribution lies."""
        likely = jax.nn.softmax(jnp.asarray(prediction), axis=-1)
        before = jnp.cumsum(likely, axis=-1) - likely
        # Each bin lies below the quantile as a whole, in part, or not at all.
        whole = jnp.clip((share - before) / jnp.maximum(likely, 1e-12), 0.0, 1.0)
        label = self.start + self.width * whole.sum(axis=-1, keepdims=True)
        return jnp.exp(label) if self.ratios else label
