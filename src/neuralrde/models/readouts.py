"""Readouts choose the states from which a prediction is made, of a whole series or of one that is still arriving."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import State
from ..registry import Registry

Count = int | Array


class Sum(eqx.Module):
    """A running sum that remembers what rounding took away (Kahan), so that small terms are not lost.

    >>> total = Sum.of(jnp.float32(1e8))
    >>> for _ in range(100):
    ...     total = total.plus(jnp.float32(1.0))
    >>> float(total.value)  # each single one would be lost
    100000096.0
    """

    value: Float[Array, "..."]
    lost: Float[Array, "..."]

    @staticmethod
    def of(value: Float[Array, "..."]) -> "Sum":
        return Sum(value, jnp.zeros_like(value))

    def plus(self, term: Float[Array, "..."]) -> "Sum":
        corrected = term - self.lost
        value = self.value + corrected
        return Sum(value, (value - self.value) - corrected)


class Seen(eqx.Module):
    """What a readout keeps of the states so far, and how many came after the first."""

    count: Int[Array, ""]
    kept: State

    def with_term(self, total: Sum, term: Array) -> Sum:
        """The sum and one more term; the first replaces what is there, which is the initial state's."""
        longer, counts = total.plus(term), self.count > 0
        return Sum(jnp.where(counts, longer.value, term), jnp.where(counts, longer.lost, 0.0))


class AbstractReadout(eqx.Module):
    """What the decoder sees of a series' states: `__call__` of all at once, the other methods of one after the other.

    By default a readout keeps the last state alone.
    """

    every_window: eqx.AbstractClassVar[bool]
    """Whether the states at all windows' ends are needed, or the last one alone."""

    @abstractmethod
    def __call__(self, states: Float[Array, "*windows state"], windows: Count | None) -> Float[Array, "*out state"]:
        """What the decoder sees. `windows` is the example's own number, without padding; None for all."""

    def features(self, state: int) -> int:
        """How many numbers the decoder sees of a state of this size."""
        return state

    def start(self, state: Float[Array, " state"]) -> Seen:
        """What is kept of the initial state."""
        return Seen(jnp.zeros((), jnp.int32), self._first(state))

    def advance(self, seen: Seen, state: Float[Array, " state"]) -> Seen:
        """What is kept when a window has led to another state, in memory that does not grow."""
        return Seen(seen.count + 1, self._next(seen, state))

    def output(self, seen: Seen) -> Float[Array, " features"]:
        """What the decoder sees of the states so far; the last, where it would see every one."""
        return seen.kept

    def _first(self, state: Float[Array, " state"]) -> State:
        return state

    def _next(self, seen: Seen, state: Float[Array, " state"]) -> State:
        return state


class FinalState(AbstractReadout):
    """The state at the end, as in the paper. Padding leaves it where it was."""

    every_window: ClassVar[bool] = False

    def __call__(self, states, windows=None):
        return states


class EveryState(AbstractReadout):
    """All states, z0 first, for a prediction after every window, each from the past only."""

    every_window: ClassVar[bool] = True

    def __call__(self, states, windows=None):
        return states


class MeanState(AbstractReadout):
    """The mean of the states after all windows, without padding. It is steadier than the last state alone.

    >>> MeanState()(jnp.array([[9.0], [1.0], [3.0], [3.0]]), 2).tolist()  # the initial state does not count
    [2.0]
    """

    every_window: ClassVar[bool] = True

    def __call__(self, states, windows=None):
        after = states[1:]
        count = after.shape[0] if windows is None else windows
        valid = (jnp.arange(after.shape[0]) < count).astype(states.dtype)
        mean = valid @ after / jnp.maximum(count, 1)
        # A sample without a single window is read out at its initial state.
        return jnp.where(jnp.asarray(count) > 0, mean, states[0])

    def output(self, seen):
        return seen.kept.value / jnp.maximum(seen.count, 1)

    def _first(self, state):
        return Sum.of(state)

    def _next(self, seen, state):
        return seen.with_term(seen.kept, state)


class MeanEnergy(MeanState):
    """The logarithm of the mean energy of each pair of states, for fields of rotations.

    An oscillator's mean says nothing; its energy says how much of its own frequency there is in the series. `floor`
    keeps the logarithm finite where nothing happens.

    >>> bool(jnp.allclose(MeanEnergy()(jnp.array([[0.0, 0.0], [3.0, 4.0], [0.0, 5.0]])), jnp.log(25.0)))
    True
    """

    floor: float = eqx.field(static=True, default=1e-6)

    def __call__(self, states, windows=None):
        return jnp.log(super().__call__(_energy(states), windows) + self.floor)

    def features(self, state):
        return state // 2

    def output(self, seen):
        return jnp.log(super().output(seen) + self.floor)

    def _first(self, state):
        return super()._first(_energy(state))

    def _next(self, seen, state):
        return super()._next(seen, _energy(state))


class Pools(AbstractReadout):
    """Mean, maximum, share above zero, and last value of each state, without padding.

    A mean forgets what happened once, a maximum how often it happened, which the share of windows above zero knows (as
    in Rocket). For a gradient, each window counts sigmoid(4 z) instead of 0 or 1.

    >>> [round(float(x), 2) for x in Pools()(jnp.array([[9.0], [1.0], [-3.0], [3.0]]), 2)]  # z0 does not count
    [-1.0, 1.0, 0.49, -3.0]
    """

    every_window: ClassVar[bool] = True

    def __call__(self, states, windows=None):
        if states.shape[0] == 1:  # not a single window
            return pools(states, 1)
        count = states.shape[0] - 1 if windows is None else windows
        return jnp.where(jnp.asarray(count) > 0, pools(states[1:], count), pools(states[:1], 1))

    def features(self, state):
        return 4 * state

    def output(self, seen):
        total, highest, above, last = seen.kept
        count = jnp.maximum(seen.count, 1)
        return jnp.concatenate([total.value / count, highest, above.value / count, last])

    def _first(self, state):
        return Sum.of(state), state, Sum.of(share(state)), state

    def _next(self, seen, state):
        total, highest, above, _ = seen.kept
        highest = jnp.where(seen.count > 0, jnp.maximum(highest, state), state)
        return seen.with_term(total, state), highest, seen.with_term(above, share(state)), state


def _energy(states: Float[Array, "*windows state"]) -> Float[Array, "*windows pairs"]:
    first, second = jnp.split(states, 2, axis=-1)
    return first**2 + second**2


def pools(states: Float[Array, "tokens state"], count: Count) -> Float[Array, " features"]:
    """Mean, maximum, share above zero and last value over the first `count` states."""
    valid = jnp.arange(states.shape[0]) < count
    weights = valid.astype(states.dtype) / jnp.maximum(count, 1)
    highest = jnp.where(valid[:, None], states, -jnp.inf).max(0)
    last = jnp.take(states, jnp.maximum(count - 1, 0), axis=0)
    return jnp.concatenate([weights @ states, jnp.where(count > 0, highest, 0.0), weights @ share(states), last])


def running_pools(states: Float[Array, "tokens state"]) -> Float[Array, "tokens features"]:
    """After every state, the `pools` of those so far."""
    count = jnp.arange(1, states.shape[0] + 1, dtype=states.dtype)[:, None]
    mean, above = (jnp.cumsum(one, axis=0) / count for one in (states, share(states)))
    return jnp.concatenate([mean, jax.lax.cummax(states, axis=0), above, states], axis=1)


def share(states: Float[Array, "*tokens state"]) -> Float[Array, "*tokens state"]:
    """Whether a state is above zero, as a number between 0 and 1 that has a gradient."""
    return jax.nn.sigmoid(4.0 * states)


READOUTS = Registry(
    "readout",
    AbstractReadout,
    {"mean": MeanState, "final": FinalState, "every": EveryState, "mean-energy": MeanEnergy, "pools": Pools},
)


def linear(layer: eqx.nn.Linear, tokens: Float[Array, "*tokens inputs"]) -> Float[Array, "*tokens outputs"]:
    """One product for all tokens of all examples."""
    product = tokens @ layer.weight.T
    return product if layer.bias is None else product + layer.bias
