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
# Side up to which a product is written out.
_TINY = 6


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


def _product(a: Float[Array, "n n"], b: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """a @ b. A batch of tiny matrices is faster as sums of products: a call to a matrix product costs more."""
    if a.shape[0] > _TINY:
        return a @ b
    return sum(a[:, k, None] * b[k] for k in range(a.shape[0]))  # pyright: ignore


def _taylor(a: Float[Array, "n n"], degree: int) -> Float[Array, "n n"]:
    """Paterson and Stockmeyer: a polynomial in a⁴ whose coefficients are cubic polynomials in a."""
    square = _product(a, a)
    powers = [jnp.eye(a.shape[0], dtype=a.dtype), a, square, _product(square, a)]
    fourth = _product(square, square)
    total = powers[0] / math.factorial(degree)
    for start in range(degree - 4, -1, -4):
        total = _product(fourth, total)
        total = total + sum(power / math.factorial(start + k) for k, power in enumerate(powers))
    return total


@jax.custom_vjp
def _square(matrix: Float[Array, "n n"], times: Array) -> Float[Array, "n n"]:
    """matrix^(2^times). A loop whose length depends on data has no gradient in JAX, hence the rule below."""
    return jax.lax.fori_loop(0, times, lambda _, m: _product(m, m), matrix)


def _square_forward(matrix, times):
    return _square(matrix, times), (matrix, times)


def _square_backward(saved, cotangent):
    matrix, times = saved
    squares = jnp.zeros((_MOST_SQUARINGS, *matrix.shape), matrix.dtype)

    def up(i, carry):
        matrix, squares = carry
        return _product(matrix, matrix), squares.at[i].set(matrix)

    def down(i, cotangent):
        square = squares[times - 1 - i]
        return _product(cotangent, square.T) + _product(square.T, cotangent)

    _, squares = jax.lax.fori_loop(0, times, up, (matrix, squares))
    return jax.lax.fori_loop(0, times, down, cotangent), None


_square.defvjp(_square_forward, _square_backward)


def phi(a: Float[Array, "*n"]) -> Float[Array, "*n"]:
    r"""$\varphi(a) = (e^a - 1)/a = \int_0^1 e^{(1-u)a} du$ entry by entry, with its derivative through a = 0.

    >>> phi(jnp.zeros(1)).tolist()
    [1.0]
    """
    near = a**2 < jnp.finfo(a.dtype).eps  # where 1 + a/2 is right to rounding
    safe = jnp.where(near, 1, a)  # the branch not taken must have a finite derivative too
    return jnp.where(near, 1 + a / 2, jnp.expm1(safe) / safe)


def phi_of_pair(a: Float[Array, "*n"], b: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """Real and imaginary part of phi(a + ib), without complex numbers and without cancellation near zero.

    >>> [float(part[0]) for part in phi_of_pair(jnp.zeros(1), jnp.zeros(1))]
    [1.0, 0.0]
    """
    square = a**2 + b**2
    near = square < jnp.finfo(a.dtype).eps
    safe = jnp.where(near, 1, square)
    # e^(a + ib) - 1, the real part as (e^a - 1) cos b - 2 sin²(b/2)
    real = jnp.expm1(a) * jnp.cos(b) - 2 * jnp.sin(b / 2) ** 2
    imaginary = jnp.exp(a) * jnp.sin(b)
    return (
        jnp.where(near, 1 + a / 2, (real * a + imaginary * b) / safe),
        jnp.where(near, b / 2, (imaginary * a - real * b) / safe),
    )
