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

    def features(self, state: int) -> int:
        """How many numbers the decoder sees of a state of this size."""
        return state


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
        return _mean_after(states, windows)


class MeanEnergy(AbstractReadout):
    """The logarithm of the mean energy of each pair of states, as a field of rotations has them.

    An oscillator's state turns round, so that its mean says nothing; its energy says how much of its own
    frequency there is in what drives it. `floor` keeps the logarithm finite where nothing happens.

    >>> bool(jnp.allclose(MeanEnergy()(jnp.array([[0.0, 0.0], [3.0, 4.0], [0.0, 5.0]])), jnp.log(25.0)))
    True
    """

    every_window: ClassVar[bool] = True
    floor: float = eqx.field(static=True, default=1e-6)

    def __call__(self, states, windows=None):
        first, second = jnp.split(states, 2, axis=-1)
        return jnp.log(_mean_after(first**2 + second**2, windows) + self.floor)

    def features(self, state):
        return state // 2


class EveryState(AbstractReadout):
    """All states, z0 first: a prediction after every window, each from the past only."""

    every_window: ClassVar[bool] = True

    def __call__(self, states, windows=None):
        return states


def _mean_after(states: Float[Array, "windows+1 state"], windows: Count | None) -> Float[Array, " state"]:
    after = states[1:]
    count = after.shape[0] if windows is None else windows
    # A sample without a single window still has an answer: its initial state.
    valid = (jnp.arange(after.shape[0]) < count).astype(states.dtype)
    mean = valid @ after / jnp.maximum(count, 1)
    return jnp.where(jnp.asarray(count) > 0, mean, states[0])
