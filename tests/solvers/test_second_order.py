"""Derivatives of derivatives, and forward mode: every field and every exact gradient against `Direct()`."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde.models import NeuralRDE
from neuralrde.solvers import RK4, Direct, Exponential, Nested, Recompute, solve

from ..fields.registry import AFFINE, FIELDS, KEY, STATE, driving, make, quick, start

pytestmark = pytest.mark.long

GRADIENTS = {"recompute": Recompute(), "nested": Nested(), "nested3": Nested(levels=3)}
# Fields are called in the same way by every method, so that each method meets a nonlinear and an affine one.
NESTED_WITH = {"free": ("direct", "recompute", "nested3"), "diagonal": ("direct", "recompute", "nested")}
# Substeps go another way through a step, so that one field takes two of them.
CASES = [(name, 2 if name == "free" else 1) for name in FIELDS]


def problem(name, substeps, rule=None):
    """A scalar of the weights, the initial state and the log-signatures, as a function of the gradient's method."""
    trained, rest = eqx.partition(make(name), eqx.is_inexact_array)
    rule = diffrax.Heun() if rule is None else rule

    def loss(point, gradient):
        trained, z0, windows = point
        states = solve(
            eqx.combine(trained, rest),
            z0,
            windows,
            solver=rule,
            substeps=substeps,
            gradient=gradient,
            every_window=True,
        )
        return (jnp.sin(states) @ jnp.arange(1.0, STATE + 1)).sum()

    return loss, (trained, start(), driving(3))


def like(tree, seed=0):
    leaves, structure = jax.tree.flatten(tree)
    rng = np.random.default_rng(seed)
    return structure.unflatten([jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves])


def dot(a, b):
    return sum(jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def hessian_vector(loss, point, direction, gradient):
    """Reverse over reverse."""
    return jax.grad(lambda p: dot(jax.grad(loss)(p, gradient), direction))(point)


def same(got, expected):
    for a, b in zip(*map(jax.tree.leaves, (got, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * max(1.0, float(jnp.abs(b).max())))  # sums reordered


@pytest.mark.parametrize(("name", "substeps"), CASES)
def test_hessian_vector_products_and_gradient_penalties(name, substeps):
    """The gradient of |d loss / d log-signatures|² is twice the Hessian times that slope: one program serves both."""
    with jax.enable_x64(True):
        loss, point = problem(name, substeps)
        trained, z0, _ = jax.tree.map(jnp.zeros_like, point)
        directions = like(point), (trained, z0, quick(jax.grad(lambda w: loss((*point[:2], w), Direct())))(point[2]))
        products = {
            kind: quick(lambda p, d, g=gradient: hessian_vector(loss, p, d, g))
            for kind, gradient in ({"direct": Direct()} | GRADIENTS).items()
            if kind in NESTED_WITH.get(name, ("direct", "recompute"))
        }
        for direction in directions:
            expected = products["direct"](point, direction)
            assert float(dot(expected, expected)) > 1e-6  # there is something to lose
            for kind in products.keys() - {"direct"}:
                same(products[kind](point, direction), expected)


def test_direct_second_derivatives_are_those_of_finite_differences():
    """What the other tests compare with."""
    with jax.enable_x64(True):
        loss, point = problem("free", 1)
        direction = like(point)
        slope = quick(lambda s: jax.grad(loss)(jax.tree.map(lambda x, d: x + s * d, point, direction), Direct()))
        difference = jax.tree.map(lambda a, b: (a - b) / 2e-5, slope(1e-5), slope(-1e-5))
        exact = quick(lambda p: hessian_vector(loss, p, direction, Direct()))(point)
        for a, b in zip(*map(jax.tree.leaves, (exact, difference)), strict=True):
            # Central differences of a gradient: step² times fourth derivatives, and rounding / step.
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * float(jnp.abs(b).max()))


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", ["free", "diagonal"])
def test_forward_mode(name, gradient):
    with jax.enable_x64(True):
        loss, point = problem(name, 2)
        direction = like(point)
        along = quick(lambda p, d: jax.jvp(lambda p: loss(p, GRADIENTS[gradient]), (p,), (d,))[1])(point, direction)
        slope = quick(lambda p: jax.grad(loss)(p, Direct()))(point)
        np.testing.assert_allclose(along, dot(slope, direction), rtol=1e-9)  # sums reordered


def test_third_derivatives():
    with jax.enable_x64(True):
        loss, point = problem("bounded", 1)
        direction = like(point)
        third = lambda g: jax.grad(lambda p: dot(hessian_vector(loss, p, direction, g), direction))(point)
        direct, other = quick(lambda: [third(g) for g in (Direct(), Recompute())])()
        same(other, direct)


@pytest.mark.parametrize("name", [*AFFINE, "linear, in parallel"])
def test_exact_flows(name):
    """`Exponential()` against many Runge-Kutta steps."""
    name, *parallel = name.split(", ")
    with jax.enable_x64(True):
        fine, point = problem(name, 128, RK4())
        exact, _ = problem(name, 1, Exponential(parallel=bool(parallel)))
        direction = like(point)
        expected = quick(lambda p, d: hessian_vector(fine, p, d, Direct()))(point, direction)
        got = quick(lambda p, d: hessian_vector(exact, p, d, Recompute()))(point, direction)
        for a, b in zip(*map(jax.tree.leaves, (got, expected)), strict=True):
            # 128 steps of order 4: (1/128)^4 / 120 times a fifth derivative; rotations turn up to twice a window.
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * max(1.0, float(jnp.abs(b).max())))


def test_a_gradient_penalty_on_a_whole_model():
    """From the path: through the compiled log-signatures, the scaling, the solve and the readout, in a batch."""
    with jax.enable_x64(True):
        paths = jnp.asarray(np.random.default_rng(0).normal(size=(4, 13, 2)).cumsum(axis=1))

        def model_with(gradient):
            model = NeuralRDE(
                2, 1, depth=2, state=3, width=4, layers=2, activation=jnp.tanh, gradient=gradient, key=KEY
            )
            return model.fit_scale(model.log_signatures(paths, step=3))

        def penalised(trained, rest):
            model = eqx.combine(trained, rest)
            output = lambda path: model(path[0], model.log_signatures(path, step=3))[0]
            return (jax.vmap(jax.grad(output))(paths) ** 2).sum()

        def gradient_of(gradient):
            trained, rest = eqx.partition(model_with(gradient), eqx.is_inexact_array)
            return eqx.filter_jit(jax.grad(penalised))(trained, rest)

        expected = jax.tree.leaves(gradient_of(Direct()))
        for gradient in (Recompute(), Nested()):
            for a, b in zip(jax.tree.leaves(gradient_of(gradient)), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)  # sums reordered
