"""The matrix exponential for many small matrices at once, exact to rounding, with a cheap gradient.

`jax.scipy.linalg.expm` solves a linear system for each matrix and always pays for its largest number of
squarings. Here a Taylor polynomial takes matrix products only, and squarings stop at what the largest matrix
of a batch needs.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Taylor degree, and the 1-norm up to which its remainder norm^(degree+1) / (degree+1)! lies below rounding.
_DEGREE = {jnp.dtype("float32"): (8, 0.7), jnp.dtype("float64"): (16, 0.7)}
# 0.7 * 2^16: norms beyond overflow the exponential, or leave no correct digit of a rotation in float32.
_MOST_SQUARINGS = 16


def expm(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """exp(matrix), by scaling and squaring. NaN, not a wrong number, where the norm is beyond all reason
    (4e4).

    >>> import jax.numpy as jnp
    >>> expm(jnp.zeros((2, 2))).tolist()  # exactly: a window without data leaves the state where it was
    [[1.0, 0.0], [0.0, 1.0]]
    """
    degree, reach = _DEGREE[jnp.dtype(matrix.dtype)]
    norm = jax.lax.stop_gradient(jnp.abs(matrix).sum(0).max())
    squarings = jnp.ceil(jnp.log2(jnp.maximum(norm / reach, 1.0)))
    usable = squarings <= _MOST_SQUARINGS  # also False for NaN and infinity
    squarings = jnp.where(usable, squarings, 0)
    scaled = matrix * jnp.where(usable, jnp.exp2(-squarings), jnp.nan)
    return _square(_taylor(scaled, degree), squarings.astype(int))


def _taylor(a: Float[Array, "n n"], degree: int) -> Float[Array, "n n"]:
    """Paterson and Stockmeyer: a polynomial in a⁴ whose coefficients are cubic polynomials in a."""
    powers = [jnp.eye(a.shape[0], dtype=a.dtype), a]
    powers += [powers[1] @ a]
    powers += [powers[2] @ a]
    fourth = powers[2] @ powers[2]
    total = powers[0] / math.factorial(degree)
    for start in range(degree - 4, -1, -4):
        total = fourth @ total
        total = total + sum(power / math.factorial(start + k) for k, power in enumerate(powers))
    return total


@jax.custom_vjp
def _square(matrix: Float[Array, "n n"], times: Array) -> Float[Array, "n n"]:
    """matrix^(2^times). A loop whose length depends on data has no gradient in JAX, hence the rule below."""
    return jax.lax.fori_loop(0, times, lambda _, m: m @ m, matrix)


def _square_forward(matrix, times):
    return _square(matrix, times), (matrix, times)


def _square_backward(saved, cotangent):
    matrix, times = saved
    squares = jnp.zeros((_MOST_SQUARINGS, *matrix.shape), matrix.dtype)

    def up(i, carry):
        matrix, squares = carry
        return matrix @ matrix, squares.at[i].set(matrix)

    def down(i, cotangent):
        square = squares[times - 1 - i]
        return cotangent @ square.T + square.T @ cotangent

    _, squares = jax.lax.fori_loop(0, times, up, (matrix, squares))
    return jax.lax.fori_loop(0, times, down, cotangent), None


_square.defvjp(_square_forward, _square_backward)


def phi(a: Array) -> Array:
    r"""$\varphi(a) = (e^a - 1)/a = \int_0^1 e^{(1-u)a} du$ entry by entry, real or complex, smooth through a
    = 0.

    >>> phi(jnp.zeros(1)).tolist()
    [1.0]
    """
    near = jnp.abs(a) < 0.5
    small = jnp.where(near, a, 0)
    series = jnp.ones_like(a)
    for k in range(14, 1, -1):  # 0.5^14 / 15! is below float64's rounding
        series = 1 + small * series / k
    large = jnp.where(near, 1, a)  # the branch not taken must have a finite derivative too
    return jnp.where(near, series, (jnp.exp(large) - 1) / large)
