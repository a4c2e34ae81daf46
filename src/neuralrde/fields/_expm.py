"""The exponential of affine fields: as a matrix, or, much cheaper, its action on one state. Exact to rounding.

`jax.scipy.linalg.expm` solves a linear system for each matrix and always pays for its largest number of squarings.
Here Taylor polynomials take products only, and steps and squarings stop at what the largest matrix of a batch needs.
Loops whose length depends on data have no gradient in JAX, so these have rules of their own. On the way back they
compute powers and states again from the start rather than keep them: they are few, most often one, and a batch that
kept a number of them that depends on its data would pay more for scattered writes. Second derivatives are rare: they
take a loop of fixed length, which always pays for the largest number of squarings.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Taylor degree, and the 1-norm up to which its remainder norm^(degree+1) / (degree+1)! lies below rounding.
_DEGREE = {jnp.dtype("float32"): (8, 0.7), jnp.dtype("float64"): (16, 0.7)}
# 0.7 * 2^16: norms beyond overflow the exponential, or leave no correct digit of a rotation in float32.
_MOST_SQUARINGS = 16
# Compose of a flow, as far; and where there is a way back, 0.7 * 2^8: it computes each state again from the start, half
# the square of this number of steps.
_MOST_STEPS, _MOST_STEPS_BACK = 2**16, 2**8


def expm(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """exp(matrix), by scaling and squaring. NaN, not a wrong number, where the norm is beyond all reason
    (4e4).

    >>> import jax.numpy as jnp
    >>> expm(jnp.zeros((2, 2))).tolist()  # exactly: a window without data leaves the state where it was
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _square(*_before_squaring(matrix))


def _before_squaring(matrix: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Array]:
    """The exponential of a fraction of the matrix, and how often that must be squared."""
    degree, reach = _DEGREE[jnp.dtype(matrix.dtype)]
    norm = jax.lax.stop_gradient(jnp.abs(matrix).sum(0).max())
    squarings = jnp.ceil(jnp.log2(jnp.maximum(norm / reach, 1.0)))
    usable = squarings <= _MOST_SQUARINGS  # also False for NaN and infinity
    squarings = jnp.where(usable, squarings, 0)
    scaled = matrix * jnp.where(usable, jnp.exp2(-squarings), jnp.nan)
    return _taylor(scaled, degree), squarings


def _taylor(a: Float[Array, "n n"], degree: int) -> Float[Array, "n n"]:
    """Paterson and Stockmeyer: a polynomial in a⁴ whose coefficients are cubic polynomials in a."""
    square = a @ a
    powers = [jnp.eye(a.shape[0], dtype=a.dtype), a, square, square @ a]
    fourth = square @ square
    total = powers[0] / math.factorial(degree)
    for start in range(degree - 4, -1, -4):
        total = fourth @ total
        total = total + sum(power / math.factorial(start + k) for k, power in enumerate(powers))
    return total


def _with_pull_back(value: Callable, pull_back: Callable, plain: Callable) -> Callable:
    """A function with a pull-back of its own, (*arguments, cotangent) -> cotangents of the arguments.

    `plain` is the same function in JAX that can be differentiated any number of times: the pull-back's derivatives
    are taken from it.
    """
    function, back = jax.custom_vjp(value), jax.custom_vjp(pull_back)
    in_jax = lambda *saved: jax.vjp(plain, *saved[:-1])[1](saved[-1])
    # Save copies, which XLA leaves out: under `jax.checkpoint`, JAX 0.10 loses track of arguments saved as they are
    # when it differentiates twice.
    copy = jax.lax.optimization_barrier
    function.defvjp(lambda *saved: (function(*saved), copy(saved)), lambda saved, cotangent: back(*saved, cotangent))
    back.defvjp(lambda *saved: (back(*saved), copy(saved)), lambda saved, bars: jax.vjp(in_jax, *saved)[1](bars))
    return function


def _squared(matrix: Float[Array, "n n"], times: Float[Array, ""]) -> Float[Array, "n n"]:
    return jax.lax.fori_loop(0, jnp.asarray(times, int), lambda _, m: m @ m, matrix)


def _square_pull_back(matrix, times, cotangent):
    def down(i, cotangent):
        square = _squared(matrix, times - 1 - i)
        return cotangent @ square.T + square.T @ cotangent

    return jax.lax.fori_loop(0, jnp.asarray(times, int), down, cotangent), jnp.zeros_like(times)


def _square_plain(matrix, times):
    square = lambda m, i: (jnp.where(i < times, m @ m, m), None)
    return jax.lax.scan(square, matrix, jnp.arange(_MOST_SQUARINGS, dtype=times.dtype))[0]


# matrix^(2^times)
_square = _with_pull_back(_squared, _square_pull_back, _square_plain)


@jax.custom_vjp
def affine_flow(
    matrix: Float[Array, "blocks n n"], offset: Float[Array, "blocks n"], z: Float[Array, "blocks n"]
) -> Float[Array, "blocks n"]:
    """The solution at time 1 of z' = matrix z + offset, a block at a time, without any exponential of a matrix.

    Its k-th derivative is matrix^(k-1) (matrix z + offset), so that a Taylor step takes products with vectors only;
    there are as many steps as keep the norm of the matrix below what the polynomial reaches. NaN where the norm is
    beyond reason, in training already beyond 180 in one window: it diverges, and is told so instead of waiting for it.

    >>> affine_flow(jnp.zeros((1, 2, 2)), jnp.ones((1, 2)), jnp.zeros((1, 2))).tolist()
    [[1.0, 1.0]]
    """
    return _flow(matrix, offset, z, _MOST_STEPS)


def _flow(matrix, offset, z, most):
    steps, length = _steps(matrix, most)
    return jax.lax.fori_loop(0, steps, lambda _, z: _taylor_step(matrix, offset, z, length), z)


def _steps(matrix, most):
    """How many steps, and how long each is: one of NaN where they would be too many."""
    _, reach = _DEGREE[jnp.dtype(matrix.dtype)]
    steps = jnp.maximum(jnp.ceil(jnp.abs(matrix).sum(1).max() / reach), 1)
    usable = steps <= most  # also False for NaN and infinity
    return jnp.where(usable, steps, 1).astype(int), jnp.where(usable, 1 / steps, jnp.nan).astype(matrix.dtype)


def _taylor_step(matrix, offset, z, length):
    degree, _ = _DEGREE[jnp.dtype(matrix.dtype)]
    term = length * (jnp.einsum("kij,kj->ki", matrix, z) + offset)
    total = z + term
    for order in range(2, degree + 1):
        term = length / order * jnp.einsum("kij,kj->ki", matrix, term)
        total = total + term
    return total


def _flow_pull_back(matrix, offset, z, cotangent):
    steps, length = _steps(matrix, _MOST_STEPS_BACK)

    def down(i, carry):
        cotangent, to_matrix, to_offset = carry
        before = jax.lax.fori_loop(0, steps - 1 - i, lambda _, z: _taylor_step(matrix, offset, z, length), z)
        _, pull_back = jax.vjp(lambda m, b, z: _taylor_step(m, b, z, length), matrix, offset, before)
        more_matrix, more_offset, cotangent = pull_back(cotangent)
        return cotangent, to_matrix + more_matrix, to_offset + more_offset

    start = (cotangent, jnp.zeros_like(matrix), jnp.zeros_like(offset))
    cotangent, to_matrix, to_offset = jax.lax.fori_loop(0, steps, down, start)
    return to_matrix, to_offset, cotangent


def _flow_plain(matrix, offset, z):
    exponential = jax.vmap(lambda matrix: _square_plain(*_before_squaring(matrix)))(augmented(matrix, offset))
    homogeneous = jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1)
    return jnp.einsum("kij,kj->ki", exponential, homogeneous)[:, :-1]


_flow_back = _with_pull_back(
    lambda matrix, offset, z: _flow(matrix, offset, z, _MOST_STEPS_BACK), _flow_pull_back, _flow_plain
)
affine_flow.defvjp(
    lambda *saved: (_flow_back(*saved), saved),
    lambda saved, cotangent: jax.vjp(_flow_back, *saved)[1](cotangent),
)


def augmented(matrix: Float[Array, "blocks n n"], offset: Float[Array, "blocks n"]) -> Float[Array, "blocks n+1 n+1"]:
    """[[A, b], [0, 0]], which acts on (z, 1) as the affine field does on z.

    >>> augmented(jnp.full((1, 1, 1), 2.0), jnp.ones((1, 1))).tolist()
    [[[2.0, 1.0], [0.0, 0.0]]]
    """
    return jnp.pad(jnp.concatenate([matrix, offset[..., None]], axis=-1), ((0, 0), (0, 1), (0, 0)))


def phi(a: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """φ(a) = (exp(a) - 1) / a entry by entry, with its derivative through a = 0.

    It is the integral of exp((1 - u) a) over 0 <= u <= 1.

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
