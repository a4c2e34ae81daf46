"""The exact solver of affine fields: each window's flow is an exponential, and flows compose."""

import equinox as eqx
import jax
from jaxtyping import Array, Float

from ..fields import AbstractAffine, AbstractField, Autonomous


class Exponential(eqx.Module):
    """Solves affine fields (`LinearField`, `DiagonalField`, `RotationField`) exactly.

    Args:
        parallel: compose the windows' flows in parallel over time, by an associative scan: a logarithmic number of
            large products, with all windows' flows in memory at once. None, the default, does so on GPUs and TPUs
            and goes one window after the other on a CPU, where that was faster for batches of every kind of field
            (diagonal: 8 times). For a single long series on a CPU, try True.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import DiagonalField
    >>> from neuralrde.solve import solve
    >>> field = DiagonalField(controls=3, state=4, key=jax.random.key(0))
    >>> solve(field, jnp.ones(4), jnp.zeros((10, 3)), solver=Exponential()).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    parallel: bool | None = None

    def in_parallel(self) -> bool:
        return jax.default_backend() != "cpu" if self.parallel is None else self.parallel


def affine(field: Autonomous) -> AbstractAffine:
    if not isinstance(field, AbstractAffine):
        raise TypeError(
            f"Got a field that contracts to {type(field).__name__}; expected an affine one, because `Exponential()` "
            "solves z' = A z + b. Write solver=RK4() for this field."
        )
    return field


def solve_parallel(
    field: AbstractField, z0: Float[Array, " state"], log_signatures: Float[Array, "windows controls"]
) -> Float[Array, "windows state"]:
    """Every window's state at once, by an associative scan over the flows."""
    flows = jax.vmap(lambda log_signature: affine(field.contract(log_signature)).flow())(log_signatures)
    cumulative = jax.lax.associative_scan(lambda earlier, later: earlier.then(later), flows)
    return jax.vmap(lambda flow: flow(z0))(cumulative)
