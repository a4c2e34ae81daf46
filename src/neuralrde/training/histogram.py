"""Regression by a distribution over bins of the label, instead of one number."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .examples import Arrays, is_known
from .losses import mean_of_known


class Histogram(eqx.Module):
    """Cross-entropy between what a model says about each bin and where the label is: a loss for `fit`.

    The model has an output for each bin, and `median(prediction)` is its answer. Where it hesitates between two
    numbers, as between a rhythm and its double, one trained on squared errors answers with neither, the mean of both;
    the median is the likelier one. And how wide the distribution is says how sure the model is, down to the blur:
    `quantile`. For one label a series.

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

    def __check_init__(self):
        if self.bins < 1 or not self.width > 0 or not self.blur > 0:
            raise ValueError(
                f"Got bins={self.bins}, width={self.width} and blur={self.blur}; expected them above 0. A blur of "
                "0.5 hardly blurs."
            )

    @staticmethod
    def fit(labels: Any, *, bins: int = 240, ratios: bool = False, blur: float = 2.0) -> "Histogram":
        """Bins for the training labels, and a twentieth of their range more on either side."""
        labels = np.asarray(labels)
        known = labels[np.asarray(is_known(labels))].astype(np.float64)
        if not known.size or not np.isfinite(known).all():
            what = "no known label" if not known.size else "a label that is not finite"
            raise ValueError(
                f"Got {what} among {labels.size}; expected numbers, because bins are laid out over their range. Give "
                "the training set's labels."
            )
        if ratios and known.min() <= 0:
            raise ValueError(
                f"Got labels down to {known.min():g} with ratios=True; expected positive ones, because bins have equal "
                "ratios. Write ratios=False, or leave those samples out."
            )
        low, high = (np.log if ratios else np.asarray)(np.array([known.min(), known.max()]))
        margin = (high - low or abs(high) or 1.0) / 20  # a constant has no range
        return Histogram(float(low - margin), float((high - low + 2 * margin) / bins), bins, ratios, blur)

    def __call__(self, prediction: Float[Array, "*out bins"], target: Float[Array, "*out 1"]) -> Float[Array, ""]:
        self._check(prediction)
        if target.shape != (*prediction.shape[:-1], 1):
            raise ValueError(
                f"Got a target of shape {target.shape} for an example with predictions of shape {prediction.shape}; "
                "expected one number, shape (1,). Write `labels.reshape(-1, 1)`; several outputs have no histogram."
            )
        known = is_known(target[..., 0])
        shares = self.shares(jnp.where(known, target[..., 0], 1.0))
        return mean_of_known(optax.softmax_cross_entropy(prediction, shares), known)

    def shares(self, label: Float[Array, "*out"]) -> Float[Array, "*out bins"]:
        """How much of a blurred label lies in each bin; a label outside of all bins counts as on the edge."""
        place = ((jnp.log(jnp.maximum(label, 0.0)) if self.ratios else label) - self.start) / self.width
        edges = jnp.arange(self.bins + 1) - jnp.clip(place, 0.0, self.bins)[..., None]
        below = jax.scipy.stats.norm.cdf(edges / self.blur)
        shares = jnp.diff(below, axis=-1)
        return shares / shares.sum(axis=-1, keepdims=True)

    def median(self, prediction: Float[Arrays, "*out bins"]) -> Float[Array, "*out 1"]:
        """The answer: as likely too low as too high."""
        return self.quantile(prediction, 0.5)

    def quantile(self, prediction: Float[Arrays, "*out bins"], share: float) -> Float[Array, "*out 1"]:
        """The label below which a share of the distribution lies."""
        if not 0 <= share <= 1:
            raise ValueError(f"Got share={share}; expected a share from 0 to 1. For 5 % write 0.05.")
        self._check(prediction)
        likely = jax.nn.softmax(jnp.asarray(prediction), axis=-1)
        before = jnp.cumsum(likely, axis=-1) - likely
        # How much of each bin lies below the quantile: all, a part, or nothing.
        covered = jnp.clip((share - before) / jnp.maximum(likely, 1e-12), 0.0, 1.0)
        label = self.start + self.width * covered.sum(axis=-1, keepdims=True)
        return jnp.exp(label) if self.ratios else label

    def _check(self, prediction: Any) -> None:
        if prediction.ndim == 0 or prediction.shape[-1] != self.bins:
            raise ValueError(
                f"Got predictions of shape {prediction.shape}; expected {self.bins} in the end, one for each bin. "
                f"Write outputs={self.bins} for the model."
            )
