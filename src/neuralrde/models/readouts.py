"""Which states a prediction is made from."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

Count = int | Array


class AbstractReadout(eqx.Module):
    every_window: eqx.AbstractClassVar[bool]
    """Whether the states at all windows' ends are needed, or the last one alone."""

    @abstractmethod
    def __call__(self, states: Float[Array, "*windows state"], windows: Count | None) -> Float[Array, "*out state"]:
        """What the decoder sees. `windows` is the example's own number, without padding; None for all."""


class FinalState(AbstractReadout):
    """The state at the end, as in the paper. Padding leaves it where it was."""

    every_window: ClassVar[bool] = False

    def __call__(self, states, windows=None):
        return states


class MeanState(AbstractReadout):
    """The mean of the states after each window, padding left out: steadier than the last state alone.

    >>> MeanState()(jnp.array([[9.0], [1.0], [3.0], [3.0]]), 2).tolist()  # the initial state does not count
    [2.0]
    """

    every_window: ClassVar[bool] = True

    def __call__(self, states, windows=None):
        after = states[1:]
        count = after.shape[0] if windows is None else windows
        # A sample without a single window still has an answer: its initial state.
        valid = (jnp.arange(after.shape[0]) < count).astype(states.dtype)
        mean = valid @ after / jnp.maximum(count, 1)
        return jnp.where(jnp.asarray(count) > 0, mean, states[0])


class EveryState(AbstractReadout):
    """All states, z0 first: a prediction after every window, each from the past only."""

    every_window: ClassVar[bool] = True

    def __call__(self, states, windows=None):
        return states
