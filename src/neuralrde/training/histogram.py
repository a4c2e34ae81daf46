"""Regression that predicts a distribution over bins of the label instead of one number."""

from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .examples import Arrays, is_known
from .losses import AbstractLoss, mean_of_known


class Histogram(AbstractLoss):
    """The cross-entropy between a predicted distribution over bins and the label.

    The model has one output per bin, and `median(outputs)` is the prediction. If two numbers are possible, such as a
    rhythm and its double, a model trained on squared errors predicts their mean, which is neither; the median is the
    likelier one. The width of the distribution says how sure the model is (`quantile`), down to the blur. For one label
    per series.

    Args:
        start: the lower edge of the first bin, its logarithm with `ratios`; None until `fit` has laid out the bins.
        width: width of a bin, in the same units.
        bins: number of bins, and so of the model's outputs.
        ratios: whether bins have equal ratios instead of equal widths, for rates, whose errors grow with the rate.
        blur: how many bins a label is blurred by (a standard deviation), so that neighbours count as near.

    >>> ages = Histogram(bins=100).fit(np.array([20.0, 40.0, 60.0]))
    >>> sure = -jnp.abs(ages.start + ages.width * (jnp.arange(100) + 0.5) - 33.0)  # logits with their peak at 33
    >>> [round(float(ages.quantile(sure, share)[0])) for share in (0.1, 0.5, 0.9)]
    [31, 33, 35]
    """

    task: ClassVar[str | None] = "regression"
    start: float | None = None
    width: float | None = None
    bins: int = eqx.field(static=True, default=240)
    ratios: bool = eqx.field(static=True, default=False)
    blur: float = 2.0

    def __check_init__(self):
        if self.bins < 1 or (self.width is not None and not self.width > 0) or not self.blur > 0:
            raise ValueError(
                f"Got bins={self.bins}, width={self.width} and blur={self.blur}; expected them above 0. A blur of "
                "0.5 hardly blurs."
            )

    def fit(self, target: Any) -> "Histogram":
        """A copy whose bins cover the training labels and a twentieth of their range more on either side."""
        bins, ratios, labels = self.bins, self.ratios, target
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
        return replace(self, start=float(low - margin), width=float((high - low + 2 * margin) / bins))

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
        start, width = self._fitted()
        place = ((jnp.log(jnp.maximum(label, 0.0)) if self.ratios else label) - start) / width
        edges = jnp.arange(self.bins + 1, dtype=place.dtype) - jnp.clip(place, 0.0, self.bins)[..., None]
        below = jax.scipy.stats.norm.cdf(edges / self.blur)
        shares = jnp.diff(below, axis=-1)
        return shares / shares.sum(axis=-1, keepdims=True)

    def outputs(self, targets: int) -> int:
        if targets != 1:
            raise ValueError(
                f"Got {targets} numbers to predict with a histogram; expected one, because several have no common "
                "bins. Fit one model for each, or write loss=Quantiles()."
            )
        return self.bins

    def predict(self, outputs):
        return np.asarray(self.median(outputs))

    def scores(self, outputs, target):
        """How far from the median a label is in the distribution, from 0 to 1/2, with a little for what lies beyond."""
        likely = np.asarray(jax.nn.softmax(jnp.asarray(outputs), axis=-1), np.float64)
        start, width = self._fitted()
        label = np.asarray(target, np.float64)[..., 0]
        place = ((np.log(np.maximum(label, 1e-300)) if self.ratios else label) - start) / width
        covered = np.clip(place[..., None] - np.arange(self.bins), 0.0, 1.0)
        beyond = np.maximum(0.0, np.maximum(-place, place - self.bins))
        return (np.abs((covered * likely).sum(axis=-1) - 0.5) + beyond)[..., None]

    def interval(self, outputs, score):
        share, beyond = np.minimum(score, 0.5), np.maximum(0.0, np.asarray(score) - 0.5)
        low, high = (np.asarray(self.quantile(outputs, float(np.squeeze(0.5 + sign * share)))) for sign in (-1, 1))
        _, width = self._fitted()
        return (
            (low * np.exp(-beyond * width), high * np.exp(beyond * width))
            if self.ratios
            else (low - beyond * width, high + beyond * width)
        )

    def median(self, prediction: Float[Arrays, "*out bins"]) -> Float[Array, "*out 1"]:
        """The median of the predicted distribution."""
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
        start, width = self._fitted()
        label = start + width * covered.sum(axis=-1, keepdims=True)
        return jnp.exp(label) if self.ratios else label

    def _check(self, prediction: Any) -> None:
        if prediction.ndim == 0 or prediction.shape[-1] != self.bins:
            raise ValueError(
                f"Got predictions of shape {prediction.shape}; expected {self.bins} in the end, one for each bin. "
                f"Write outputs={self.bins} for the model."
            )

    def _fitted(self) -> tuple[float, float]:
        if self.start is None or self.width is None:
            raise ValueError("Got Histogram() before it was fitted. Write `Histogram().fit(training_labels)`.")
        return self.start, self.width
