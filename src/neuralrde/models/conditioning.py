"""Statistics of the training set, kept in the model: sizes of channels, mean and spread of the labels."""

from collections.abc import Iterable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..fields import AbstractField, Autonomous
from ..frozen import Frozen
from ..signatures.bases import Basis
from ..signatures.lyndon import lyndon_words

Statistics = np.ndarray | Array


class LogSignatureSizes(NamedTuple):
    """What a scale is fitted to, of log-signatures that are not all in memory; `fit_scale` takes it instead of them.

    >>> logs = np.random.default_rng(0).normal(size=(6, 5, 3))
    >>> halves = LogSignatureSizes.of([(logs[:3], np.full(3, 5)), (logs[3:], np.full(3, 5))])
    >>> bool(np.array_equal(halves.size, LogSignatureSizes.of([(logs, np.full(6, 5))]).size)), halves.count
    (True, 5.0)
    """

    size: np.ndarray
    """The root mean square of each channel."""
    count: float
    """The mean number of windows."""

    @staticmethod
    def of(parts: Iterable[tuple[Statistics, Statistics]]) -> "LogSignatureSizes":
        """From log-signatures in parts, padded, and the number of windows of each series."""
        total, windows, series = None, 0, 0
        for values, counts in parts:
            values = np.asarray(values, np.float64)
            valid = np.arange(values.shape[1]) < np.asarray(counts)[:, None]
            squares = values[valid] ** 2
            if total is None:
                total = np.zeros(values.shape[2])
            # Window after window, as a sum over all of them at once is made: to the same bit.
            total = np.add.reduce(np.concatenate([total[None], squares]), axis=0) if windows else squares.sum(axis=0)
            windows, series = windows + len(squares), series + len(values)
        if total is None or not windows:
            raise ValueError("Got no window to fit the scale on: all series are empty. Leave `fit_scale` out.")
        return LogSignatureSizes(np.sqrt(total / windows), windows / series)


class ChannelScale(eqx.Module):
    """Multiplies each log-signature channel by a constant of the training set.

    Log-signature channels differ in size by factors of 10,000, and their effect on a state adds up over windows. Each
    is divided by its root mean square (never by the standard deviation, which is about zero for
    a steady channel such as time) and by the root of the number of windows. Zero stays zero, so that padding
    still drives nothing, and the number of windows is that of the training set, so that an example's padding
    cannot change its prediction.

    >>> ChannelScale.unit(3)(jnp.ones((2, 3))).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    factors: Frozen

    @staticmethod
    def unit(controls: int) -> "ChannelScale":
        # JAX's ones, which `eqx.filter_eval_shape` does not make.
        return ChannelScale(Frozen(jnp.ones(controls)))

    @staticmethod
    def fit(
        log_signatures: Float[Statistics, "batch windows controls"] | LogSignatureSizes,
        windows: Int[Statistics, " batch"] | None = None,
    ) -> "ChannelScale":
        """Scales each channel by itself, for fields that use channels freely."""
        size, count = _root_mean_square(log_signatures, windows)
        return ChannelScale(_factors(1 / (size * np.sqrt(count))))

    @staticmethod
    def fit_tokens(
        log_signatures: Float[Statistics, "batch windows controls"] | LogSignatureSizes,
        windows: Int[Statistics, " batch"] | None = None,
    ) -> "ChannelScale":
        """Scales each channel to a root mean square of 1, for networks that see windows one by one."""
        return ChannelScale(_factors(1 / _root_mean_square(log_signatures, windows)[0]))

    @staticmethod
    def fit_homogeneous(
        log_signatures: Float[Statistics, "batch windows controls"] | LogSignatureSizes,
        windows: Int[Statistics, " batch"] | None = None,
        *,
        channels: int,
        depth: int,
    ) -> "ChannelScale":
        """One factor per channel of the *path*, and their products for words: the log-signature of a scaled path.

        Exact brackets need this: if channels were scaled one by one, they would not be those of any CDE.
        """
        size, count = _root_mean_square(log_signatures, windows)
        letters = 1 / (size[:channels] * np.sqrt(count))
        words = lyndon_words(channels, depth)
        return ChannelScale(_factors(np.array([np.prod(letters[list(word)]) for word in words])))

    def __call__(self, log_signatures: Float[Array, "*windows controls"]) -> Float[Array, "*windows controls"]:
        return log_signatures * self.factors.value.astype(log_signatures.dtype)


class ScaledField(AbstractField):
    """A field that scales each window's log-signature when it is used, without a scaled copy of the whole batch."""

    field: AbstractField
    scale: ChannelScale

    def __init__(self, field: AbstractField, scale: ChannelScale):
        self.field, self.scale = field, scale

    @property
    def state(self) -> int:
        return self.field.state

    @property
    def controls(self) -> int:
        return self.field.controls

    @property
    def basis(self) -> Basis:  # type: ignore
        return self.field.basis

    def contract(self, log_signature: Float[Array, " controls"]) -> Autonomous:
        return self.field.contract(self.scale(log_signature))

    def prepare(self) -> "ScaledField":
        return ScaledField(self.field.prepare(), self.scale)


def _factors(factors: np.ndarray) -> Frozen:
    beyond = factors > np.finfo(np.float32).max
    if beyond.any():
        number = int(beyond.argmax())
        raise ValueError(
            f"Got log-signatures so small in channel {number} that float32 cannot hold the factor "
            f"{factors[number]:.3g} that would make them of unit size. Scale the path first: `Scale().fit(training)`."
        )
    return Frozen(factors)


def _root_mean_square(
    log_signatures: Statistics | LogSignatureSizes, windows: Statistics | None
) -> tuple[np.ndarray, float]:
    if isinstance(log_signatures, LogSignatureSizes):
        return _checked(log_signatures.size), log_signatures.count
    values = np.asarray(log_signatures, np.float64)
    if values.ndim != 3:
        raise ValueError(
            f"Got log-signatures of shape {values.shape}; expected (batch, windows, channels), the training "
            "set. For a single series write `log_signatures[None]`."
        )
    counts = np.full(len(values), values.shape[1]) if windows is None else np.asarray(windows)
    valid = np.arange(values.shape[1]) < counts[:, None]
    if not valid.any():
        raise ValueError("Got no window to fit the scale on: all series are empty. Leave `fit_scale` out.")
    return _checked(np.sqrt((values[valid] ** 2).mean(0))), float(counts.mean())


def _checked(size: np.ndarray) -> np.ndarray:
    if not np.isfinite(size).all():
        raise ValueError(
            f"Got log-signatures that are not finite in channel {int((~np.isfinite(size)).argmax())}. Fill "
            "or drop missing values before computing them."
        )
    return np.where(size > 0, size, 1.0)


class LabelScale(eqx.Module):
    """y -> mean + spread · y, so that a model predicts in the label's units from the first step on.

    >>> LabelScale.fit(np.array([60.0, 80.0, 100.0]))(jnp.zeros(1)).tolist()
    [80.0]
    """

    mean: Frozen
    spread: Frozen

    @staticmethod
    def unit(outputs: int) -> "LabelScale":
        return LabelScale(Frozen(jnp.zeros(outputs)), Frozen(jnp.ones(outputs)))

    @staticmethod
    def of(mean: np.ndarray, spread: np.ndarray) -> "LabelScale":
        return LabelScale(Frozen(mean), Frozen(spread))

    @staticmethod
    def fit(labels: Float[Statistics, "batch *outputs"]) -> "LabelScale":
        labels = np.asarray(labels, np.float64)
        flat = labels.reshape(-1, labels.shape[-1]) if labels.ndim > 1 else labels[:, None]
        if not len(flat) or not np.isfinite(flat).all():
            raise ValueError(
                "Got labels that are not finite, or none at all; expected numbers, because their mean and spread "
                "become the model's. Leave samples without a label out."
            )
        # A constant is one exactly: rounding in its mean would leave a tiny spread.
        low, high = flat.min(0), flat.max(0)
        constant = low >= high
        mean, spread = np.where(constant, low, flat.mean(0)), np.where(constant, 1.0, flat.std(0))
        lost = ~constant & (spread < 100 * np.finfo(np.float32).eps * np.abs(mean))
        if lost.any():
            one = int(lost.argmax())
            raise ValueError(
                f"Got labels around {mean[one]:.6g} that differ by {spread[one]:.3g} only, which float32 cannot tell "
                "apart well. Subtract their mean first, and add it to what is predicted."
            )
        return LabelScale.of(mean, spread)

    def __call__(self, prediction: Float[Array, "*windows outputs"]) -> Float[Array, "*windows outputs"]:
        mean, spread = (frozen.value.astype(prediction.dtype) for frozen in (self.mean, self.spread))
        return mean + spread * prediction
