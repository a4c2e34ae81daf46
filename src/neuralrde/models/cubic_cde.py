"""The neural CDE with a smooth control path, through Diffrax (Kidger et al., 2020; Morrill et al., 2022)."""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..fields import AbstractField, BoundedField
from .base import AbstractDecodedModel, Decoder
from .readouts import AbstractReadout, Count, FinalState

Times = Float[Array, " length"]
Path = Float[Array, "length channels"]


def hermite_control(times: Times, path: Path) -> diffrax.CubicInterpolation:
    """Cubic Hermite splines with backward differences: causal, and smooth at the data."""
    return diffrax.CubicInterpolation(times, diffrax.backward_hermite_coefficients(times, path))


def natural_control(times: Times, path: Path) -> diffrax.CubicInterpolation:
    """The natural cubic spline: twice continuously differentiable, no curvature at the ends. Not causal.

    The second derivatives M at the inner points solve a tridiagonal system, with steps h and slopes s:

        h[i-1] M[i-1] + 2 (h[i-1] + h[i]) M[i] + h[i] M[i+1] = 6 (s[i] - s[i-1])

    >>> import jax.numpy as jnp
    >>> control = natural_control(jnp.arange(4.0), jnp.array([[0.0], [1.0], [0.0], [1.0]]))
    >>> control.evaluate(1.0).tolist()
    [1.0]
    """
    steps, slopes = jnp.diff(times)[:, None], jnp.diff(path, axis=0) / jnp.diff(times)[:, None]
    curvature = jnp.zeros_like(path)
    if path.shape[0] > 2:
        h = steps[:, 0]
        zero = jnp.zeros(1, h.dtype)
        lower, upper = jnp.concatenate([zero, h[1:-1]]), jnp.concatenate([h[1:-1], zero])
        inner = jax.lax.linalg.tridiagonal_solve(lower, 2 * (h[:-1] + h[1:]), upper, 6 * jnp.diff(slopes, axis=0))
        curvature = curvature.at[1:-1].set(inner)
    cubic = jnp.diff(curvature, axis=0) / (6 * steps)
    linear = slopes - steps * (2 * curvature[:-1] + curvature[1:]) / 6
    return diffrax.CubicInterpolation(times, (cubic, curvature[:-1] / 2, linear, path[:-1]))


class CubicCDE(AbstractDecodedModel):
    """dZ = f(Z) dX along a cubic spline X through the data, by Diffrax. For the linear path see `NeuralCDE`.

    Args:
        channels, outputs, state, width, layers, activation, readout: as for `NeuralRDE`.
        control: `hermite_control`, `natural_control`, or any function of (times, path) that returns a Diffrax path.
        solver, controller, dt0, adjoint, max_steps: passed to Diffrax; steps are adaptive by default.

    >>> import jax, jax.numpy as jnp
    >>> model = CubicCDE(channels=2, outputs=1, key=jax.random.key(0))
    >>> model(jnp.linspace(0.0, 1.0, 9), jnp.ones((9, 2))).shape
    (1,)
    """

    encoder: eqx.nn.Linear
    field: AbstractField
    decoder: Decoder
    control: Callable[[Times, Path], diffrax.AbstractPath]
    solver: diffrax.AbstractSolver
    controller: diffrax.AbstractStepSizeController
    adjoint: diffrax.AbstractAdjoint
    dt0: float | None = eqx.field(static=True)
    max_steps: int | None = eqx.field(static=True)
    not_online: ClassVar[str | None] = "solves along a smooth path, by its own steps"

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        state: int = 32,
        width: int = 64,
        layers: int = 3,
        activation: Callable = jax.nn.softplus,
        readout: AbstractReadout = FinalState(),  # noqa: B008 (immutable objects)
        control: Callable[[Times, Path], diffrax.AbstractPath] = hermite_control,
        solver: diffrax.AbstractSolver = diffrax.Tsit5(),  # noqa: B008
        controller: diffrax.AbstractStepSizeController = diffrax.PIDController(rtol=1e-3, atol=1e-6),  # noqa: B008
        dt0: float | None = None,
        adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint(),  # noqa: B008
        max_steps: int | None = 16384,
        key: PRNGKeyArray,
    ):
        encoder_key, field_key, decoder_key = jax.random.split(key, 3)
        self.encoder = eqx.nn.Linear(channels, state, key=encoder_key)
        self.field = BoundedField(channels, state, width=width, layers=layers, activation=activation, key=field_key)
        self.decoder = Decoder(readout, state, outputs, key=decoder_key)
        self.control, self.solver, self.controller = control, solver, controller
        self.dt0, self.adjoint, self.max_steps = dt0, adjoint, max_steps

    @property
    def many_devices(self) -> bool:
        # Diffrax's recursive checkpoints do not work under `shard_map` (seen with Diffrax 0.7.2 and JAX 0.10).
        return False

    @property
    def ignores_padding(self) -> bool:
        return self.control is hermite_control  # which only looks back

    def inputs(self, path, times, cuts):
        """The points at which windows end, and their times, counted from 0. Windows of one point use all points."""
        rows, ends = np.arange(len(path))[:, None], np.broadcast_to(cuts, (len(path), np.shape(cuts)[-1]))
        return (times - times[:, :1])[rows, ends], path[rows, ends]

    def __call__(self, times: Times, path: Path, *, windows: Count | None = None) -> Float[Array, "*out outputs"]:
        """The prediction for one example: (outputs,), or (length, outputs) with `EveryState()`.

        Args:
            times: increasing. Times that repeat at the end, as in a padded `Series`, are padding.
            path: the points.
            windows: if the example was padded, its own number of intervals; None counts them. Later points drive
                nothing with `hermite_control`, which only looks back, but they do change a natural spline.
        """
        last = _intervals(times) if windows is None else windows
        times = _increasing(times, last)
        control = self.control(times, path)
        every = self.decoder.readout.every_window
        slope: Any = lambda t, z, _: self.field.contract(control.derivative(t))(z)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(slope),
            self.solver,
            t0=times[0],
            t1=times[-1 if every else last],
            dt0=self.dt0,
            y0=self.encoder(path[0]),
            saveat=diffrax.SaveAt(ts=times) if every else diffrax.SaveAt(t1=True),
            stepsize_controller=self.controller,
            adjoint=self.adjoint,
            max_steps=self.max_steps,
        )
        assert solution.ys is not None
        return self.decoder(solution.ys if every else solution.ys[0], windows)


def _intervals(times: Times) -> Count:
    """How many there are before times stop increasing; checked by Diffrax only where they go on after that."""
    return jnp.cumprod(jnp.diff(times) > 0).sum()


def _increasing(times: Times, last: Count) -> Times:
    """Padding gets times of its own: Diffrax wants them to increase, and nothing is read there."""
    beyond = jnp.arange(times.shape[0]) - last
    usual = (times[last] - times[0]) / jnp.maximum(last, 1)
    return jnp.where(beyond > 0, times[last] + beyond * jnp.where(usual > 0, usual, 1.0), times)
