"""A stack of linear RDEs with nonlinear mixing between them: exact flows, parallel over time."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Depth, Spec, State
from ..fields import AbstractField, RotationField
from ..paths.checks import check_whole
from ..paths.windows import as_scales
from ..registry import make
from ..signatures.bases import Basis, basis_channels
from ..solvers import Direct, Exponential, solve
from .base import AbstractDrivenModel, Decoder
from .conditioning import ChannelScale
from .readouts import AbstractReadout, MeanState


class LinearBlock(eqx.Module):
    """Normalise, solve a linear RDE, mix through a gate, add to the input.

    The RDE is driven by the log-signatures of the data *and by the increments of the block's own input*, the path that
    the block below has traced. Both vanish on padding, where the input itself would keep driving the state.
    """

    norm: eqx.nn.LayerNorm
    start: eqx.nn.Linear
    field: AbstractField
    mix: eqx.nn.Linear
    solver: Exponential

    def __init__(self, controls: int, width: int, state: int, field: Spec, solver: Exponential, *, key: PRNGKeyArray):
        start_key, field_key, mix_key = jax.random.split(key, 3)
        self.norm = eqx.nn.LayerNorm(width)
        self.start = eqx.nn.Linear(width, state, key=start_key)
        self.field = make("field", field)(controls=controls + width, state=state, key=field_key)
        self.mix = eqx.nn.Linear(state, 2 * width, key=mix_key)
        self.solver = solver

    def __call__(
        self, path: Float[Array, "points width"], log_signatures: Float[Array, "points-1 controls"]
    ) -> Float[Array, "points width"]:
        return self.whole(path, log_signatures)[1]

    def whole(
        self, path: Float[Array, "points width"], log_signatures: Float[Array, "points-1 controls"]
    ) -> tuple[State, Float[Array, "points width"]]:
        """What the block carries on from the end of its input, as `next` takes it; and what it makes of the path."""
        normed = jax.vmap(self.norm)(path)
        driving = jnp.concatenate([log_signatures, jnp.diff(normed, axis=0)], axis=1)
        states = solve(self.field, self.start(normed[0]), driving, solver=self.solver, every_window=True)
        return (states[-1], normed[-1]), jax.vmap(self._mixed)(path, states)

    def first(self, point: Float[Array, " width"]) -> tuple[State, Float[Array, " width"]]:
        """What the block carries on from the first point of its input, and what it makes of that point."""
        normed = self.norm(point)
        z = self.start(normed)
        return (z, normed), self._mixed(point, z)

    def next(
        self, carried: State, point: Float[Array, " width"], log_signature: Float[Array, " controls"]
    ) -> tuple[State, Float[Array, " width"]]:
        """The state and the value of the block one window later."""
        z, before = carried
        normed = self.norm(point)
        driving = jnp.concatenate([log_signature, normed - before])
        z = solve(self.field, z, driving[None], solver=self.solver, gradient=Direct())
        return (z, normed), self._mixed(point, z)

    def _mixed(self, point: Float[Array, " width"], z: Float[Array, " state"]) -> Float[Array, " width"]:
        value, gate = jnp.split(self.mix(z), 2)
        return point + value * jax.nn.sigmoid(gate)


class LinearRDE(AbstractDrivenModel):
    """A stack of linear RDE blocks: their flows are exact, and gates between them are nonlinear.

    Args:
        channels, outputs, depth, scales, static: as for `NeuralRDE`.
        width: channels of the residual stream between the blocks.
        state: channels of each linear RDE's state.
        blocks: number of blocks.
        field: `RotationField`, `DiagonalField`, `FreeLinearField.random`, or any function of `controls`, `state` and
            `key` that returns an affine field.
        readout: `MeanState()`, `FinalState()` or `EveryState()`.
        solver: `Exponential()`, in parallel over time or not.
        key: random key for the initial weights.

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
    depth: Depth = eqx.field(static=True)
    scales: tuple[float, ...] = eqx.field(static=True)
    basis: Basis = eqx.field(static=True)
    static: int = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        depth: Depth,
        scales: tuple[float, ...] = (1,),
        static: int = 0,
        width: int = 32,
        state: int = 64,
        blocks: int = 2,
        field: Spec = RotationField,
        readout: AbstractReadout = MeanState(),  # noqa: B008 (immutable objects)
        solver: Exponential = Exponential(),  # noqa: B008
        key: PRNGKeyArray,
    ):
        check_whole("blocks", blocks, high=100)
        encoder_key, decoder_key, *keys = jax.random.split(key, blocks + 2)
        self.scales = as_scales(scales)
        controls = basis_channels(channels, depth, scales=self.scales)
        self.encoder = eqx.nn.Linear(channels + static, width, key=encoder_key)
        self.blocks = tuple(LinearBlock(controls, width, state, field, solver, key=k) for k in keys)
        self.norm = eqx.nn.LayerNorm(width)
        self.decoder = Decoder(readout, width, outputs, key=decoder_key)
        self.scale = ChannelScale.unit(controls)
        self.channels, self.depth, self.basis, self.static = channels, depth, "words", static

    def states(self, x0: Float[Array, " channels"], logs: Float[Array, "windows controls"]) -> Float[Array, "..."]:
        scaled = self.scale(logs)
        # The first block's input path stands still at the encoded first point: only the data drive it.
        path = jnp.broadcast_to(self.encoder(x0), (scaled.shape[0] + 1, self.encoder.out_features))
        for block in self.blocks:
            path = block(path, scaled)
        path = jax.vmap(self.norm)(path)
        return path if self.decoder.readout.every_window else path[-1]

    def first_state(self, x0):
        stands = point = self.encoder(x0)
        carried = []
        for block in self.blocks:
            one, point = block.first(point)
            carried.append(one)
        return (stands, tuple(carried)), self.norm(point)

    def next_state(self, hidden, log_signature):
        stands, carried = hidden
        point, scaled, after = stands, self.scale(log_signature), []
        for block, one in zip(self.blocks, carried, strict=True):
            one, point = block.next(one, point, scaled)
            after.append(one)
        return (stands, tuple(after)), self.norm(point)
