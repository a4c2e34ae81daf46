"""Brackets against symbolic ones, and the log-ODE against the CDE that it approximates."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

from neuralrde.fields import BracketField, FreeField, MatrixField, lie_bracket, taylor_step
from neuralrde.fields.derivatives import tensor_field
from neuralrde.signatures import log_signatures
from neuralrde.signatures.lyndon import bracketing, lyndon_words
from neuralrde.signatures.tensor import signature
from neuralrde.solvers import Direct, solve

from .registry import quick

X, Y = sympy.symbols("x y")
POLYNOMIALS = [sympy.Matrix([X * Y, 1 + X**2]), sympy.Matrix([Y**2 - X, X + Y**2 / 2])]


def columns(z):
    x, y = z
    return jnp.array([[x * y, y**2 - x], [1 + x**2, x + y**2 / 2]])


def symbolic_bracket(tree):
    if isinstance(tree, int):
        return POLYNOMIALS[tree]
    f, g = map(symbolic_bracket, tree)
    z = sympy.Matrix([X, Y])
    return (g.jacobian(z) * f - f.jacobian(z) * g).applyfunc(sympy.expand)


def nested(tree):
    if isinstance(tree, int):
        return lambda z: columns(z)[:, tree]
    return lie_bracket(*map(nested, tree))


@pytest.mark.parametrize("word", lyndon_words(2, 4), ids=str)
def test_brackets_equal_symbolic_ones_to_depth_4(word):
    with jax.enable_x64(True):
        z = jnp.array([0.7, -0.4])
        expected = np.array(symbolic_bracket(bracketing(word)).subs({X: 0.7, Y: -0.4}), float)[:, 0]
        field = BracketField(MatrixField(columns, 2, 2), depth=len(word))
        coordinates = jnp.array([float(w == word) for w in lyndon_words(2, len(word))])
        # Whole numbers times polynomials of degree at most 5: rounding only.
        got = quick(lambda c, z: field.contract(c)(z))(coordinates, z)
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)

        np.testing.assert_allclose(quick(nested(bracketing(word)))(z), expected, rtol=1e-11, atol=1e-12)


def test_commuting_fields_have_zero_brackets():
    with jax.enable_x64(True):
        field = BracketField(MatrixField(lambda z: jnp.stack([z, 2 * z], axis=1), 3, 2), depth=3)
        higher = jnp.array([0.0, 0.0, 1.0, -2.0, 3.0])
        np.testing.assert_array_equal(field.contract(higher)(jnp.array([1.0, 2.0, 3.0])), 0)


def test_the_contraction_takes_one_jvp_a_channel_at_depth_2():
    """Counted in the program: brackets one by one would run the trunk 2 · 15 times for 6 channels."""
    field = BracketField(FreeField(6, 4, width=8, layers=2, activation=jnp.tanh, key=jax.random.key(0)), depth=2)
    text = str(jax.make_jaxpr(lambda l, z: field.contract(l)(z))(jnp.ones(21), jnp.ones(4)))
    assert text.count("dot_general") < 30


def test_taylor_uses_the_definition_of_vector_field_derivatives():
    """f^{∘2}(z) e_i ⊗ e_j = D f_j(z) f_i(z), written out by hand with jacobians."""
    with jax.enable_x64(True):
        z = jnp.array([0.3, 0.8])
        jacobian = jax.jacobian(columns)(z)  # (state, channel, state)
        for i, j in itertools.product(range(2), repeat=2):
            levels = [jnp.zeros(2), jnp.zeros((2, 2)).at[i, j].set(1.0)]
            expected = jacobian[:, j] @ columns(z)[:, i]
            got = tensor_field(MatrixField(columns, 2, 2).contract, levels)(z)
            np.testing.assert_allclose(got, expected, rtol=1e-13)


def reference_and_errors(depths, steps, method):
    """End values of a smooth nonlinear CDE along a piecewise-linear path, against tiny windows."""
    times = np.linspace(0, 1, 193)
    path = np.stack([times, np.sin(5 * times), np.cos(3 * times) * times], axis=1)
    network = FreeField(3, 3, width=5, layers=2, activation=jnp.tanh, key=jax.random.key(2))
    network = jax.tree.map(lambda leaf: leaf.astype(float) if hasattr(leaf, "astype") else leaf, network)
    z0 = jnp.array([0.5, -0.3, 0.2])
    exact = quick(lambda x: solve(network, z0, x, substeps=8, gradient=Direct()))(np.diff(path, axis=0))
    return {
        depth: [float(jnp.abs(method(network, z0, path, depth, step) - exact).max()) for step in steps]
        for depth in depths
    }


def log_ode(network, z0, path, depth, step):
    windows = log_signatures(path, depth, step=step, basis="brackets")
    return quick(lambda w: solve(BracketField(network, depth), z0, w, substeps=8, gradient=Direct()))(windows)


def taylor(network, z0, path, depth, step):
    signatures = signature(np.stack([path[i : i + step + 1] for i in range(0, len(path) - 1, step)]), depth)
    one = lambda z, s: (taylor_step(network.contract, z, s, 3), None)
    return quick(lambda s: jax.lax.scan(one, z0, s)[0])(signatures)


@pytest.mark.parametrize("method", [log_ode, taylor])
def test_order_of_convergence_rises_with_depth(method):
    """The local error at depth N is O(step^(N+1)), so the slope of the global error against the step is N."""
    with jax.enable_x64(True):
        steps = [8, 16, 32]
        slopes = {}
        for depth, errors in reference_and_errors([1, 2, 3], steps, method).items():
            slopes[depth] = np.polyfit(np.log(steps), np.log(errors), 1)[0]
        # On a smooth curve the order can only be higher, as at depth 1 for the log-ODE (a chord is of second
        # order); 0.35 is what three step sizes leave to terms of higher order.
        for depth, slope in slopes.items():
            assert slope > depth - 0.35, slopes
        assert slopes[3] > slopes[1] + 0.7, slopes


def igbm(steps, depth, fine_times, fine_path, y0, *, a, b, sigma):
    """dy = a (b - y) dt + σ y ∘ dW by the log-ODE on `steps` windows of (t, W)."""
    field = BracketField(MatrixField(lambda y: jnp.stack([a * (b - y), sigma * y], axis=1), 1, 2), depth)
    path = np.stack([np.broadcast_to(fine_times, fine_path.shape), fine_path], axis=-1)
    windows = log_signatures(path, depth, step=(len(fine_times) - 1) // steps, basis="brackets")
    run = lambda w: solve(field, jnp.array([y0]), w, substeps=2, gradient=Direct())[0]
    return np.asarray(quick(jax.vmap(run))(jnp.asarray(windows)))


def test_igbm_25_steps_of_depth_3_equal_1000_increments():
    """The example of the paper's appendix A, with the parameters of Foster et al. (2020)."""
    with jax.enable_x64(True):
        rng, fine, paths = np.random.default_rng(0), 10_000, 40
        times = np.linspace(0, 5, fine + 1)
        brownian = np.pad(np.cumsum(rng.normal(size=(paths, fine)) * np.sqrt(5 / fine), axis=1), ((0, 0), (1, 0)))
        parameters = {"y0": 0.06, "a": 0.1, "b": 0.04, "sigma": 0.6}
        exact = igbm(fine, 1, times, brownian, **parameters)
        error = lambda steps, depth: np.sqrt(((igbm(steps, depth, times, brownian, **parameters) - exact) ** 2).mean())
        few, many = error(25, 3), error(1000, 1)
        # "Similar": 40 paths give a ratio of about a half, uncertain by a factor of 2.
        assert 0.2 < few / many < 1.5, (few, many)
        assert error(25, 1) > 10 * few
