"""Explicit Runge-Kutta steps for autonomous fields, by tableau and with unrolled stages.

Any explicit Runge-Kutta solver of Diffrax is accepted. Only its tableau is used: calling `solver.step` inside
the scan over windows was four times slower.
"""

from collections.abc import Callable
from typing import ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..fields import ContractedNetwork
from .base import AbstractSolver

Tableau = diffrax.ButcherTableau


def _tableau(a_lower: list[list[float]], b: list[float]) -> Tableau:
    rows = tuple(np.array(row) for row in a_lower)
    c = np.array([row.sum() for row in rows])
    return Tableau(c=c, b_sol=np.array(b), b_error=np.zeros(len(b)), a_lower=rows)


class RK4(diffrax.AbstractERK):
    """The classic Runge-Kutta method of order 4. It also runs in `diffrax.diffeqsolve`, with constant steps.

    >>> RK4().tableau.num_stages
    4
    """

    tableau: ClassVar[Tableau] = _tableau([[1 / 2], [0, 1 / 2], [0, 0, 1]], [1 / 6, 1 / 3, 1 / 3, 1 / 6])
    interpolation_cls: ClassVar[Callable] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        return 4


class RK4ThreeEighths(diffrax.AbstractERK):
    """The 3/8 rule of order 4. torchdiffeq calls it rk4, so the paper's results were made with it.

    >>> RK4ThreeEighths().tableau.b_sol.tolist()
    [0.125, 0.375, 0.375, 0.125]
    """

    tableau: ClassVar[Tableau] = _tableau([[1 / 3], [-1 / 3, 1], [1, -1, 1]], [1 / 8, 3 / 8, 3 / 8, 1 / 8])
    interpolation_cls: ClassVar[Callable] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        return 4


class RungeKutta(AbstractSolver):
    """Equal steps of an explicit Runge-Kutta solver of Diffrax; `solve` wraps such a solver in this class."""

    solver: eqx.Module

    def integrate(self, field, z0, log_signatures, *, substeps, gradient, every_window):
        stages_of(self.solver)  # refuse a wrong solver here rather than inside the scan
        flow = advance if gradient.left_to_jax else advance_gathered
        step = lambda contracted, z: flow(self.solver, contracted, z, substeps)
        return gradient.integrate(step, field, z0, log_signatures, every_window)


def stages_of(solver: eqx.Module) -> tuple[list[list[float]], list[float]]:
    """The rows of a solver's tableau, the first one empty, and the weights of the stages."""
    if isinstance(solver, diffrax.Euler):  # the one explicit Runge-Kutta method that Diffrax writes without a tableau
        return [[]], [1.0]
    if not isinstance(solver, diffrax.AbstractERK):
        raise TypeError(
            f"Got solver={solver!r}; expected an explicit Runge-Kutta solver, because the stages are "
            "unrolled over each window: `RK4()`, `RK4ThreeEighths()`, or Diffrax's `Euler()`, `Heun()`, "
            "`Tsit5()`, ...; for linear fields `Exponential()`. For adaptive or implicit steps write "
            f"`Adaptive({solver!r})`."
        )
    tableau = solver.tableau
    assert isinstance(tableau, Tableau)
    return [[], *(row.tolist() for row in tableau.a_lower)], tableau.b_sol.tolist()


def advance(solver: eqx.Module, field: Callable[[PyTree], PyTree], z: PyTree, substeps: int = 1) -> PyTree:
    """Flow z' = field(z) for unit time, in equal substeps. z may be any tree of arrays."""
    rows, weights = stages_of(solver)

    def substep(z):
        slopes = []
        for row in rows:
            slopes.append(field(_combine(z, slopes, row, substeps)))
        return _combine(z, slopes, weights, substeps)

    return _repeat(substep, z, substeps)


def advance_gathered(solver: eqx.Module, field: Callable[[PyTree], PyTree], z: PyTree, substeps: int = 1) -> PyTree:
    """As `advance`, with the gradient of a contracted network's matrix gathered once a substep.

    Left to JAX, each stage adds its outer product to the gradient of the matrix, the largest array of a
    window, and on a CPU these additions were the slowest part of training. They are one small matrix product
    over the stages, once all stages' features are known: see `_substep`.
    """
    if not isinstance(field, ContractedNetwork):
        return advance(solver, field, z, substeps)
    rows, weights = stages_of(solver)
    return _repeat(lambda z: _substep(field, z, rows=rows, weights=weights, substeps=substeps), z, substeps)


@eqx.filter_custom_jvp
def _substep(field: ContractedNetwork, z: Float[Array, " state"], *, rows, weights, substeps) -> Float[Array, " state"]:
    """One Runge-Kutta step, with a derivative of its own: ordinary JAX, so it can be differentiated again."""
    return _evaluate(field, z, rows, weights, substeps)[0]


@_substep.def_jvp
def _substep_jvp(primals, tangents, *, rows, weights, substeps):
    """A stage's slope is M features + b. Its derivative is M dfeatures + (dM features + db), and what stands in
    brackets is one product for all stages, whose transpose gathers the gradient of M.
    """
    (field, z), (field_dot, z_dot) = primals, tangents
    after, points, features = _evaluate(field, z, rows, weights, substeps)
    matrix_dot, offset_dot = (
        jnp.zeros_like(value) if dot is None else dot
        for value, dot in ((field.matrix, field_dot.matrix), (field.offset, field_dot.offset))
    )
    z_dot = jnp.zeros_like(z) if z_dot is None else z_dot
    gathered = jnp.einsum("sw,kw->ks", matrix_dot, jnp.stack(features)) + offset_dot[None]
    slopes = []
    for row, point, fixed in zip(rows, points, gathered, strict=True):
        point_dot = _combine(z_dot, slopes, row, substeps)
        at = lambda features, point: features(point)
        _, features_dot = eqx.filter_jvp(at, (field.features, point), (field_dot.features, point_dot))
        slopes.append(field.matrix @ features_dot + fixed)
    return after, _combine(z_dot, slopes, weights, substeps)


def _evaluate(field: ContractedNetwork, z: Float[Array, " state"], rows, weights, substeps):
    """The state after a step, and each stage's point and features."""
    slopes, points, features = [], [], []
    for row in rows:
        points.append(_combine(z, slopes, row, substeps))
        features.append(field.features(points[-1]))
        slopes.append(field.matrix @ features[-1] + field.offset)
    return _combine(z, slopes, weights, substeps), points, features


def _combine(z: PyTree, slopes: list[PyTree], weights: list[float], substeps: int) -> PyTree:
    """z + sum of weights times slopes / substeps, leaving out what the tableau has zeros for."""
    used = [(weight / substeps, slope) for weight, slope in zip(weights, slopes, strict=True) if weight]
    add = lambda leaf, *leaves: leaf + sum(w * s for (w, _), s in zip(used, leaves, strict=True))
    return jax.tree.map(add, z, *(slope for _, slope in used)) if used else z


def _repeat(substep: Callable[[PyTree], PyTree], z: PyTree, substeps: int) -> PyTree:
    if substeps == 1:
        return substep(z)
    z, _ = jax.lax.scan(lambda z, _: (substep(z), None), z, None, length=substeps)
    return z
