"""A driven state that encodes a past, goes on in time alone, and is decoded at any moment ahead."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .base import AbstractModel, Decoder
from .linear_rde import LinearRDE
from .readouts import FinalState


class ForecastRDE(AbstractModel):
    """Encodes what drove a past; beyond it only time drives the state on, and a small network decodes it when asked.

    The log-signature of a path that moves in time only, for a time s, is s in the channel of time and 0 elsewhere. The
    fields are linear, so that its flow is exact however long s is: one step answers each question.

    Args:
        controls: numbers that drive the state in each window, time first.
        channels: what is forecast: value and logarithm of the spread of each.
        state, width, blocks: of the `LinearRDE` that is driven.
        hidden: width of the network that decodes.
        key: random key for the initial weights.

    >>> model = ForecastRDE(9, 2, key=jax.random.key(0))
    >>> model(jnp.ones((5, 9)), jnp.array([0.5, 1.0, 7.0])).shape
    (3, 2, 2)
    """

    driven: LinearRDE
    decoder: Decoder
    channels: int = eqx.field(static=True)
    takes_key: ClassVar[bool] = False

    def __init__(
        self,
        controls: int,
        channels: int,
        *,
        state: int = 64,
        width: int = 64,
        blocks: int = 2,
        hidden: int = 128,
        key: PRNGKeyArray,
    ):
        one, two = jax.random.split(key)
        sizes = {"state": state, "width": width, "blocks": blocks, "readout": FinalState()}
        self.driven = LinearRDE(controls, 1, depth=1, **sizes, key=one)
        decoder = Decoder(FinalState(), width, 2 * channels, width=hidden, key=two)
        # At first nothing is forecast: what it is a correction of stands as it is.
        last = lambda decoder: decoder.linear.weight
        self.decoder, self.channels = eqx.tree_at(last, decoder, jnp.zeros_like(last(decoder))), channels

    def __call__(self, driving: Float[Array, "windows controls"], ahead: Float[Array, "times"], *, windows=None):
        """Values and logarithms of spreads `(times, channels, 2)`; `ahead` in the unit of the time that drives."""
        controls = driving.shape[1]
        hidden = self.driven.hidden_after(jnp.zeros(controls), jnp.asarray(driving))
        time = jnp.zeros(controls).at[0].set(1.0)

        def decoded(ahead):
            _, state = self.driven.next_state(hidden, ahead * time)
            return self.decoder.of_features(state)

        return jax.vmap(decoded)(jnp.asarray(ahead)).reshape(-1, self.channels, 2)

    def inputs(self, path, times, cuts):
        raise NotImplementedError("Forecasts are made of pasts and questions; see `NeuralRDEForecaster`.")
