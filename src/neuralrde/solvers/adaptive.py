"""Adaptive steps, through Diffrax: the log-signatures as a piecewise-linear control path."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import AbstractSolver


class LogSignaturePath(diffrax.AbstractPath):
    """The control path in log-signature space: its increment over [i, i + 1] is window i's log-signature.

    A neural RDE is a neural CDE driven by this path (section 3.3 of the paper, "Ease of Implementation").
    """

    log_signatures: Float[Array, "windows controls"]
    cumulative: Float[Array, "windows+1 controls"]

    def __init__(self, log_signatures: Float[Array, "windows controls"]):
        self.log_signatures = log_signatures
        self.cumulative = jnp.pad(jnp.cumsum(log_signatures, axis=0), ((1, 0), (0, 0)))

    @property
    def t0(self):
        return 0.0

    @property
    def t1(self):
        return float(self.log_signatures.shape[0])

    def evaluate(self, t0, t1=None, left=True):
        if t1 is not None:
            return self.evaluate(t1, left=left) - self.evaluate(t0, left=left)
        window = self.window(t0, left)
        return self.cumulative[window] + (t0 - window) * self.log_signatures[window]

    def derivative(self, t, left=True):
        return self.log_signatures[self.window(t, left)]

    def window(self, t, left=True):
        """The window that time t falls into; at a boundary the earlier one when coming from the left."""
        index = jnp.ceil(t) - 1 if left else jnp.floor(t)
        return jnp.clip(index, 0, self.log_signatures.shape[0] - 1).astype(int)


class Adaptive(AbstractSolver):
    """Adaptive steps to a tolerance, by Diffrax; they end at the boundaries of windows.

    Several times slower than fixed steps. Use it to check them, for stiff fields (implicit solvers are accepted), and
    for windows so uneven that one number of substeps does not suit them all. Diffrax differentiates the solve, by
    `adjoint`.

    Args:
        solver: any solver of Diffrax.
        rtol, atol: relative and absolute tolerance.
        max_steps: limit for the whole solve; None for no limit.
        adjoint: Diffrax's way to differentiate.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import FreeField
    >>> from neuralrde.solvers import solve
    >>> field = FreeField(controls=2, state=3, key=jax.random.key(0))
    >>> solve(field, jnp.zeros(3), jnp.ones((4, 2)), solver=Adaptive()).shape
    (3,)
    """

    # Diffrax's recursive checkpoints do not work under `shard_map` (seen with Diffrax 0.7.2 and JAX 0.10).
    many_devices: ClassVar[bool] = False
    solver: diffrax.AbstractSolver = diffrax.Tsit5()
    rtol: float = 1e-3
    atol: float = 1e-6
    max_steps: int | None = eqx.field(static=True, default=16384)
    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def integrate(self, field, z0, log_signatures, *, substeps, gradient, every_window):
        windows, control = log_signatures.shape[0], LogSignaturePath(log_signatures)
        # Diffrax steps to just before a jump and starts again just after it, so that no stage falls on a boundary.
        term = diffrax.ODETerm(lambda t, z, _: field.contract(control.derivative(t))(z))
        controller: Any = diffrax.PIDController(rtol=self.rtol, atol=self.atol)
        if windows > 1:
            controller = diffrax.ClipStepSizeController(controller, jump_ts=jnp.arange(1.0, windows))
        save = diffrax.SaveAt(ts=jnp.arange(1.0, windows + 1)) if every_window else diffrax.SaveAt(t1=True)
        solution = diffrax.diffeqsolve(
            term,
            self.solver,
            t0=0.0,
            t1=float(windows),
            dt0=None,
            y0=z0,
            saveat=save,
            stepsize_controller=controller,
            adjoint=self.adjoint,
            max_steps=self.max_steps,
        )
        assert solution.ys is not None
        return solution.ys if every_window else solution.ys[0]
