"""Parts as a user would write them, at the top of a module, so that files can name them."""

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrde.paths import Series
from neuralrde.training import AbstractAugmentation, AbstractLoss
from neuralrde.transforms import Transform


class SumOfWindows(eqx.Module):
    """Any Equinox module will do: a linear map of the first point and of the sum of all log-signatures."""

    linear: eqx.nn.Linear

    def __init__(self, channels, outputs, *, depth, bias=True, key):
        from neuralrde.signatures import log_signature_channels

        size = channels + log_signature_channels(channels, depth)
        self.linear = eqx.nn.Linear(size, outputs, use_bias=bias, key=key)

    def __call__(self, x0, log_signatures, *, windows=None):
        return self.linear(jnp.concatenate([x0, log_signatures.sum(axis=0)]))


@dataclass(frozen=True)
class Power(Transform):
    exponent: float = 2.0

    def __call__(self, series: Series) -> Series:
        return replace(series, values=series.values**self.exponent)


class AbsoluteError(AbstractLoss):
    def __call__(self, prediction, target):
        return jnp.abs(prediction - target).mean()


def plain_loss(prediction, target):
    return jnp.square(prediction - target).mean()


def activation(x):
    return jax.nn.tanh(x)


@dataclass(frozen=True)
class Gain(AbstractAugmentation):
    """Another gain of the sensor, which changes a target that is a size."""

    most: float = 2.0

    @property
    def scales_targets(self) -> bool:
        return True

    def draw(self, count, rng):
        return np.exp(rng.uniform(-np.log(self.most), np.log(self.most), count))

    def apply(self, series, drawn):
        return replace(series, values=series.values * drawn[:, None, None])

    def factors(self, drawn):
        return drawn
