"""Log-signatures of several scales as tokens, a stack of driven blocks over them, and pools of what they do."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._types import Depth, Spec, State
from ..fields import AbstractControlledField, SelectiveField
from ..frozen import Frozen
from ..paths import Windows
from ..paths.checks import check_whole
from ..paths.windows import as_scales
from ..registry import make
from ..signatures.bases import Basis, basis_channels
from ..solvers.exponential import states_of
from .base import AbstractDrivenModel, Decoder, Recommended
from .conditioning import ChannelScale
from .readouts import AbstractReadout, Count, EveryState, FinalState, Pools, Seen, Sum, linear, running_pools, share

# Tokens of a size beyond this, in root mean squares of the training set, are outliers and count no more than this.
_LARGEST = 6.0
# Paths with more channels than this, besides time, are projected to this many before the log-signature.
_MOST_CHANNELS = 6
# A token sees what happened in the last 1, 4, 16 and 64 windows.
_SCALES = (1, 4, 16, 64)
# Tokens of the stream between the blocks, about.
_STREAM = 32
# Numbers in all tokens of a series, about: what a training step costs is proportional to them.
_NUMBERS = 16384


def _recommended_windows(channels: int) -> Windows:
    """Short windows and several scales.

    >>> _recommended_windows(2)
    Windows(step=None, depth=4, count=256, scales=(1, 4, 16, 64))
    """
    depth = {1: 4, 2: 4, 3: 3}.get(channels, 2)
    numbers = basis_channels(MultiScaleRDE.channels_seen(channels), depth, scales=_SCALES) + 2 * channels
    return Windows(depth=depth, scales=_SCALES, count=int(np.clip(_NUMBERS // numbers, 64, 256)))


def _recommended_options(windows: int) -> dict[str, int]:
    """How many windows share a token of the stream."""
    return {"stride": max(1, round(windows / _STREAM))}


class Block(eqx.Module):
    """Normalise, drive a linear RDE with exact flows, mix through a gate."""

    norm: eqx.nn.LayerNorm
    field: AbstractControlledField
    mix: eqx.nn.Linear

    def __init__(self, width: int, state: int, field: Spec, *, key: PRNGKeyArray):
        field_key, mix_key = jax.random.split(key)
        self.norm = eqx.nn.LayerNorm(width)
        self.field = make("field", field)(controls=width, state=state, key=field_key)
        self.mix = eqx.nn.Linear(state + width, 2 * width, key=mix_key)

    def __call__(
        self, z: Float[Array, " state"], tokens: Float[Array, "tokens width"]
    ) -> tuple[Float[Array, "tokens width"], Float[Array, " state"]]:
        """What the block adds to the tokens, and its state after them."""
        normed = jax.vmap(self.norm)(tokens)
        states = states_of(self.field, z, normed)
        value, gate = jnp.split(linear(self.mix, jnp.concatenate([states, normed], axis=1)), 2, axis=1)
        return value * jax.nn.sigmoid(gate), states[-1]


class Running(eqx.Module):
    """The state of a `MultiScaleRDE` between two windows, in memory that does not grow.

    A prediction looks at the running group of tokens as if it were full, and does not keep that.
    """

    values: Sum  # the path's, of all channels
    above: Sum  # over all tokens: units above their thresholds, and their outputs
    active: Sum
    in_group: Int[Array, ""]  # tokens in the running group, the sum of their outputs, and the highest
    group: Sum
    highest: Float[Array, " units"]
    blocks: Float[Array, "blocks state"]  # after the last full group, as what the readout keeps
    seen: Seen
    count: Int[Array, ""]


class MultiScaleRDE(AbstractDrivenModel):
    """Tokens of several scales, driven blocks, and pools: what estimators take if nothing else is asked for.

        path -> log-signatures of the last 1, 4, 16, ... windows, and the path's value    one token per window
             -> linear -> units ----> share above a threshold (Rocket, but learned) ----+
                  |            `----> mean of gelu -------------------------------------+-> linear -> prediction
                  `-> gelu -> mean and maximum of `stride` tokens -> linear -> stream   |
                                stream + block(stream), a few times                     |
                                  block = norm -> linear RDE, exact flows -> gate       |
                                norm -> mean, maximum, share above zero, last value ----+

    Where the path has many channels, log-signatures are those of a few random mixtures of them, and tokens hold
    the increments and values of all.

    Args:
        channels, outputs, depth, scales, static: as for `NeuralRDE`; 1 must be among the scales.
        units: of the first layer.
        width: channels of the stream between blocks.
        state: channels of each block's state.
        blocks: number of blocks.
        stride: over how many windows the first layer's outputs are pooled to one token of the stream.
        dropout: the share of channels of the stream, and of features, that a training step leaves out.
        field: `SelectiveField`, `RotationField`, or any function of `controls`, `state` and `key` that returns an
            affine field.
        readout: of the blocks' output, `Pools()`, `MeanState()` or `FinalState()`. With `EveryState()` predictions come
            after every window, from the past only, and nothing is pooled by `stride`.
        key: random key for the initial weights.

    >>> import jax, jax.numpy as jnp
    >>> model = MultiScaleRDE(channels=3, outputs=2, depth=2, scales=(1, 4), key=jax.random.key(0))
    >>> model(jnp.zeros(3), jnp.ones((20, 12))).shape
    (2,)
    """

    scale: ChannelScale
    projection: Frozen | None
    stem: eqx.nn.Linear
    thresholds: Float[Array, " units"]
    mix: eqx.nn.Linear
    blocks: Block | None
    norm: eqx.nn.LayerNorm
    readout: AbstractReadout
    decoder: Decoder
    channels: int = eqx.field(static=True)
    depth: Depth = eqx.field(static=True)
    scales: tuple[float, ...] = eqx.field(static=True)
    stride: int = eqx.field(static=True)
    dropout: float = eqx.field(static=True)
    static: int = eqx.field(static=True)
    basis: Basis = eqx.field(static=True, default="words")
    takes_key: ClassVar[bool] = True
    recommended: ClassVar[Recommended] = Recommended(
        members=4, steps=250, epochs=4, windows=_recommended_windows, options=_recommended_options
    )

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        depth: Depth,
        scales: tuple[float, ...] = (1,),
        static: int = 0,
        units: int = 128,
        width: int = 48,
        state: int = 48,
        blocks: int = 2,
        stride: int = 1,
        dropout: float = 0.3,
        field: Spec = SelectiveField,
        readout: AbstractReadout = Pools(),  # noqa: B008 (an immutable object)
        key: PRNGKeyArray,
    ):
        for name, value, low in (
            ("units", units, 1),
            ("width", width, 1),
            ("blocks", blocks, 0),
            ("stride", stride, 1),
        ):
            check_whole(name, value, low=low, high=2**20)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"Got dropout={dropout!r}; expected a share from 0 to below 1. Write dropout=0.3.")
        if 1 not in (scales := as_scales(scales)):
            raise ValueError(f"Got scales={scales}; expected 1 among them, because it tells where the path goes.")
        stem_key, threshold_key, mix_key, decoder_key, *keys = jax.random.split(key, blocks + 4)
        self.channels, self.depth, self.scales, self.basis = channels, depth, scales, "words"
        self.stride, self.dropout, self.projection, self.readout = stride, float(dropout), None, readout
        self.static = static
        if channels > 1 + _MOST_CHANNELS:
            # The same for all members of an ensemble, which see the same log-signatures.
            noise = jax.random.normal(jax.random.key(channels), (channels - 1, _MOST_CHANNELS))
            self.projection = Frozen(jnp.linalg.qr(noise)[0])
        self.scale = ChannelScale.unit(self.controls)
        self.stem = eqx.nn.Linear(self.controls + channels + static, units, key=stem_key)
        self.thresholds = 0.5 * jax.random.normal(threshold_key, (units,))
        self.mix = eqx.nn.Linear(2 * units, width, key=mix_key)
        # One block with arrays for all of them: XLA then compiles one.
        stacked = lambda key: Block(width, state, field, key=key)
        self.blocks = eqx.filter_vmap(stacked)(jnp.stack(keys)) if blocks else None
        self.norm = eqx.nn.LayerNorm(width)
        every = isinstance(readout, EveryState)
        features = (4 * width if every else readout.features(width)) + 2 * units
        self.decoder = Decoder(EveryState() if every else FinalState(), features, outputs, key=decoder_key)

    @staticmethod
    def channels_seen(channels: int) -> int:
        return min(channels, 1 + _MOST_CHANNELS)

    @property
    def controls(self) -> int:
        logs = basis_channels(self.channels_seen(self.channels), self.depth, scales=self.scales)
        return self.channels * self.takes_increments + logs

    @property
    def takes_increments(self):
        return self.projection is not None

    def mixed(self, path):
        if self.projection is None:
            return path
        return np.concatenate([path[..., :1], path[..., 1:] @ np.asarray(self.projection.array, path.dtype)], axis=-1)

    def inputs(self, path, times, cuts, *, since=None):
        x0, logs = path[:, 0], super().inputs(self.mixed(path), times, cuts, since=since)[1]
        if self.takes_increments:
            ends = np.broadcast_to(cuts, (len(path), np.shape(cuts)[-1]))
            logs = np.concatenate([np.diff(path[np.arange(len(path))[:, None], ends], axis=1), logs], axis=-1)
        return x0, logs

    def scale_for(self, sizes):
        return ChannelScale.of(1 / sizes.size)  # a token is seen by itself

    def __call__(
        self,
        x0: Float[np.ndarray | Array, " channels"],
        log_signatures: Float[np.ndarray | Array, "windows controls"],
        *,
        windows: Count | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "*out outputs"]:
        """The prediction for one example, or after every window; with a key as in training, with dropout."""
        self.check_shapes(x0, log_signatures)
        features = self._features(jnp.asarray(x0), 1.0 * jnp.asarray(log_signatures), windows, key)
        return self.decoder(features, windows)

    def states(self, x0, logs):
        """The features that the prediction is linear in."""
        return self._features(x0, logs, None, None)

    def _features(self, x0, logs, windows, key):
        """All windows at once: a training step takes a twelfth of what it takes one window after the other."""
        drop_stream, drop_added, drop_features = self._dropout(key)
        count = 1 + (logs.shape[0] if windows is None else windows)  # the first point is a token, too
        scaled = jnp.concatenate([jnp.zeros((1, logs.shape[1])), self.scale(logs)])
        active, above = self._units(scaled, self._values(x0, logs))
        groups, number = _grouped(active, count, self._group_size)
        stream = linear(self.mix, groups) * drop_stream
        stream, _ = self._through_blocks(stream, self._no_states(active.dtype), drop_added)
        stream = jax.vmap(self.norm)(stream)
        if isinstance(self.readout, EveryState):
            tokens = jnp.arange(1.0, 1.0 + active.shape[0])[:, None]
            so_far = (jnp.cumsum(one, axis=0) / tokens for one in (above, active))
            return jnp.concatenate([running_pools(stream), *so_far], axis=1) * drop_features
        weights = (jnp.arange(active.shape[0]) < count) / count
        if self.readout.every_window:
            read = self.readout(jnp.concatenate([jnp.zeros_like(stream[:1]), stream]), number)  # after an initial state
        else:
            read = jnp.take(stream, number - 1, axis=0)
        return jnp.concatenate([read, weights @ above, weights @ active]) * drop_features

    # The same, one window after the other.

    def start(self, x0):
        x0 = jnp.asarray(x0)
        units = jnp.zeros(self.thresholds.shape[0], x0.dtype)
        none, number = Sum.of(units), jnp.zeros((), jnp.int32)
        seen = self._running_readout.start(jnp.zeros(self.norm.shape, x0.dtype))
        empty = Running(Sum.of(x0), none, none, number, none, units, self._no_states(x0.dtype), seen, number)
        return self._with_token(empty, jnp.zeros_like(self.scale.factors.value, x0.dtype))

    def advance(self, state, log_signature):
        log_signature = jnp.asarray(log_signature)
        values = state.values.plus(self._increments(log_signature))
        return self._with_token(eqx.tree_at(lambda s: s.values, state, values), self.scale(log_signature))

    def output(self, state):
        seen = _where(state.in_group > 0, self._after_group(state)[1], state.seen)
        parts = [self._running_readout.output(seen), state.above.value / state.count, state.active.value / state.count]
        return self.decoder.of_features(jnp.concatenate(parts))

    def _with_token(self, state: Running, scaled: Float[Array, " controls"]) -> Running:
        active, above = self._units(scaled, state.values.value)
        highest = jnp.where(state.in_group == 0, active, jnp.maximum(state.highest, active))
        sums = (state.above.plus(above), state.active.plus(active), state.group.plus(active))
        counts = (state.in_group + 1, state.count + 1)
        new = lambda s: (s.above, s.active, s.group, s.in_group, s.count, s.highest)
        state = eqx.tree_at(new, state, (*sums, *counts, highest))
        group = lambda s: (s.blocks, s.seen, s.in_group, s.group, s.highest)
        nothing = jnp.zeros_like(active)
        emptied = (*self._after_group(state), jnp.zeros_like(state.in_group), Sum.of(nothing), nothing)
        return eqx.tree_at(group, state, _where(state.in_group == self._group_size, emptied, group(state)))

    def _after_group(self, state: Running) -> tuple[Float[Array, "blocks state"], Seen]:
        """The blocks' states, and what the readout keeps, when the running group drives the stream."""
        mean = state.group.value / jnp.maximum(state.in_group, 1)
        token = self.mix(jnp.concatenate([mean, state.highest]))
        stream, blocks = self._through_blocks(token[None], state.blocks)
        return blocks, self._running_readout.advance(state.seen, self.norm(stream[0]))

    # What both have in common.

    @property
    def _running_readout(self) -> AbstractReadout:
        """After every window the prediction is made of the pools so far: of the last one, too."""
        return Pools() if isinstance(self.readout, EveryState) else self.readout

    @property
    def _group_size(self) -> int:
        return 1 if isinstance(self.readout, EveryState) else self.stride

    def _no_states(self, dtype: Any) -> Float[Array, "blocks state"]:
        shape = (0, 0) if self.blocks is None else (self.blocks.norm.weight.shape[0], self.blocks.field.state)  # type: ignore
        return jnp.zeros(shape, dtype)

    def _increments(self, logs: Float[Array, "*windows controls"]) -> Float[Array, "*windows channels"]:
        """The increments of what x0 holds over each window, which are among what drives the model."""
        skipped, before = 0, self.scales.index(1)
        if before and not self.takes_increments:
            depth = self.depth[:before] if isinstance(self.depth, tuple) else self.depth
            skipped = basis_channels(self.channels, depth, scales=self.scales[:before])
        found = logs[..., skipped : skipped + self.channels]
        # What is known of a series as a whole stays as it is.
        return jnp.concatenate([found, jnp.zeros((*found.shape[:-1], self.static))], axis=-1) if self.static else found

    def _values(
        self, x0: Float[Array, " channels"], logs: Float[Array, "windows controls"]
    ) -> Float[Array, "windows+1 channels"]:
        """The path's values at the ends of windows: where it starts, and the sums of its increments."""
        zero = jnp.zeros((1, self.channels + self.static))
        return x0 + jnp.concatenate([zero, jnp.cumsum(self._increments(logs), axis=0)])

    def _units(
        self, scaled: Float[Array, "*tokens controls"], values: Float[Array, "*tokens channels"]
    ) -> tuple[Float[Array, "*tokens units"], Float[Array, "*tokens units"]]:
        """The first layer's outputs, and how far they are above their thresholds."""
        units = linear(self.stem, jnp.clip(jnp.concatenate([scaled, values], axis=-1), -_LARGEST, _LARGEST))
        return jax.nn.gelu(units), share(units - self.thresholds)

    def _through_blocks(
        self, stream: Float[Array, "tokens width"], states: Float[Array, "blocks state"], drop: Array | None = None
    ) -> tuple[Float[Array, "tokens width"], Float[Array, "blocks state"]]:
        """The stream with what each block adds, and the blocks' states after it."""
        if self.blocks is not None:
            arrays, rest = eqx.partition(self.blocks, eqx.is_array)

            def add(stream, block):
                arrays, z, factor = block
                added, z = eqx.combine(arrays, rest)(z, stream)
                return stream + (added if factor is None else factor * added), z

            stream, states = jax.lax.scan(add, stream, (arrays, states, drop))
        return stream, states

    def _dropout(self, key: PRNGKeyArray | None) -> tuple[Any, Array | None, Any]:
        """Factors of the stream, of what each block adds, and of features: dropout of channels, at all times alike."""
        if key is None or self.dropout == 0.0:
            return 1.0, None, 1.0
        width, blocks = self.norm.shape[0], self._no_states(float).shape[0]
        features: Any = self.decoder.linear.in_features
        # All from one draw, which is compiled once.
        draw = jax.random.uniform(key, (width * (1 + blocks) + features,))
        rates = jnp.full(draw.shape, self.dropout).at[:width].multiply(0.5)
        stream, added, features = jnp.split((draw >= rates) / (1.0 - rates), [width, width * (1 + blocks)])
        return stream, added.reshape(blocks, width), features


def _where(chosen: Array, new: State, old: State) -> State:
    return jax.tree.map(lambda new, old: jnp.where(chosen, new, old), new, old)


def _grouped(
    values: Float[Array, "tokens units"], count: Count, size: int
) -> tuple[Float[Array, "groups features"], Count]:
    """Mean and maximum over groups of `size` tokens, without padding, and how many groups are not padding."""
    groups = -(-values.shape[0] // size)
    padded = jnp.pad(values, ((0, groups * size - values.shape[0]), (0, 0))).reshape(groups, size, -1)
    valid = (jnp.arange(groups * size) < count).reshape(groups, size, 1)
    number = jnp.maximum(valid.sum(1), 1)
    mean = jnp.where(valid, padded, 0.0).sum(1) / number
    highest = jnp.where(valid.any(1), jnp.where(valid, padded, -jnp.inf).max(1), 0.0)
    return jnp.concatenate([mean, highest], axis=1), -(-count // size)
