"""Statistics of the training set, kept in the model: sizes of channels, mean and spread of the labels."""

from collections.abc import Iterable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._types import AnyArray
from ..fields import AbstractField, Autonomous
from ..frozen import Frozen
from ..signatures.bases import Basis


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
    def of(parts: Iterable[tuple[AnyArray, AnyArray]]) -> "LogSignatureSizes":
        """The sizes of log-signatures that come in parts, padded, with the number of windows of each series."""
        total, windows, series = None, 0, 0
        for values, counts in parts:
            values = np.asarray(values, np.float64)
            squares = values[np.arange(values.shape[1]) < np.asarray(counts)[:, None]] ** 2
            if total is None:
                total = np.zeros(values.shape[2])
            # Window after window, as a sum over all of them at once is made: to the same bit.
            total = np.add.reduce(np.concatenate([total[None], squares]), axis=0) if windows else squares.sum(axis=0)
            windows, series = windows + len(squares), series + len(values)
        if total is None or not windows:
            raise ValueError("Got no window to fit the scale on: all series are empty. Leave `fit_scale` out.")
        return LogSignatureSizes(np.sqrt(total / windows), windows / series)

    @staticmethod
    def fit(
        log_signatures: "Float[AnyArray, 'batch windows controls'] | LogSignatureSizes",
        windows: Int[AnyArray, " batch"] | None = None,
    ) -> "LogSignatureSizes":
        """The sizes of the training set; a channel without a size has 1."""
        if not isinstance(log_signatures, LogSignatureSizes):
            if log_signatures.ndim != 3:
                raise ValueError(
                    f"Got log-signatures of shape {log_signatures.shape}; expected (batch, windows, channels), the "
                    "training set. For a single series write `log_signatures[None]`."
                )
            counts = np.full(log_signatures.shape[:1], log_signatures.shape[1]) if windows is None else windows
            log_signatures = LogSignatureSizes.of([(log_signatures, counts)])
        size, count = log_signatures
        if not np.isfinite(size).all():
            raise ValueError(
                f"Got log-signatures that are not finite in channel {int((~np.isfinite(size)).argmax())}. Fill "
                "or drop missing values before computing them."
            )
        return LogSignatureSizes(np.where(size > 0, size, 1.0), count)


class ChannelScale(eqx.Module):
    """Multiplies each log-signature channel by a constant of the training set.

    Channels differ in size by factors of 10,000, and their effect on a state adds up over windows. Each is divided by
    its root mean square (the standard deviation of a steady channel such as time is about zero) and by the root of the
    number of windows in the training set. Zero stays zero, so that padding still drives nothing.

    >>> ChannelScale.unit(3)(jnp.ones((2, 3))).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    factors: Frozen

    @staticmethod
    def unit(controls: int) -> "ChannelScale":
        # JAX's ones, which `eqx.filter_eval_shape` does not make.
        return ChannelScale(Frozen(jnp.ones(controls)))

    @staticmethod
    def of(factors: np.ndarray) -> "ChannelScale":
        beyond = factors > np.finfo(np.float32).max
        if beyond.any():
            number = int(beyond.argmax())
            raise ValueError(
                f"Got log-signatures so small in channel {number} that float32 cannot hold the factor "
                f"{factors[number]:.3g} that would make them of unit size. Scale the path first: "
                "`Scale().fit(training)`."
            )
        return ChannelScale(Frozen(factors))

    def __call__(self, log_signatures: Float[Array, "*windows controls"]) -> Float[Array, "*windows controls"]:
        return log_signatures * self.factors.value.astype(log_signatures.dtype)


class ScaledField(AbstractField):
    """A field that scales each window's log-signature when it is used, without a scaled copy of the whole batch."""

    field: AbstractField
    scale: ChannelScale
    state: int = eqx.field(static=True)
    controls: int = eqx.field(static=True)
    basis: Basis = eqx.field(static=True)  # type: ignore

    def __init__(self, field: AbstractField, scale: ChannelScale):
        self.field, self.scale = field, scale
        self.state, self.controls, self.basis = field.state, field.controls, field.basis

    def contract(self, log_signature: Float[Array, " controls"]) -> Autonomous:
        return self.field.contract(self.scale(log_signature))

    def prepare(self) -> "ScaledField":
        return ScaledField(self.field.prepare(), self.scale)


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
    def fit(labels: Float[AnyArray, "batch *outputs"]) -> "LabelScale":
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
