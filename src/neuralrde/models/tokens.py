"""`MultiScaleRDE`, one window at a time: what it keeps of the tokens so far, in flat memory.

A token goes into the first layer, whose outputs are summed, and into the running group of `stride` tokens. A full group
becomes one token of the stream, which drives the blocks; what the readout needs of the stream is kept as it goes. The
prediction looks at the running group as if it were full, and does not keep that.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .readouts import AbstractReadout, EveryState, Pools, Seen, Sum, share


class Tokens(eqx.Module):
    """The state of a `MultiScaleRDE` between two windows."""

    values: Sum
    """The path's value, of all channels."""
    above: Sum
    active: Sum
    """Sums over all tokens, of units above their thresholds and of their outputs."""
    in_group: Int[Array, ""]
    group: Sum
    highest: Float[Array, " units"]
    """Tokens in the running group, the sum of their outputs, and the highest."""
    blocks: Float[Array, "blocks state"]
    """The state of each block after the last full group."""
    seen: Seen
    """What the readout keeps of the stream so far."""
    count: Int[Array, ""]


def start(model: Any, x0: Float[Array, " channels"]) -> Tokens:
    """The first point is a token, too, without a window."""
    units, width = model.thresholds.shape[0], model.mix.out_features
    number = 0 if model.blocks is None else jax.tree.leaves(eqx.filter(model.blocks, eqx.is_array))[0].shape[0]
    size = 0 if model.blocks is None else model.blocks.field.state
    nothing = lambda *shape: jnp.zeros(shape, x0.dtype)
    empty = Tokens(
        values=Sum.of(x0),
        above=Sum.of(nothing(units)),
        active=Sum.of(nothing(units)),
        in_group=jnp.zeros((), jnp.int32),
        group=Sum.of(nothing(units)),
        highest=nothing(units),
        blocks=nothing(number, size),
        seen=_readout(model).start(nothing(width)),
        count=jnp.zeros((), jnp.int32),
    )
    return _with_token(model, empty, jnp.zeros_like(model.scale.factors.value, x0.dtype))


def advance(model: Any, state: Tokens, log_signature: Float[Array, " controls"]) -> Tokens:
    skipped = 0 if model.projection is not None else model._first_of_scale_one()
    values = state.values.plus(log_signature[skipped : skipped + model.channels])
    return _with_token(model, eqx.tree_at(lambda s: s.values, state, values), model.scale(log_signature))


def output(model: Any, state: Tokens) -> Float[Array, " outputs"]:
    running, seen = state.in_group > 0, _after_group(model, state)[1]
    seen = jax.tree.map(lambda new, old: jnp.where(running, new, old), seen, state.seen)
    parts = [_readout(model).output(seen), state.above.value / state.count, state.active.value / state.count]
    return model.decoder.of_features(jnp.concatenate(parts))


def _readout(model: Any) -> AbstractReadout:
    """After every window the prediction is made of the pools so far: of the last one, too."""
    return Pools() if isinstance(model.readout, EveryState) else model.readout


def _with_token(model: Any, state: Tokens, scaled: Float[Array, " controls"]) -> Tokens:
    seen = model.stem(model.clipped(jnp.concatenate([scaled, state.values.value])))
    active, first = jax.nn.gelu(seen), state.in_group == 0
    state = Tokens(
        values=state.values,
        above=state.above.plus(share(seen - model.thresholds)),
        active=state.active.plus(active),
        in_group=state.in_group + 1,
        group=state.group.plus(active),
        highest=jnp.where(first, active, jnp.maximum(state.highest, active)),
        blocks=state.blocks,
        seen=state.seen,
        count=state.count + 1,
    )
    stride = 1 if isinstance(model.readout, EveryState) else model.stride
    blocks, now = _after_group(model, state)
    nothing = jnp.zeros_like(active)
    parts = lambda s: (s.blocks, s.seen, s.in_group, s.group, s.highest)
    emptied = (blocks, now, jnp.zeros_like(state.in_group), Sum.of(nothing), nothing)
    full = state.in_group == stride
    return eqx.tree_at(parts, state, jax.tree.map(lambda new, old: jnp.where(full, new, old), emptied, parts(state)))


def _after_group(model: Any, state: Tokens) -> tuple[Float[Array, "blocks state"], Seen]:
    """The blocks' states, and what the readout keeps, when the running group drives the stream."""
    mean = state.group.value / jnp.maximum(state.in_group, 1)
    token, blocks = model.mix(jnp.concatenate([mean, state.highest])), state.blocks
    if model.blocks is not None:
        arrays, rest = eqx.partition(model.blocks, eqx.is_array)

        def add(token, one):
            arrays, z = one
            added, z = eqx.combine(arrays, rest).next(z, token)
            return token + added, z

        token, blocks = jax.lax.scan(add, token, (arrays, state.blocks))
    return blocks, _readout(model).advance(state.seen, model.norm(token))
