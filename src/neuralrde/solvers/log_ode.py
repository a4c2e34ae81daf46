"""`solve`: carry a state through the log-ODEs of all windows."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..fields import AbstractControlledField, check_controls
from ..frozen import weights_of
from .base import AbstractSolver
from .gradients import AbstractGradient, Recompute
from .runge_kutta import RK4, RungeKutta


def solve(
    field: AbstractControlledField,
    z0: Float[Array, " state"],
    log_signatures: Float[np.ndarray | Array, "windows controls"],
    *,
    solver: eqx.Module = RK4(),  # noqa: B008 (an immutable object)
    substeps: int = 1,
    gradient: AbstractGradient = Recompute(),  # noqa: B008
    every_window: bool = False,
) -> Float[Array, " state"] | Float[Array, "windows+1 state"]:
    r"""Solve the neural RDE: one unit-time ODE per window (equations 10 and 11 of the paper).

    Integrating f(z) LogSig / (r1 - r0) over [r0, r1] equals flowing z' = f(z) LogSig for unit time, so the
    windows' lengths never enter. A zero log-signature leaves the state exactly where it was, bit for bit. So pad series
    of different lengths by repeating their last points.

    `solve` takes one example; `jax.vmap` adds the batch. If a solve diverges, its final state is not finite, and
    `explain_divergence` says where that happened.

    Args:
        field: the field that the log-signatures drive.
        z0: the initial state. If z0, the field's weights and the log-signatures differ in precision, the solve uses the
            highest, as everywhere in JAX.
        log_signatures: one per window, in the field's basis.
        solver: `RK4()`, any explicit Runge-Kutta solver of Diffrax, `Exponential()` for affine fields, or `Adaptive()`
            for a tolerance.
        substeps: steps of the solver in each window.
        gradient: `Recompute()`, `Nested()`, `Direct()` or `Backsolve()`. A parallel `Exponential()` has no
            sequence of steps to recompute and is differentiated directly.
        every_window: whether to return the states at the ends of all windows, z0 first, instead of the last one.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import FreeField
    >>> field = FreeField(controls=6, state=4, key=jax.random.key(0))
    >>> solve(field, jnp.zeros(4), jnp.ones((10, 6)), every_window=True).shape
    (11, 4)
    """
    check_arguments(field, z0, log_signatures, substeps)
    log_signatures = as_jax(log_signatures)
    field = field.prepare()
    z0 = z0.astype(_state_type(field, z0, log_signatures))
    if log_signatures.shape[0] == 0:
        return z0[None] if every_window else z0
    states = as_solver(solver).integrate(
        field, z0, log_signatures, substeps=substeps, gradient=gradient, every_window=every_window
    )
    return jnp.concatenate([z0[None], states]) if every_window else states


def as_solver(solver: eqx.Module) -> AbstractSolver:
    """A solver of ours as it is; an explicit Runge-Kutta solver of Diffrax by its tableau."""
    return solver if isinstance(solver, AbstractSolver) else RungeKutta(solver)


def _state_type(field: AbstractControlledField, z0: Array, log_signatures: Array) -> Any:
    """What JAX makes of the state after a window: float64 if anything is, so that it must be so from the start."""
    weights = jax.tree.leaves(weights_of(field))
    with jax.numpy_dtype_promotion("standard"):  # on purpose, also where a program asks JAX to promote nothing
        return jnp.result_type(z0, log_signatures, *(weight.dtype for weight in weights))


def as_jax(log_signatures: np.ndarray | Array) -> Array:
    """By a product that XLA leaves out: under `jax.vmap` what looks like a JAX array may be a batch of NumPy's."""
    return 1.0 * jnp.asarray(log_signatures)


def check_arguments(
    field: AbstractControlledField, z0: Array, log_signatures: np.ndarray | Array, substeps: int = 1
) -> None:
    if log_signatures.ndim != 2 or z0.ndim != 1:
        raise ValueError(
            f"Got z0 of shape {z0.shape} and log-signatures of shape {log_signatures.shape}; expected "
            "(state,) and (windows, controls), one example. For a batch write `jax.vmap(solve, "
            "in_axes=(None, 0, 0))(...)`."
        )
    check_controls(field, log_signatures.shape[-1])
    if z0.shape[0] != field.state:
        raise ValueError(
            f"Got z0 of {z0.shape[0]} channels; expected {field.state}, the state of this {type(field).__name__}."
        )
    if substeps < 1:
        raise ValueError(f"Got substeps={substeps}; expected at least 1, because a window needs a step to cross it.")
