"""Adaptive steps, through Diffrax: the log-signatures as a piecewise-linear control path."""

from typing import Any

import diffrax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..fields import AbstractField
from .solve import as_jax, check_arguments


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


def solve_adaptive(
    field: AbstractField,
    z0: Float[Array, " state"],
    log_signatures: Float[Array, "windows controls"],
    *,
    solver: diffrax.AbstractSolver = diffrax.Tsit5(),  # noqa: B008 (an immutable object)
    rtol: float = 1e-3,
    atol: float = 1e-6,
    max_steps: int | None = 16384,
    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint(),  # noqa: B008
    every_window: bool = False,
) -> Float[Array, " state"] | Float[Array, "windows+1 state"]:
    """Solve as `solve` does, to a tolerance, with steps of any length that end at the windows' boundaries.

    Several times slower than `solve` and meant for checking it, for stiff fields (implicit solvers are
    accepted), and for windows so uneven that one number of substeps does not fit them all.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import FreeField
    >>> field = FreeField(controls=2, state=3, key=jax.random.key(0))
    >>> solve_adaptive(field, jnp.zeros(3), jnp.ones((4, 2))).shape
    (3,)
    """
    check_arguments(field, z0, log_signatures)
    log_signatures = as_jax(log_signatures)
    windows = log_signatures.shape[0]
    if windows == 0:
        return z0[None] if every_window else z0
    prepared, control = field.prepare(), LogSignaturePath(log_signatures)
    # Diffrax steps to just before a jump and starts again just after it, so that no stage falls on a
    # boundary.
    term = diffrax.ODETerm(lambda t, z, _: prepared.contract(control.derivative(t))(z))
    controller: Any = diffrax.PIDController(rtol=rtol, atol=atol)
    if windows > 1:
        controller = diffrax.ClipStepSizeController(controller, jump_ts=jnp.arange(1.0, windows))
    save = diffrax.SaveAt(ts=jnp.arange(0.0, windows + 1)) if every_window else diffrax.SaveAt(t1=True)
    solution = diffrax.diffeqsolve(
        term,
        solver,
        t0=0.0,
        t1=float(windows),
        dt0=None,
        y0=z0,
        saveat=save,
        stepsize_controller=controller,
        adjoint=adjoint,
        max_steps=max_steps,
    )
    assert solution.ys is not None
    return solution.ys if every_window else solution.ys[0]
