"""Linear fields against SciPy's matrix exponential and against the CDE itself."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralrde.fields import DiagonalField, LinearField, RotationField, expm
from neuralrde.fields._expm import affine_flow, phi, phi_of_pair
from neuralrde.signatures import log_signatures
from neuralrde.solvers import Exponential, solve

from .registry import quick

EXPM, PHI, PHI_OF_PAIR = quick(jax.vmap(expm)), quick(phi), quick(phi_of_pair)


@pytest.mark.parametrize("size", [0.0, 1e-8, 0.3, 1.0, 7.0, 60.0])
@pytest.mark.parametrize("wide", [False, True])
def test_expm_equals_scipy(size, wide):
    with jax.enable_x64(wide):
        matrices = np.random.default_rng(3).normal(size=(5, 6, 6)) * size / 4
        got = np.asarray(EXPM(jnp.asarray(matrices)))
        expected = scipy.linalg.expm(np.asarray(jnp.asarray(matrices), float))
        # Squaring s times doubles the relative error s times, so rounding is multiplied by about the norm.
        rounding = 4e-16 if wide else 2e-7
        error = np.abs(got - expected).max() / np.abs(expected).max()
        assert error < 30 * rounding * max(size, 1)


def test_expm_of_a_fast_rotation_stays_a_rotation():
    with jax.enable_x64(True):
        angle = 1000.0
        turned = expm(jnp.array([[0.0, -angle], [angle, 0.0]]))
        expected = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        np.testing.assert_allclose(turned, expected, atol=1e-12)  # rounding times the angle


def test_expm_beyond_reason_is_nan_not_wrong():
    assert np.isnan(expm(jnp.full((2, 2), 1e6))).all()
    assert np.isnan(expm(jnp.full((2, 2), jnp.inf))).all()


def test_a_flow_beyond_reason_is_nan_at_once():
    """A training that diverges must be told so; the way back of a million steps would take hours."""
    flow = lambda size: affine_flow(jnp.full((1, 4, 4), size), jnp.ones((1, 4)), jnp.ones((1, 4))).sum()
    values, gradients = quick(jax.vmap(jax.value_and_grad(flow)))(jnp.array([1e3, 1e8, jnp.inf, jnp.nan, -20.0]))
    assert np.isnan(values).tolist() == np.isnan(gradients).tolist() == [True] * 4 + [False]


def test_a_flow_may_turn_fast():
    turning = jnp.array([[[-0.5, -200.0], [200.0, -0.5]]])
    z = jnp.ones((1, 2))
    exact = jnp.einsum("kij,kj->ki", jax.vmap(expm)(turning), z)
    np.testing.assert_allclose(affine_flow(turning, jnp.zeros((1, 2)), z), exact, atol=2e-4)  # 200 times rounding


def test_gradient_of_expm():
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        a, direction, weight = (jnp.asarray(rng.normal(size=(4, 4))) * 2 for _ in range(3))
        gradient = jax.grad(lambda a: (weight * expm(a)).sum())(a)
        # SciPy's Fréchet derivative is the directional derivative.
        _, frechet = scipy.linalg.expm_frechet(np.asarray(a), np.asarray(direction))
        np.testing.assert_allclose((gradient * direction).sum(), (weight * frechet).sum(), rtol=1e-11)


@pytest.mark.parametrize("size", [0.0, 0.5, 4.0])
def test_affine_flow_and_its_gradient(size):
    """Against the augmented exponential, whose own gradient is checked above."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(4)
        matrix, offset, z = (rng.normal(size=shape) for shape in ((2, 3, 3), (2, 3), (2, 3)))
        matrix = matrix * size / 3

        def by_expm(matrix, offset, z):
            augmented = jnp.pad(jnp.concatenate([matrix, offset[..., None]], -1), ((0, 0), (0, 1), (0, 0)))
            exponential = jax.vmap(expm)(augmented)
            return jnp.einsum("kij,kj->ki", exponential[:, :3, :3], z) + exponential[:, :3, 3]

        loss = lambda flow, *point: jnp.sin(flow(*point) / (1 + size) ** 2).sum()
        grad = lambda flow: quick(jax.value_and_grad(functools.partial(loss, flow), (0, 1, 2)))(matrix, offset, z)
        got, expected = (jax.tree.leaves(grad(flow)) for flow in (affine_flow, by_expm))
        for a, b in zip(got, expected, strict=True):
            # Rounding, times the norm for each of the two ways.
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * max(np.abs(b).max(), 1))


@given(st.complex_numbers(max_magnitude=30, allow_nan=False, allow_infinity=False))
@settings(max_examples=60, deadline=None)
def test_phi(a):
    with jax.enable_x64(True):
        expected = scipy.linalg.expm(np.array([[a, 1], [0, 0]]))[0, 1]
        real, imaginary = PHI_OF_PAIR(jnp.asarray(a.real), jnp.asarray(a.imag))
        # SciPy's own rounding at |a| = 30 is what is seen here.
        np.testing.assert_allclose(complex(real, imaginary), expected, rtol=1e-12)
        expected = scipy.linalg.expm(np.array([[a.real, 1], [0, 0]]))[0, 1]
        np.testing.assert_allclose(PHI(jnp.asarray(a.real)), expected, rtol=1e-12)


def test_phi_has_its_derivative_at_zero():
    """phi(a) = 1 + a/2 + ...: a driven state whose rates are all zero still learns them."""
    assert jax.grad(phi)(0.0) == 0.5
    (to_a, _), (_, to_b) = jax.jacobian(phi_of_pair, (0, 1))(0.0, 0.0)
    assert (to_a, to_b) == (0.5, 0.5)


@pytest.mark.parametrize("block", [None, 2])
def test_deep_log_ode_of_a_linear_cde_is_the_product_of_the_increments_exponentials(block):
    """Fixes the sign of brackets: with the commutator's own, depth 2 is *less* accurate than depth 1."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(5)
        path = np.cumsum(rng.normal(size=(13, 2)) * 0.1, axis=0)
        z0 = jnp.asarray(rng.normal(size=4))
        errors = []
        for depth in (1, 2, 3, 4):
            field = LinearField(2, 4, depth, block=block, key=jax.random.key(0))
            exact = np.append(z0, 1.0)
            for increment in np.diff(path, axis=0):
                augmented = np.zeros((5, 5))
                for dx, blocks, offsets in zip(increment, field.matrices, field.offsets, strict=True):
                    augmented[:4, :4] += dx * scipy.linalg.block_diag(*np.asarray(blocks))
                    augmented[:4, 4] += dx * np.asarray(offsets).ravel()
                exact = scipy.linalg.expm(augmented) @ exact
            windows = jnp.asarray(log_signatures(path, depth, step=6, basis="brackets"))
            run = quick(lambda z0, windows, field=field: solve(field, z0, windows, solver=Exponential()))
            errors.append(np.abs(run(z0, windows) - exact[:4]).max())
        # Each level gains about the size of a window's path times the matrices' norm: 0.3 here, or better.
        assert all(later < 0.6 * earlier for earlier, later in itertools.pairwise(errors)), errors


def test_one_window_equals_scipy_expm():
    with jax.enable_x64(True):
        field = LinearField(3, 4, 1, key=jax.random.key(1))
        increment = jnp.array([[0.5, -1.0, 0.25]])
        generator = np.zeros((5, 5))
        generator[:4, :4] = np.einsum("c,ckij->ij", increment[0], field.matrices)
        generator[:4, 4] = np.einsum("c,cki->i", increment[0], field.offsets)
        z0 = np.arange(4.0)
        expected = (scipy.linalg.expm(generator) @ np.append(z0, 1.0))[:4]
        got = solve(field, jnp.asarray(z0), increment, solver=Exponential())
        np.testing.assert_allclose(got, expected, rtol=1e-13)


@pytest.mark.parametrize("build", [DiagonalField, RotationField])
def test_diagonal_flows_equal_dense_ones(build):
    with jax.enable_x64(True):
        field = build(3, 4, key=jax.random.key(2))
        affine = field.contract(jnp.array([0.3, -0.2, 0.5]))
        generator = np.zeros((5, 5))
        generator[:4, 4] = affine(jnp.zeros(4))
        generator[:4, :4] = jax.jacobian(affine)(jnp.zeros(4))
        z0 = np.array([1.0, -2.0, 0.5, 0.3])
        expected = (scipy.linalg.expm(generator) @ np.append(z0, 1.0))[:4]
        np.testing.assert_allclose(affine.flow()(jnp.asarray(z0)), expected, rtol=1e-12)


def test_errors_say_what_to_write():
    with pytest.raises(ValueError, match=r"block=2"):
        LinearField(2, 4, 1, block=6, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"state=6"):
        RotationField(2, 5, key=jax.random.key(0))
