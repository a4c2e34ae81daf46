"""The paper's model and two relatives: the neural CDE on a linear path, and the Log-NCDE."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Depth, Spec
from ..errors import setting
from ..fields import AbstractField, BracketField, FreeField, check_controls
from ..paths.windows import as_scales
from ..registry import accepted, make
from ..signatures.bases import Basis, basis_channels
from ..solvers import RK4, AbstractGradient, Direct, Recompute, explain_divergence, solve
from ..solvers.log_ode import as_solver
from .base import AbstractDrivenModel, Decoder
from .conditioning import ChannelScale, ScaledField
from .readouts import AbstractReadout, FinalState


class NeuralRDE(AbstractDrivenModel):
    r"""The neural RDE: z0 = Linear(x0), z' = f(z) LogSig^N per window, y = Linear(readout of z) (section 3.1).

    Args:
        channels: channels of the path, time included.
        outputs: channels of the prediction.
        depth: depth N of the log-signatures.
        scales: how many windows back they look; with several, all of them drive the state side by side, so that the
            field must be a free one.
        static: numbers after the first point that are known of a series as a whole.
        state: channels of the hidden state; None takes 32, or the field's own.
        width, layers, activation: shape of the field's network; see `FreeField`.
        field: a field to use instead of the network, or a class or `Config` that makes one, such as `BoundedField`, or
            `LinearField` with `solver=Exponential()`.
        readout: `FinalState()`, `MeanState()` or `EveryState()`.
        solver, substeps, gradient: see `neuralrde.solve`.
        key: random key for the initial weights.

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
    solver: eqx.Module
    gradient: AbstractGradient
    substeps: int = eqx.field(static=True)
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
        state: int | None = None,
        width: int = 64,
        layers: int = 3,
        activation: Callable = jax.nn.relu,
        field: AbstractField | Spec | None = None,
        readout: AbstractReadout = FinalState(),  # noqa: B008 (immutable objects)
        solver: eqx.Module = RK4(),  # noqa: B008
        substeps: int = 1,
        gradient: AbstractGradient = Recompute(),  # noqa: B008
        key: PRNGKeyArray,
    ):
        encoder_key, field_key, decoder_key = jax.random.split(key, 3)
        scales = as_scales(scales)
        if not isinstance(field, AbstractField):
            config = make("field", FreeField if field is None else field)
            if scales != (1,) and "controls" not in accepted(config.cls):
                raise ValueError(
                    f"Got scales={scales} and field={config!r}, whose Lie brackets are those of one log-signature; "
                    "expected scales=(1,), or a field that is free in its controls, such as FreeField."
                )
            field = config(
                controls=basis_channels(channels, depth, scales=scales),
                channels=channels,
                state=32 if state is None else state,
                depth=depth,
                width=width,
                layers=layers,
                activation=activation,
                key=field_key,
            )
        if not isinstance(field, AbstractField):
            raise ValueError(
                f"Got field={type(field).__name__}, which moves the state where the log-signature is zero; expected a "
                "subclass of AbstractField, because padding must leave the state alone. Write for example "
                "field=FreeField."
            )
        if state not in (None, field.state):
            raise ValueError(
                f"Got {setting('state', state)} and a field of state {field.state}; expected the same, "
                "because a field has a state of its own. Leave `state` out."
            )
        self.channels, self.depth, self.scales, self.basis = channels, depth, scales, field.basis
        self.static = static
        check_controls(field, self.controls)
        self.encoder = eqx.nn.Linear(channels + static, field.state, key=encoder_key)
        self.field = field
        self.decoder = Decoder(readout, field.state, outputs, key=decoder_key)
        self.scale = ChannelScale.unit(field.controls)
        self.solver, self.substeps, self.gradient = solver, substeps, gradient

    @property
    def many_devices(self) -> bool:
        return as_solver(self.solver).many_devices

    def explain_divergence(self, inputs):
        x0, windows = (jnp.asarray(array) for array in inputs)
        field = ScaledField(self.field, self.scale)
        explain_divergence(field, jax.vmap(self.encoder)(x0), windows, solver=self.solver, substeps=self.substeps)

    def states(self, x0: Float[Array, " channels"], logs: Float[Array, "windows controls"]) -> Float[Array, "..."]:
        return self._solve(self.encoder(x0), logs, self.gradient, every_window=self.decoder.readout.every_window)

    def first_state(self, x0):
        z = self.encoder(x0)
        return z, z

    def next_state(self, hidden, log_signature):
        # A single window has nothing to recompute, and reads nothing by its number.
        z = self._solve(hidden, log_signature[None], Direct())
        return z, z

    def _solve(self, z: Array, logs: Array, gradient: AbstractGradient, *, every_window: bool = False) -> Array:
        options = {"solver": self.solver, "substeps": self.substeps, "gradient": gradient}
        return solve(ScaledField(self.field, self.scale), z, logs, **options, every_window=every_window)


class NeuralCDE(NeuralRDE):
    """The neural CDE driven by the piecewise-linear path (Kidger et al., 2020): a neural RDE of depth 1.

    With `model.log_signatures(path, step=1)` it is the neural CDE itself (section 3.2 of the paper); with a larger step
    it sees only increments over windows. For smooth control paths see `CubicCDE`. Arguments are those of `NeuralRDE`.

    >>> import jax
    >>> NeuralCDE(channels=3, outputs=1, key=jax.random.key(0)).depth
    1
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        state: int | None = None,
        width: int = 64,
        layers: int = 3,
        activation: Callable = jax.nn.relu,
        field: AbstractField | Spec | None = None,
        readout: AbstractReadout = FinalState(),  # noqa: B008 (immutable objects)
        solver: eqx.Module = RK4(),  # noqa: B008
        substeps: int = 1,
        gradient: AbstractGradient = Recompute(),  # noqa: B008
        key: PRNGKeyArray,
    ):
        network = {"state": state, "width": width, "layers": layers, "activation": activation, "field": field}
        solving = {"readout": readout, "solver": solver, "substeps": substeps, "gradient": gradient}
        super().__init__(channels, outputs, depth=1, **network, **solving, key=key)


class LogNCDE(NeuralRDE):
    """The Log-NCDE (Walker et al., 2024): a neural RDE whose field is that of a CDE, with exact Lie brackets.

    It has fewer weights than the free network and is the true log-ODE, for one Jacobian-vector product per channel at
    depth 2. The activation must be smooth, because brackets are made of its derivatives. Its log-signatures are in
    the brackets basis: take them from `model.log_signatures`. Arguments are those of `NeuralRDE`.

    >>> import jax
    >>> LogNCDE(channels=3, outputs=1, depth=2, key=jax.random.key(0)).basis
    'brackets'
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        depth: int,
        state: int = 32,
        width: int = 64,
        layers: int = 3,
        activation: Callable = jax.nn.silu,
        readout: AbstractReadout = FinalState(),  # noqa: B008 (immutable objects)
        solver: eqx.Module = RK4(),  # noqa: B008
        substeps: int = 1,
        gradient: AbstractGradient = Recompute(),  # noqa: B008
        key: PRNGKeyArray,
    ):
        key, field_key = jax.random.split(key)
        vectors = FreeField(channels, state, width=width, layers=layers, activation=activation, key=field_key)
        solving = {"readout": readout, "solver": solver, "substeps": substeps, "gradient": gradient}
        super().__init__(channels, outputs, depth=depth, field=BracketField(vectors, depth), **solving, key=key)
