"""Explicit Runge-Kutta steps for autonomous fields, by tableau and with unrolled stages.

Any explicit Runge-Kutta solver of Diffrax is accepted. Only its tableau is used: calling `solver.step` inside
the scan over windows was four times slower.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..fields import Autonomous, ContractedNetwork

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
    """The 3/8 rule of order 4: what torchdiffeq calls rk4, and so what the paper's results were made with.

    >>> RK4ThreeEighths().tableau.b_sol.tolist()
    [0.125, 0.375, 0.375, 0.125]
    """

    tableau: ClassVar[Tableau] = _tableau([[1 / 3], [-1 / 3, 1], [1, -1, 1]], [1 / 8, 3 / 8, 3 / 8, 1 / 8])
    interpolation_cls: ClassVar[Callable] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        return 4


def stages_of(solver: Any) -> tuple[list[list[float]], list[float]]:
    """The rows of a solver's tableau, the first one empty, and the weights of the stages."""
    if isinstance(solver, diffrax.Euler):  # the one explicit Runge-Kutta method that Diffrax writes without a tableau
        return [[]], [1.0]
    if not isinstance(solver, diffrax.AbstractERK):
        raise TypeError(
            f"Got solver={solver!r}; expected an explicit Runge-Kutta solver, because the stages are "
            "unrolled over each window: `RK4()`, `RK4ThreeEighths()`, or Diffrax's `Euler()`, `Heun()`, "
            "`Tsit5()`, ...; for linear fields `Exponential()`. For adaptive or implicit steps see "
            "`solve_adaptive`."
        )
    tableau = solver.tableau
    assert isinstance(tableau, Tableau)
    return [[], *(row.tolist() for row in tableau.a_lower)], tableau.b_sol.tolist()


def advance(solver: Any, field: Callable[[PyTree], PyTree], z: PyTree, substeps: int = 1) -> PyTree:
    """Flow z' = field(z) for unit time, in equal substeps. z may be any tree of arrays."""
    rows, weights = stages_of(solver)

    def substep(z):
        slopes = []
        for row in rows:
            slopes.append(field(_combine(z, slopes, row, substeps)))
        return _combine(z, slopes, weights, substeps)

    return _repeat(substep, z, substeps)


def advance_gathered(
    solver: Any, field: Autonomous, z: Float[Array, " state"], substeps: int = 1
) -> Float[Array, " state"]:
    """As `advance`, with the gradient of a contracted network's matrix gathered once a substep.

    Left to JAX, each stage adds its outer product to the gradient of the matrix, the largest array of a
    window, and on a CPU these additions were the slowest part of training. They are one small matrix product
    over the stages. It needs each stage's total slope cotangent, which arrives, exactly, at an offset of the
    stage's own. So: evaluate the stages once for their features, tie these to the offsets (`_offsets`), and
    evaluate again with the matrix held constant. Both evaluations are the same expressions, which XLA merges
    into one.
    """
    if not isinstance(field, ContractedNetwork):
        return advance(solver, field, z, substeps)
    rows, weights = stages_of(solver)
    matrix = jax.lax.stop_gradient(field.matrix)

    def evaluate(z, offsets):
        slopes, features = [], []
        for row, offset in zip(rows, offsets, strict=True):
            features.append(field.features(_combine(z, slopes, row, substeps)))
            slopes.append(matrix @ features[-1] + offset)
        return _combine(z, slopes, weights, substeps), tuple(features)

    def substep(z):
        _, features = evaluate(z, (field.offset,) * len(rows))
        return evaluate(z, _offsets(field.matrix, field.offset, jax.lax.stop_gradient(features)))[0]

    return _repeat(substep, z, substeps)


@jax.custom_vjp
def _offsets(matrix, offset, features):
    """The offset once for each stage; backwards, the gradient of the matrix too."""
    return (offset,) * len(features)


def _offsets_forward(matrix, offset, features):
    return _offsets(matrix, offset, features), features


def _offsets_backward(features, cotangents):
    matrix = jnp.einsum("ks,kw->sw", jnp.stack(cotangents), jnp.stack(features))
    return matrix, sum(cotangents), None


_offsets.defvjp(_offsets_forward, _offsets_backward)


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
