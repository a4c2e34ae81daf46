r"""Derivatives of vector fields along vector fields (appendix A): Lie brackets, f^{∘k}, the Taylor method.

Throughout, `vector(y)` for y in R^v is the autonomous field z -> f(z) y of a CDE dZ = f(Z) dX; it is linear
in y, and `vector(e_i)` is the i-th vector field f_i.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..signatures.tensor import depth_of
from .base import Autonomous

# y -> (z -> f(z) y)
VectorFields = Callable[[Float[Array, " channels"]], Autonomous]


def lie_bracket(f: Autonomous, g: Autonomous) -> Autonomous:
    """[f, g] = Dg · f - Df · g, by two Jacobian-vector products.

    >>> import jax.numpy as jnp
    >>> bracket = lie_bracket(lambda z: jnp.array([1.0, 0.0]), lambda z: jnp.array([0.0, z[0]]))
    >>> bracket(jnp.zeros(2)).tolist()
    [0.0, 1.0]
    """

    def bracket(z):
        _, along_f = jax.jvp(g, (z,), (f(z),))
        _, along_g = jax.jvp(f, (z,), (g(z),))
        return along_f - along_g

    return bracket


def tensor_field(vector: VectorFields, levels: Sequence[Float[Array, "..."]]) -> Autonomous:
    """z -> Σ_k f^{∘k}(z) T_k: the action of f on an element T of the tensor algebra.

    With f^{∘k} of definition A.4. `levels[k-1]` is level k, with k axes of v channels each. Levels 1 and 2 take one
    JVP a channel,

        f·T1 + sum_j Df_j (sum_i T2_ij f_i),

    and higher ones are derivatives of such a sum along each f_i, so that depth 3 takes one nested JVP a pair of
    channels. Brackets one by one would take two JVPs for each Lyndon word of length 2 and four nested ones for each of
    length 3. Only f_1, ..., f_v themselves are ever evaluated, never f contracted with the levels: the weights of a
    network then stay shared by a batch, and its products large.
    """
    channels = levels[0].shape[0]
    units = jnp.eye(channels, dtype=levels[0].dtype)

    def field(z):
        columns = jax.vmap(lambda unit: vector(unit)(z))(units)  # f_i(z) in row i
        total = levels[0] @ columns
        if len(levels) > 1:
            along = lambda unit, direction: jax.jvp(vector(unit), (z,), (direction,))[1]
            total = total + jax.vmap(along)(units, levels[1].T @ columns).sum(0)
        if len(levels) > 2:
            nothing = jnp.zeros_like(levels[0])

            def higher(column, *rest):
                return jax.jvp(tensor_field(vector, (nothing, *rest)), (z,), (column,))[1]

            total = total + jax.vmap(higher)(columns, *levels[2:]).sum(0)
        return total

    return field


def split_levels(flat: Float[Array, " expanded"], channels: int) -> list[Float[Array, "..."]]:
    """A flattened element of the tensor algebra as its levels, level k with k axes."""
    levels, start = [], 0
    for level in range(1, depth_of(flat.shape[0], channels) + 1):
        levels.append(flat[start : start + channels**level].reshape((channels,) * level))
        start += channels**level
    return levels


def taylor_step(
    vector: VectorFields, z: Float[Array, " state"], signature: Float[Array, " signature"], channels: int
) -> Float[Array, " state"]:
    """The Taylor method with the signature S: z + Σ_k f^{∘k}(z) S_k, for k from 1 to its depth.

    >>> import jax.numpy as jnp
    >>> growth = lambda y: lambda z: z * y[0]
    >>> float(taylor_step(growth, jnp.ones(1), jnp.array([1.0, 0.5]), channels=1)[0])  # 1 + 1 + 1/2
    2.5
    """
    return z + tensor_field(vector, split_levels(signature, channels))(z)
