"""A driven state that encodes a channel's past, goes on in time alone, and is decoded at any moment ahead."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..fields import RotationField
from ..paths.checks import check_whole
from ..solvers import Exponential
from .base import AbstractModel, Decoder
from .conditioning import ChannelScale
from .linear_rde import LinearBlock
from .readouts import FinalState


class ForecastRDE(AbstractModel):
    """Encodes what drove a past; beyond it only time drives the state on, and a small network decodes it when asked.

    The log-signature of a path that moves in time only, for a time s, is s in the channel of time and 0 elsewhere. The
    fields are linear, so that its flow is exact however long s is: one step answers each question.

    Args:
        about: numbers that are known of the channel and its past as a whole, from which the state starts.
        controls: numbers that drive the state in each window, time first.
        state, width, blocks: of a stack of linear RDEs, as in `LinearRDE`.
        hidden: width of the network that decodes.
        key: random key for the initial weights.

    >>> model = ForecastRDE(6, 4, key=jax.random.key(0))
    >>> model(jnp.ones(6), jnp.ones((5, 4)), jnp.array([0.5, 1.0, 7.0]), jnp.zeros(3)).shape
    (3, 2)
    """

    encoder: eqx.nn.Linear
    blocks: tuple[LinearBlock, ...]
    norm: eqx.nn.LayerNorm
    decoder: Decoder
    scale: ChannelScale

    def __init__(
        self,
        about: int,
        controls: int,
        *,
        state: int = 32,
        width: int = 32,
        blocks: int = 2,
        hidden: int = 64,
        key: PRNGKeyArray,
    ):
        check_whole("blocks", blocks, high=100)
        one, two, *keys = jax.random.split(key, blocks + 2)
        self.encoder = eqx.nn.Linear(about, width, key=one)
        self.blocks = tuple(LinearBlock(controls, width, state, RotationField, Exponential(), key=k) for k in keys)
        self.norm = eqx.nn.LayerNorm(width)
        decoder = Decoder(FinalState(), width + 2, 2, width=hidden, key=two)
        # At first nothing is forecast: what it is a correction of stands as it is.
        last = lambda decoder: decoder.linear.weight
        self.decoder = eqx.tree_at(last, decoder, jnp.zeros_like(last(decoder)))
        self.scale = ChannelScale.unit(controls)

    def __call__(
        self,
        about: Float[Array, " about"],
        driving: Float[Array, "windows controls"],
        ahead: Float[Array, " times"],
        before: Float[Array, " times"],
        *,
        windows: None = None,
    ) -> Float[Array, "times 2"]:
        """Value and logarithm of its spread at each time ahead, in the unit of the time that drives.

        Args:
            before: the forecast that is to be corrected.
        """
        scaled, carried = self.scale(driving), []
        start = self.encoder(about)
        path = jnp.broadcast_to(start, (len(scaled) + 1, len(start)))
        for block in self.blocks:
            one, path = block.whole(path, scaled)
            carried.append(one)
        time = self.scale(jnp.zeros(scaled.shape[1]).at[0].set(1.0))

        def decoded(ahead, before):
            point = start
            for block, one in zip(self.blocks, carried, strict=True):
                _, point = block.next(one, point, ahead * time)
            return self.decoder.of_features(jnp.concatenate([self.norm(point), jnp.stack([ahead, before])]))

        return jax.vmap(decoded)(ahead, before)

    def inputs(self, path, times, cuts):
        raise NotImplementedError("Forecasts are made of pasts and questions: write `NeuralRDEForecaster`.")
