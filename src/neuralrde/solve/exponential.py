"""The exact solver of affine fields: each window's flow is an exponential, and flows compose."""

import equinox as eqx
import jax
from jaxtyping import Array, Float

from ..fields import AbstractAffine, AbstractField, AbstractFlow, Autonomous
from ..fields.affine import DiagonalFlow


class Exponential(eqx.Module):
    """Solves affine fields (`LinearField`, `DiagonalField`, `RotationField`) exactly.

    Args:
        parallel: compose the windows' flows in parallel over time (an associative scan: a logarithmic number
            of large products) instead of one window after the other. By default whichever was faster for the
            kind of field: parallel for diagonal fields; one after the other for matrices on a CPU, where
            products of matrices cost more than products with a vector save. In parallel all windows' flows
            are in memory at once.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import DiagonalField
    >>> from neuralrde.solve import solve
    >>> field = DiagonalField(controls=3, state=4, key=jax.random.key(0))
    >>> solve(field, jnp.ones(4), jnp.zeros((10, 3)), solver=Exponential()).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    parallel: bool | None = None

    def in_parallel(self, flow: AbstractFlow) -> bool:
        if self.parallel is not None:
            return self.parallel
        return isinstance(flow, DiagonalFlow) or jax.default_backend() != "cpu"


def flow_of(field: Autonomous) -> AbstractFlow:
    if not isinstance(field, AbstractAffine):
        raise TypeError(
            f"Got a field that contracts to {type(field).__name__}; expected an affine one, because "
            "`Exponential()` solves z' = A z + b. Write solver=RK4() for this field."
        )
    return field.flow()


def solve_parallel(
    field: AbstractField, z0: Float[Array, " state"], log_signatures: Float[Array, "windows controls"]
) -> Float[Array, "windows state"]:
    """Every window's state at once, by an associative scan over the flows."""
    flows = jax.vmap(lambda log_signature: flow_of(field.contract(log_signature)))(log_signatures)
    cumulative = jax.lax.associative_scan(lambda earlier, later: earlier.then(later), flows)
    return jax.vmap(lambda flow: flow(z0))(cumulative)
