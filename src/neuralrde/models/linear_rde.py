"""A stack of linear RDEs with nonlinear mixing between them: exact flows, parallel over time."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..fields import AbstractField, RotationField
from ..signatures.bases import Basis
from ..signatures.lyndon import log_signature_channels
from ..solve import Exponential, solve
from .conditioning import ChannelScale
from .driven import AbstractDrivenModel, Decoder
from .readouts import AbstractReadout, MeanState


class LinearBlock(eqx.Module):
    """Normalise, solve a linear RDE, mix through a gate, add to the input.

    The RDE is driven by the log-signatures of the data *and by the increments of the block's own input*, the
    path that the block below has traced. Both vanish on padding, so padded windows leave every block's state
    where it was; an input as it stands would keep driving. And the block asks for no channel that says how
    much time has passed.
    """

    norm: eqx.nn.LayerNorm
    start: eqx.nn.Linear
    field: AbstractField
    mix: eqx.nn.Linear
    solver: Exponential

    def __init__(
        self,
        controls: int,
        width: int,
        state: int,
        build: Callable,
        solver: Exponential,
        *,
        key: PRNGKeyArray,
    ):
        start_key, field_key, mix_key = jax.random.split(key, 3)
        self.norm = eqx.nn.LayerNorm(width)
        self.start = eqx.nn.Linear(width, state, key=start_key)
        self.field = build(controls + width, state, key=field_key)
        self.mix = eqx.nn.Linear(state, 2 * width, key=mix_key)
        self.solver = solver

    def __call__(
        self, path: Float[Array, "windows+1 width"], log_signatures: Float[Array, "windows controls"]
    ) -> Float[Array, "windows+1 width"]:
        normed = jax.vmap(self.norm)(path)
        driving = jnp.concatenate([log_signatures, jnp.diff(normed, axis=0)], axis=1)
        states = solve(self.field, self.start(normed[0]), driving, solver=self.solver, every_window=True)
        value, gate = jnp.split(jax.vmap(self.mix)(states), 2, axis=1)
        return path + value * jax.nn.sigmoid(gate)


class LinearRDE(AbstractDrivenModel):
    """Linear RDE blocks in a stack: exact flows, with gates between them for nonlinearity.

    Args:
        channels, outputs, depth: as for `NeuralRDE`.
        width: of the residual stream between the blocks.
        state: of each linear RDE.
        blocks: how many.
        field: `RotationField`, `DiagonalField`, `FreeLinearField.random`, or anything called with
            (controls, state, key=key) that makes an affine field.
        readout: `MeanState()`, `FinalState()` or `EveryState()`.
        solver: `Exponential()`, in parallel over time or not.
        key: for the initial weights.

    >>> import jax, jax.numpy as jnp
    >>> model = LinearRDE(channels=3, outputs=2, depth=2, key=jax.random.key(0))
    >>> model(jnp.zeros(3), jnp.ones((20, 6))).shape
    (2,)
    """

    encoder: eqx.nn.Linear
    blocks: tuple[LinearBlock, ...]
    norm: eqx.nn.LayerNorm
    decoder: Decoder
    scale: ChannelScale
    channels: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    basis: Basis = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        depth: int,
        width: int = 32,
        state: int = 64,
        blocks: int = 2,
        field: Callable[..., AbstractField] = RotationField,
        readout: AbstractReadout = MeanState(),  # noqa: B008 (immutable objects)
        solver: Exponential = Exponential(),  # noqa: B008
        key: PRNGKeyArray,
    ):
        encoder_key, decoder_key, *keys = jax.random.split(key, blocks + 2)
        controls = log_signature_channels(channels, depth)
        self.encoder = eqx.nn.Linear(channels, width, key=encoder_key)
        self.blocks = tuple(LinearBlock(controls, width, state, field, solver, key=k) for k in keys)
        self.norm = eqx.nn.LayerNorm(width)
        self.decoder = Decoder(readout, width, outputs, key=decoder_key)
        self.scale = ChannelScale.unit(controls)
        self.channels, self.depth, self.basis = channels, depth, "words"

    def states(self, x0: Float[Array, " channels"], logs: Float[Array, "windows controls"]) -> Float[Array, "..."]:
        scaled = self.scale(logs)
        # The first block's input path stands still at the encoded first point: only the data drive it.
        path = jnp.broadcast_to(self.encoder(x0), (scaled.shape[0] + 1, self.encoder.out_features))
        for block in self.blocks:
            path = block(path, scaled)
        path = jax.vmap(self.norm)(path)
        return path if self.decoder.readout.every_window else path[-1]
