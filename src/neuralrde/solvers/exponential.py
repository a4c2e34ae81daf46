"""The exact solver of affine fields: each window's flow is an exponential, and flows compose."""

import jax
from jaxtyping import Array, Float

from ..fields import AbstractAffine, AbstractControlledField, Autonomous
from .base import AbstractSolver
from .gradients import Backsolve


class Exponential(AbstractSolver):
    """Solves affine fields (`LinearField`, `DiagonalField`, `RotationField`) exactly.

    Args:
        parallel: whether to compose the windows' flows in parallel over time, by an associative scan. It takes a
            logarithmic number of large products, and all windows' flows are in memory at once. None, the default, does
            so on GPUs and TPUs. On a CPU it takes one window after the other, which was faster for batches of every
            kind of field (diagonal: 8 times). For a single long series on a CPU, try True.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import DiagonalField
    >>> from neuralrde.solvers import solve
    >>> field = DiagonalField(controls=3, state=4, key=jax.random.key(0))
    >>> solve(field, jnp.ones(4), jnp.zeros((10, 3)), solver=Exponential()).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    parallel: bool | None = None

    def in_parallel(self) -> bool:
        return jax.default_backend() != "cpu" if self.parallel is None else self.parallel

    def integrate(self, field, z0, log_signatures, *, substeps, gradient, every_window):
        if isinstance(gradient, Backsolve):
            raise TypeError(
                "Got gradient=Backsolve() with solver=Exponential(); expected an exact gradient, because the adjoint's "
                "equation is not affine even where the field is. Write gradient=Recompute(), or solver=RK4()."
            )
        if self.in_parallel():
            states = solve_parallel(field, z0, log_signatures)
            return states if every_window else states[-1]
        exact = lambda contracted, z: affine(contracted).advance(z)
        return gradient.integrate(exact, field, z0, log_signatures, every_window)


def states_of(
    field: AbstractControlledField, z0: Float[Array, " state"], inputs: Float[Array, "tokens controls"]
) -> Float[Array, "tokens state"]:
    """The state after every token. All flows are made first, in one large product, for sequences of some dozens.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import DiagonalField
    >>> states_of(DiagonalField(controls=3, state=4, key=jax.random.key(0)), jnp.ones(4), jnp.zeros((10, 3))).shape
    (10, 4)
    """
    if Exponential().in_parallel():
        return solve_parallel(field, z0, inputs)
    flows = jax.vmap(lambda one: affine(field.contract(one)).flow())(inputs)

    if inputs.shape[0] == 1:
        return jax.vmap(lambda flow: flow(z0))(flows)

    def advance(z, flow):
        z = flow(z)
        return z, z

    return jax.lax.scan(advance, z0, flows)[1]


def affine(field: Autonomous) -> AbstractAffine:
    if not isinstance(field, AbstractAffine):
        raise TypeError(
            f"Got a field that contracts to {type(field).__name__}; expected an affine one, because `Exponential()` "
            "solves z' = A z + b. Write solver=RK4() for this field."
        )
    return field


def solve_parallel(
    field: AbstractControlledField, z0: Float[Array, " state"], log_signatures: Float[Array, "windows controls"]
) -> Float[Array, "windows state"]:
    """Every window's state at once, by an associative scan over the flows."""
    flows = jax.vmap(lambda log_signature: affine(field.contract(log_signature)).flow())(log_signatures)
    cumulative = jax.lax.associative_scan(lambda earlier, later: earlier.then(later), flows)
    return jax.vmap(lambda flow: flow(z0))(cumulative)
