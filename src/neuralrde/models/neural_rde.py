"""The paper's model."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ..fields import AbstractField, FreeField, check_controls
from ..signatures.bases import Basis, basis_channels
from ..signatures.lyndon import log_signature_channels
from ..solve import RK4, AbstractGradient, Recompute, solve
from .conditioning import ChannelScale, ScaledField
from .driven import AbstractDrivenModel, Decoder
from .readouts import AbstractReadout, FinalState


class NeuralRDE(AbstractDrivenModel):
    r"""The neural RDE: z0 = Linear(x0), z' = f(z) LogSig^N a window, y = Linear(readout of z) (section 3.1).

    Args:
        channels: of the path, time included.
        outputs: channels of the prediction.
        depth: N, of the log-signatures.
        state: channels of the hidden state; None takes 32, or the field's own.
        width, layers, activation: of the field's network; see `FreeField`.
        field: another field instead: `BoundedField`, or a `LinearField` with `solver=Exponential()`.
        readout: `FinalState()`, `MeanState()` or `EveryState()`.
        solver, substeps, gradient: see `neuralrde.solve`.
        key: for the initial weights.

    >>> import jax, numpy as np
    >>> path = np.random.default_rng(0).normal(size=(8, 1000, 3)).astype(np.float32)  # a batch of 8
    >>> model = NeuralRDE(channels=3, outputs=2, depth=2, key=jax.random.key(0))
    >>> windows = model.log_signatures(path, step=50)
    >>> model = model.fit_scale(windows)
    >>> jax.vmap(model)(jax.numpy.asarray(path[:, 0]), jax.numpy.asarray(windows)).shape
    (8, 2)
    """

    encoder: eqx.nn.Linear
    field: AbstractField
    decoder: Decoder
    scale: ChannelScale
    solver: Any
    gradient: AbstractGradient
    substeps: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        depth: int,
        state: int | None = None,
        width: int = 64,
        layers: int = 3,
        activation: Callable = jax.nn.relu,
        field: AbstractField | None = None,
        readout: AbstractReadout = FinalState(),  # noqa: B008 (immutable objects)
        solver: Any = RK4(),  # noqa: B008
        substeps: int = 1,
        gradient: AbstractGradient = Recompute(),  # noqa: B008
        key: PRNGKeyArray,
    ):
        encoder_key, field_key, decoder_key = jax.random.split(key, 3)
        if field is None:
            controls = log_signature_channels(channels, depth)
            state = 32 if state is None else state
            field = FreeField(controls, state, width=width, layers=layers, activation=activation, key=field_key)
        if state not in (None, field.state):
            raise ValueError(
                f"Got state={state} and a field of state {field.state}; expected the same, because a field has a state "
                "of its own. Leave `state` out."
            )
        check_controls(field, basis_channels(channels, depth, field.basis))
        self.encoder = eqx.nn.Linear(channels, field.state, key=encoder_key)
        self.field = field
        self.decoder = Decoder(readout, field.state, outputs, key=decoder_key)
        self.scale = ChannelScale.unit(field.controls)
        self.solver, self.substeps, self.gradient = solver, substeps, gradient
        self.channels, self.depth = channels, depth

    @property
    def basis(self) -> Basis:
        return self.field.basis

    def states(self, x0: Float[Array, " channels"], logs: Float[Array, "windows controls"]) -> Float[Array, "..."]:
        return solve(
            ScaledField(self.field, self.scale),
            self.encoder(x0),
            logs,
            solver=self.solver,
            substeps=self.substeps,
            gradient=self.gradient,
            every_window=self.decoder.readout.every_window,
        )
