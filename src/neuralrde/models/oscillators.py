"""A bank of damped oscillators driven by the path, for series that are periodic, at any rate."""

import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..fields import RotationField
from ..signatures.bases import Basis
from ..signatures.lyndon import log_signature_channels, lyndon_words
from ..solvers import Direct, Exponential, solve
from .base import AbstractDrivenModel, Decoder
from .conditioning import ChannelScale, LogSignatureSizes, ScaledField
from .readouts import AbstractReadout, MeanEnergy

DAMPING = 0.05  # of the turning: an oscillator forgets within some three turns


class OscillatorRDE(AbstractDrivenModel):
    """A linear RDE of driven, damped oscillators, solved exactly; a small network reads their mean energies.

    Channel 0 of the path must be time. It turns the oscillators, at first at rates evenly spaced on a logarithmic
    scale, and damps them within some turns. Each other channel pushes its share of the oscillators. A rate that is 10 %
    higher then gives the same pattern of energies, some places further on, for all people alike.

    Args:
        channels, outputs, depth: as for `NeuralRDE`.
        state: channels of the hidden state, two per oscillator.
        width, layers: shape of the network that reads the energies.
        turns: initial rates of the slowest and the fastest oscillator, in turns per window. Choose the step so that the
            rates you look for lie well between them.
        readout: `MeanEnergy()`, or another.
        solver: `Exponential()`, in parallel over time or not.
        key: random key for the initial weights.

    >>> import jax, numpy as np
    >>> model = OscillatorRDE(channels=2, outputs=1, depth=2, state=8, width=4, key=jax.random.key(0))
    >>> model.fit_scale(np.ones((5, 100, 3)))(jnp.zeros(2), jnp.ones((100, 3))).shape
    (1,)
    """

    field: RotationField
    decoder: Decoder
    scale: ChannelScale
    solver: Exponential
    turns: tuple[float, float] = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    basis: Basis = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        depth: int,
        state: int = 128,
        width: int = 128,
        layers: int = 2,
        turns: tuple[float, float] = (0.05, 0.8),
        readout: AbstractReadout = MeanEnergy(),  # noqa: B008 (immutable objects)
        solver: Exponential = Exponential(),  # noqa: B008
        key: PRNGKeyArray,
    ):
        if channels < 2:
            raise ValueError(
                f"Got a path of {channels} channel; expected time and at least one other, which pushes the oscillators."
            )
        field_key, decoder_key = jax.random.split(key)
        controls = log_signature_channels(channels, depth)
        self.field = RotationField(controls, state, key=field_key)
        self.decoder = Decoder(readout, state, outputs, width=width, layers=layers, key=decoder_key)
        self.scale = ChannelScale.unit(controls)
        self.solver, self.turns = solver, turns
        self.channels, self.depth, self.basis = channels, depth, "words"

    def fit_scale(self, log_signatures: Any, *, windows: Any = None) -> Self:
        """Also tunes the oscillators, because scaling changes the time per window to 1 / sqrt(windows)."""
        sizes = LogSignatureSizes.fit(log_signatures, windows)
        model = super().fit_scale(log_signatures, windows=windows)
        slowest, fastest = (2 * math.pi * turns * math.sqrt(sizes.count) for turns in self.turns)
        field = _bank(self.field, slowest, fastest, np.asarray(model.scale.factors.value), self.channels, self.depth)
        return eqx.tree_at(lambda model: model.field, model, field)

    def states(self, x0: Float[Array, " channels"], logs: Float[Array, "windows controls"]) -> Float[Array, "..."]:
        # From rest: a first point says nothing about a period.
        field, z = ScaledField(self.field, self.scale), jnp.zeros(self.field.state, logs.dtype)
        return solve(field, z, logs, solver=self.solver, every_window=self.decoder.readout.every_window)

    def first_state(self, x0):
        z = jnp.zeros(self.field.state, x0.dtype)
        return z, z

    def next_state(self, hidden, log_signature):
        field = ScaledField(self.field, self.scale)
        z = solve(field, hidden, log_signature[None], solver=self.solver, gradient=Direct())
        return z, z


def _bank(
    field: RotationField, slowest: float, fastest: float, factors: np.ndarray, channels: int, depth: int
) -> RotationField:
    """Oscillators of all rates for each channel but time, pushed by that channel alone; the random pushes stay small.

    For z' = rate z dt + dx the exact bracket of time and the channel is -rate, which is what the area of the two in a
    window is multiplied by: with it an oscillator hears, at depth 2, what happens inside a window.
    """
    others, pairs = channels - 1, field.state // 2
    rates = np.geomspace(slowest, fastest, -(-pairs // others)).repeat(others)[:pairs]
    channel = 1 + np.arange(pairs) % others
    words = lyndon_words(channels, depth)
    pushes = np.zeros((len(words), 2, pairs))
    pushes[channel, 0, np.arange(pairs)] = 1.0
    if depth > 1:
        area = np.array([words.index((0, int(c))) for c in channel])
        bracket = (DAMPING - 1j) * rates * factors[0] * factors[channel] / factors[area]
        pushes[area, 0, np.arange(pairs)], pushes[area, 1, np.arange(pairs)] = bracket.real, bracket.imag
    nothing = jnp.zeros((len(words), pairs))
    weights = (
        nothing.at[0].set(rates),
        nothing.at[0].set(DAMPING * rates),
        0.1 * field.offsets + pushes.reshape(len(words), -1),
    )
    return eqx.tree_at(lambda field: (field.turning, field.decay, field.offsets), field, weights)
