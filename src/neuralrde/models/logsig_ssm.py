"""Log-signatures that look back as tokens of a selective state space model (Mamba)."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Depth, State
from ..paths import Windows
from ..paths.checks import check_whole
from ..paths.windows import as_scales
from ..signatures.bases import Basis, basis_channels
from .base import AbstractDrivenModel, Carried, Decoder, Recommended
from .conditioning import ChannelScale
from .readouts import AbstractReadout, Count, EveryState, FinalState, MeanState, linear

# Tokens of which a gradient keeps all states at a time; between them it keeps one, and follows the others again.
_CHUNK = 32
# Time steps with which channels begin.
_SHORTEST, _LONGEST = 1e-3, 1e-1


class Selective(eqx.Module):
    r"""Mamba's layer: a causal convolution, and a linear state whose speed and input the token chooses.

        x, z = split(in(token));  u = silu(conv(x));  δ, B, C = from(u)
        h <- exp(Δ A) h + Δ u ⊗ B,  Δ = softplus(to_step(δ));  y = h C + D u;  out(y silu(z))

    Gu, Dao (2023), Mamba, algorithm 2 and section 3.6. A is diagonal, -(1, 2, ..., state) in every channel at first.
    """

    into: eqx.nn.Linear
    kernel: Float[Array, "conv channels"]
    bias: Float[Array, " channels"]
    chosen: eqx.nn.Linear
    to_step: eqx.nn.Linear
    log_rates: Float[Array, "channels state"]
    skip: Float[Array, " channels"]
    out: eqx.nn.Linear

    def __init__(self, width: int, state: int, conv: int, expand: int, *, key: PRNGKeyArray):
        channels, rank = expand * width, -(-width // 16)
        keys = jax.random.split(key, 7)
        uniform = lambda key, size, *shape: jax.random.uniform(key, shape, minval=-size, maxval=size)
        self.into = eqx.nn.Linear(width, 2 * channels, use_bias=False, key=keys[0])
        self.kernel, self.bias = uniform(keys[1], conv**-0.5, conv, channels), uniform(keys[2], conv**-0.5, channels)
        self.chosen = eqx.nn.Linear(channels, rank + 2 * state, use_bias=False, key=keys[3])
        steps = jnp.exp(jax.random.uniform(keys[4], (channels,), minval=np.log(_SHORTEST), maxval=np.log(_LONGEST)))
        first = (uniform(keys[5], rank**-0.5, channels, rank), steps + jnp.log(-jnp.expm1(-steps)))
        to_step = eqx.nn.Linear(rank, channels, key=keys[5])
        self.to_step = eqx.tree_at(lambda layer: (layer.weight, layer.bias), to_step, first)
        self.log_rates = jnp.broadcast_to(jnp.log(jnp.arange(1.0, state + 1)), (channels, state))
        self.skip = jnp.ones(channels)
        self.out = eqx.nn.Linear(channels, width, use_bias=False, key=keys[6])

    def start(self) -> tuple[Float[Array, "*layers before channels"], Float[Array, "*layers channels state"]]:
        """The last inputs of the convolution, and the state, before the first token; also of several layers at once."""
        *several, conv, channels = self.kernel.shape
        return jnp.zeros((*several, conv - 1, channels)), jnp.zeros(self.log_rates.shape)

    def __call__(
        self, tokens: Float[Array, "tokens width"], carried: State
    ) -> tuple[Float[Array, "tokens width"], State]:
        (recent, h), (count, state) = carried, (tokens.shape[0], self.log_rates.shape[1])
        x, z = jnp.split(linear(self.into, tokens), 2, axis=1)
        seen = jnp.concatenate([recent, x])
        u = jax.nn.silu(sum(weight * seen[j : j + count] for j, weight in enumerate(self.kernel)) + self.bias)
        rank = self.to_step.weight.shape[1]
        delta, B, C = jnp.split(linear(self.chosen, u), [rank, rank + state], axis=1)
        steps = jax.nn.softplus(linear(self.to_step, delta))
        y, h = selective_scan(h, -jnp.exp(self.log_rates), u, steps, B, C)
        return linear(self.out, (y + self.skip * u) * jax.nn.silu(z)), (seen[count:], h)


def selective_scan(
    h: Float[Array, "channels state"],
    rates: Float[Array, "channels state"],
    u: Float[Array, "tokens channels"],
    steps: Float[Array, "tokens channels"],
    B: Float[Array, "tokens state"],
    C: Float[Array, "tokens state"],
) -> tuple[Float[Array, "tokens channels"], Float[Array, "channels state"]]:
    """h <- exp(Δ A) h + Δ u ⊗ B, and h C after every token.

    One token after the other. For 857 tokens and 64 x 64 numbers, a gradient takes a third of the time of parallel
    scans over chunks on a CPU, and no more than one without checkpoints, whose memory is that of all states.
    """

    def token(h, one):
        u, step, b, c = one
        h = jnp.exp(step[:, None] * rates) * h + (step * u)[:, None] * b
        return h, h @ c

    if (count := u.shape[0]) == 1:
        h, y = token(h, (u[0], steps[0], B[0], C[0]))
        return y[None], h
    size = min(_CHUNK, count)
    # In the tokens that fill the last chunk no time passes.
    chunked = lambda array: jnp.pad(array, ((0, -count % size), (0, 0))).reshape(-1, size, array.shape[1])
    chunk = jax.checkpoint(lambda h, some: jax.lax.scan(token, h, some))
    h, y = jax.lax.scan(chunk, h, tuple(map(chunked, (u, steps, B, C))))
    return y.reshape(-1, y.shape[-1])[:count], h


class SelectiveBlock(eqx.Module):
    """Layer norm, then the selective layer."""

    norm: eqx.nn.LayerNorm
    layer: Selective

    def __init__(self, width: int, state: int, conv: int, expand: int, *, key: PRNGKeyArray):
        self.norm, self.layer = eqx.nn.LayerNorm(width), Selective(width, state, conv, expand, key=key)

    def __call__(
        self, tokens: Float[Array, "tokens width"], carried: State
    ) -> tuple[Float[Array, "tokens width"], State]:
        return self.layer(jax.vmap(self.norm)(tokens), carried)


class LogSigSSM(AbstractDrivenModel):
    """Log-signatures that look back as tokens of a selective state space model, as in LogSig-SSM (NeurIPS 2026).

        path -> log-signatures of the last 280, 55, ... points, and of all so far     one token per window, one before
             -> linear -> stream
                          stream + dropout(selective(norm(stream))), a few times
                            selective = linear -> causal convolution -> silu -> linear state, gated -> linear
                          norm -> mean over tokens -> dropout -> linear -> prediction

    Unlike a driven state, this one moves in windows in which nothing happens, too: it counts tokens. Windows for it may
    overlap: `Windows(step=21, lengths=(280,), depth=2)`.

    Args:
        channels, outputs, depth, scales, static: as for `NeuralRDE`.
        width: channels of the stream.
        state: numbers per channel that the layer carries on.
        blocks: number of blocks.
        conv: tokens that the convolution sees.
        expand: channels inside a block, in widths.
        dropout: the share of numbers that a training step leaves out, after each block and before the prediction.
        readout: `MeanState()`, `FinalState()` or another; with `EveryState()` predictions come after every window.
        key: random key for the initial weights.

    >>> import jax, jax.numpy as jnp
    >>> model = LogSigSSM(channels=3, outputs=2, depth=2, key=jax.random.key(0))
    >>> model(jnp.zeros(3), jnp.ones((20, 6))).shape
    (2,)
    """

    scale: ChannelScale
    stem: eqx.nn.Linear
    blocks: SelectiveBlock
    norm: eqx.nn.LayerNorm
    decoder: Decoder
    channels: int = eqx.field(static=True)
    depth: Depth = eqx.field(static=True)
    scales: tuple[float, ...] = eqx.field(static=True)
    dropout: float = eqx.field(static=True)
    static: int = eqx.field(static=True)
    basis: Basis = eqx.field(static=True, default="words")
    takes_key: ClassVar[bool] = True
    # Their rule for a new data set: a hundredth and a twenty-fifth of the series, to depths 1 and 2.
    recommended: ClassVar[Recommended] = Recommended(
        windows=lambda channels: Windows(count=100, depth=(2, 1), scales=(4, 1))
    )

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        depth: Depth,
        scales: tuple[float, ...] = (1,),
        static: int = 0,
        width: int = 64,
        state: int = 64,
        blocks: int = 2,
        conv: int = 2,
        expand: int = 1,
        dropout: float = 0.3,
        readout: AbstractReadout = MeanState(),  # noqa: B008 (an immutable object)
        key: PRNGKeyArray,
    ):
        sizes = {"width": width, "state": state, "blocks": blocks, "conv": conv, "expand": expand}
        for name, value in sizes.items():
            check_whole(name, value, high=2**20)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"Got dropout={dropout!r}; expected a share from 0 to below 1. Write dropout=0.3.")
        stem_key, decoder_key, *keys = jax.random.split(key, blocks + 2)
        self.channels, self.depth, self.scales, self.basis = channels, depth, as_scales(scales), "words"
        self.dropout, self.static = float(dropout), static
        controls = basis_channels(channels, depth, scales=self.scales)
        self.scale = ChannelScale.unit(controls)
        self.stem = eqx.nn.Linear(controls + static, width, key=stem_key)
        # One block with arrays for all of them: XLA then compiles one.
        one = lambda key: SelectiveBlock(width, state, conv, expand, key=key)
        self.blocks = eqx.filter_vmap(one)(jnp.stack(keys))
        self.norm = eqx.nn.LayerNorm(width)
        self.decoder = Decoder(readout, width, outputs, key=decoder_key)

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
        x0, logs = jnp.asarray(x0), jnp.asarray(log_signatures)
        stream, readout = self._stream(x0, logs, key), self.decoder.readout
        last = logs.shape[0] if windows is None else windows
        if isinstance(readout, EveryState):
            seen = stream
        elif isinstance(readout, FinalState):
            seen = jnp.take(stream, last, axis=0)
        else:  # the token before the first window counts, too
            seen = readout(jnp.concatenate([stream[:1], stream]), last + 1)
        if key is not None and self.dropout:
            seen = seen * self._kept(jax.random.fold_in(key, 1), seen.shape)
        return self.decoder.of_features(seen) if seen.ndim == 1 else jax.vmap(self.decoder.of_features)(seen)

    def states(self, x0, logs):
        """The normalised stream; what padding adds to it is not the state of any window."""
        stream = self._stream(x0, logs, None)
        return stream if self.decoder.readout.every_window else stream[-1]

    def start(self, x0):
        hidden, seen = self.first_state(jnp.asarray(x0))
        readout = self.decoder.readout
        return Carried(hidden, readout.advance(readout.start(seen), seen))

    def first_state(self, x0):
        nothing = jnp.zeros(self.scale.factors.value.shape, x0.dtype)
        return self.next_state((self.blocks.layer.start(), x0[self.channels :]), nothing)

    def next_state(self, hidden, log_signature):
        layers, static = hidden
        stream, layers = self._through_blocks(self._tokens(static, log_signature[None]), layers, None)
        return (layers, static), self.norm(stream[0])

    def _tokens(self, static: Array, logs: Float[Array, "tokens controls"]) -> Float[Array, "tokens width"]:
        seen = jnp.concatenate([self.scale(logs), jnp.broadcast_to(static, (logs.shape[0], self.static))], axis=1)
        return linear(self.stem, seen)

    def _stream(self, x0: Array, logs: Array, key: PRNGKeyArray | None) -> Float[Array, "tokens width"]:
        logs = jnp.concatenate([jnp.zeros((1, logs.shape[1]), logs.dtype), logs])
        tokens, drop = self._tokens(x0[self.channels :], logs), None
        if key is not None and self.dropout:
            blocks = self.blocks.layer.skip.shape[0]
            drop = self._kept(jax.random.fold_in(key, 0), (blocks, *tokens.shape))
        return jax.vmap(self.norm)(self._through_blocks(tokens, self.blocks.layer.start(), drop)[0])

    def _through_blocks(
        self, stream: Float[Array, "tokens width"], layers: State, drop: Float[Array, "blocks tokens width"] | None
    ) -> tuple[Float[Array, "tokens width"], State]:
        """The stream with what each block adds, and what the blocks carry on."""
        arrays, rest = eqx.partition(self.blocks, eqx.is_array)

        def add(stream, block):
            arrays, carried, kept = block
            added, carried = eqx.combine(arrays, rest)(stream, carried)
            return stream + (added if kept is None else kept * added), carried

        return jax.lax.scan(add, stream, (arrays, layers, drop))

    def _kept(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.bernoulli(key, 1.0 - self.dropout, shape) / (1.0 - self.dropout)
