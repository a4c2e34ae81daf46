"""Losses of one example, which are trained on, and metrics of a whole set, which are reported.

A loss is that of a prediction, or the mean over those of an example's predictions whose targets are known. A metric is
taken over all predictions at once: a mean over batches would be another number.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Shaped

from .._types import AnyArray
from ..models import LabelScale
from .examples import is_known

Numbers = Float[np.ndarray, "..."]


class AbstractLoss(eqx.Module):
    """The base class of losses, which also say how a model's outputs become predictions; `__call__` is required."""

    task: ClassVar[str | None] = None
    """ "classification" or "regression"; None for any."""

    @abstractmethod
    def __call__(self, prediction: Float[Array, "..."], target: Array) -> Float[Array, ""]:
        """The loss of one example."""

    def fit(self, target: np.ndarray) -> Self:
        """A copy with statistics of the training targets `(..., outputs)`; NaN is a target that is not known."""
        return self

    def outputs(self, targets: int) -> int:
        """How many outputs a model needs to predict `targets` numbers."""
        return targets

    def label_scale(self, target: np.ndarray) -> LabelScale | None:
        """The units of a model's outputs; None for outputs without a unit."""
        return None

    def predict(self, outputs: Numbers) -> Numbers:
        """The predictions that a model's outputs stand for."""
        return outputs

    def scores(self, outputs: Numbers, target: Numbers) -> Numbers:
        """How far targets are from the outputs. An interval with score s holds the targets whose score is at most s."""
        return np.abs(target - self.predict(outputs))

    def interval(self, outputs: Numbers, score: Numbers) -> tuple[Numbers, Numbers]:
        """The ends of the interval that holds the targets whose score is at most this one."""
        predicted = self.predict(outputs)
        return predicted - score, predicted + score


class FunctionLoss(AbstractLoss):
    """A function of one prediction and one target, as a loss."""

    function: Callable

    def __call__(self, prediction, target):
        return self.function(prediction, target)


class CrossEntropy(AbstractLoss):
    """-log softmax(prediction)[target], for classes counted from 0.

    Args:
        smoothing: the share of certainty that is spread over all classes.

    >>> round(float(CrossEntropy()(jnp.zeros(4), jnp.array(2))), 4)  # log 4: no idea
    1.3863
    """

    task: ClassVar[str | None] = "classification"
    smoothing: float = 0.0

    def __call__(self, prediction: Float[Array, "*out classes"], target: Int[Array, "*out"]) -> Float[Array, ""]:
        known = is_known(target)
        classes = prediction.shape[-1]
        wanted = jnp.where(known[..., None], jnp.arange(classes) == jnp.maximum(target, 0)[..., None], 1 / classes)
        wanted = (1 - self.smoothing) * wanted + self.smoothing / classes
        return mean_of_known(optax.softmax_cross_entropy(prediction, wanted), known)


class EachMember(eqx.Module):
    """The mean loss of the members of an ensemble, each by itself: that of their mean would make them all alike."""

    loss: Callable

    def __call__(self, predictions: Float[Array, "members *out outputs"], target: Array) -> Float[Array, ""]:
        return jax.vmap(lambda prediction: self.loss(prediction, target))(predictions).mean()


class AbstractRegressionLoss(AbstractLoss):
    """A loss of errors in units of the labels' spread, so that one learning rate suits every unit.

    `spread` is one number for all outputs, or one per output; `fit` takes the training labels' standard deviation.
    """

    task: ClassVar[str | None] = "regression"
    spread: eqx.AbstractVar[Any]

    def fit(self, target):
        return eqx.tree_at(lambda loss: loss.spread, self, np.asarray(label_scale(target).spread.array))

    def label_scale(self, target):
        return label_scale(target)

    def _mean(self, loss: Callable, prediction: Array, target: Array) -> Float[Array, ""]:
        """The mean of a function of errors over the known targets."""
        known = is_known(target)
        # The unknown target is replaced before it meets anything: the gradient of NaN times zero is NaN.
        # From a file the spread comes as numbers.
        error = (prediction - jnp.where(known, target, 0.0)) / jnp.asarray(self.spread, prediction.dtype)
        return mean_of_known(loss(error), known)


class SquaredError(AbstractRegressionLoss):
    """Half the squared error, in units of the labels' spread.

    >>> float(SquaredError(spread=10.0)(jnp.array([80.0]), jnp.array([60.0])))
    2.0
    """

    spread: Any = 1.0

    def __call__(self, prediction: Float[Array, "*out outputs"], target: Float[Array, "*out outputs"]):
        return self._mean(optax.l2_loss, prediction, target)


class Huber(AbstractRegressionLoss):
    """Squared near zero and linear beyond `delta` spreads, so that outliers among the labels count less.

    >>> float(Huber(delta=1.0)(jnp.array([10.0]), jnp.array([0.0])))
    9.5
    """

    spread: Any = 1.0
    delta: float = 1.0

    def __call__(self, prediction: Float[Array, "*out outputs"], target: Float[Array, "*out outputs"]):
        return self._mean(lambda error: optax.huber_loss(error, delta=self.delta), prediction, target)


class Quantiles(AbstractRegressionLoss):
    """The pinball loss of several quantiles at once. The median is the prediction, the outermost give intervals.

    Args:
        shares: the share of labels below each quantile, increasing, with 0.5 among them.
        spread: as for `SquaredError`.

    >>> loss = Quantiles(shares=(0.1, 0.5, 0.9))
    >>> outputs = np.array([[8.0, 10.0, 15.0]])  # of one number to predict
    >>> loss.predict(outputs).tolist(), [ends.tolist() for ends in loss.interval(outputs, np.array([1.0]))]
    ([[10.0]], [[[8.0]], [[15.0]]])
    """

    shares: tuple[float, ...] = eqx.field(static=True, default=(0.05, 0.25, 0.5, 0.75, 0.95))
    spread: Any = 1.0

    def __check_init__(self):
        shares = list(self.shares)
        if len(shares) < 3 or shares != sorted(set(shares)) or 0.5 not in shares or not 0 < shares[0] < shares[-1] < 1:
            raise ValueError(
                f"Got shares={self.shares}; expected at least three increasing shares between 0 and 1, with 0.5 among "
                "them. Write for example Quantiles(shares=(0.05, 0.5, 0.95))."
            )

    def __call__(self, prediction: Float[Array, "*out quantiles"], target: Float[Array, "*out outputs"]):
        known = is_known(target)
        quantiles = prediction.reshape(*target.shape, len(self.shares))
        spread = jnp.broadcast_to(jnp.asarray(self.spread, prediction.dtype), target.shape[-1:])
        error = (jnp.where(known, target, 0.0)[..., None] - quantiles) / spread[:, None]
        shares = jnp.array(self.shares, prediction.dtype)
        return mean_of_known(jnp.maximum(shares * error, (shares - 1) * error).sum(axis=-1), known)

    def outputs(self, targets):
        return targets * len(self.shares)

    def label_scale(self, target):
        scale = label_scale(target)
        each = lambda values: np.repeat(np.asarray(values.value), len(self.shares))
        return LabelScale.of(each(scale.mean), each(scale.spread))

    def predict(self, outputs):
        return self._quantiles(outputs)[..., self.shares.index(0.5)]

    def scores(self, outputs, target):
        """The distance of a target from the median, in units of the distance of the outermost quantile on its side."""
        low, middle, high = self._outermost(outputs)
        return np.where(target < middle, (middle - target) / (middle - low), (target - middle) / (high - middle))

    def interval(self, outputs, score):
        low, middle, high = self._outermost(outputs)
        return middle - score * (middle - low), middle + score * (high - middle)

    def _outermost(self, outputs: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        quantiles = self._quantiles(outputs)
        middle = quantiles[..., self.shares.index(0.5)]
        # Never closer than rounding: a score is divided by it.
        least = 1e-6 * np.abs(middle) + 1e-12
        return np.minimum(quantiles[..., 0], middle - least), middle, np.maximum(quantiles[..., -1], middle + least)

    def _quantiles(self, outputs: Numbers) -> Numbers:
        """The quantiles in order, whatever a model says."""
        outputs = np.asarray(outputs)
        return np.sort(outputs.reshape(*outputs.shape[:-1], -1, len(self.shares)), axis=-1)


def label_scale(target: np.ndarray) -> LabelScale:
    """The mean and spread of each output, over its known targets.

    >>> label_scale(np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 7.0]])).mean.value.tolist()
    [2.0, 7.0]
    """
    columns = target.reshape(-1, target.shape[-1]).T
    unknown = np.isnan(columns).all(axis=1)
    if unknown.any():
        raise ValueError(
            f"Got no known target of output {int(unknown.argmax())} to train on; expected some of each output, because "
            "its mean and spread are measured. Leave the output out."
        )
    fitted = [LabelScale.fit(column[~np.isnan(column)]) for column in columns]
    mean, spread = (
        np.concatenate([np.asarray(frozen.array) for frozen in part])
        for part in zip(*((one.mean, one.spread) for one in fitted), strict=True)
    )
    return LabelScale.of(mean, spread)


def mean_of_known(losses: Float[Array, "*out"], known: Array) -> Float[Array, ""]:
    return jnp.where(known, losses, 0.0).sum() / jnp.maximum(known.sum(), 1)


def accuracy(prediction: Float[np.ndarray, "*out classes"], target: Shaped[np.ndarray, "*out"]) -> float:
    """The share of known targets for which the largest output is that of the right class.

    >>> accuracy(np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([0, 0]))
    0.5
    """
    known = np.asarray(is_known(target))
    return float((prediction.argmax(-1) == target)[known].mean())


def rmse(prediction: Float[np.ndarray, "*out"], target: Float[np.ndarray, "*out"]) -> float:
    """The root of the mean squared error, in the unit of the labels.

    >>> rmse(np.array([[1.0], [2.0]]), np.array([[1.0], [4.0]]))
    1.4142135623730951
    """
    known = ~np.isnan(target)
    return float(np.sqrt(((prediction - target)[known] ** 2).mean(dtype=np.float64)))


class Histogram(AbstractLoss):
    """The cross-entropy between a predicted distribution over bins and the label.

    The model has one output per bin, and `median(outputs)` is the prediction. If two numbers are possible, such as a
    rhythm and its double, their mean is neither; the median is the likelier one. `quantile` says how sure the model is.
    For one label per series.

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
                f"Got bins={self.bins}, width={self.width} and blur={self.blur}; expected "
                "them above 0. A blur of 0.5 hardly blurs."
            )

    def fit(self, target: Any) -> "Histogram":
        """A copy whose bins cover the training labels and a twentieth of their range more on either side."""
        labels = np.asarray(target)
        known = labels[np.asarray(is_known(labels))].astype(np.float64)
        if not known.size or not np.isfinite(known).all():
            what = "no known label" if not known.size else "a label that is not finite"
            raise ValueError(
                f"Got {what} among {labels.size}; expected numbers, because bins are laid out over their range. Give "
                "the training set's labels."
            )
        if self.ratios and known.min() <= 0:
            raise ValueError(
                f"Got labels down to {known.min():g} with ratios=True; expected positive ones, because bins have equal "
                "ratios. Write ratios=False, or leave those samples out."
            )
        low, high = (np.log if self.ratios else np.asarray)(np.array([known.min(), known.max()]))
        margin = (high - low or abs(high) or 1.0) / 20  # a constant has no range
        return replace(self, start=float(low - margin), width=float((high - low + 2 * margin) / self.bins))

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
        share = np.minimum(score, 0.5)
        low, high = (np.asarray(self.quantile(outputs, float(np.squeeze(0.5 + sign * share)))) for sign in (-1, 1))
        margin = np.maximum(0.0, np.asarray(score) - 0.5) * self._fitted()[1]
        return (low * np.exp(-margin), high * np.exp(margin)) if self.ratios else (low - margin, high + margin)

    def median(self, prediction: Float[AnyArray, "*out bins"]) -> Float[Array, "*out 1"]:
        """The median of the predicted distribution."""
        return self.quantile(prediction, 0.5)

    def quantile(self, prediction: Float[AnyArray, "*out bins"], share: float) -> Float[Array, "*out 1"]:
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
