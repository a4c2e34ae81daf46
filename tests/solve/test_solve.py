"""Every field with every solver and every gradient, against independent solvers and finite differences."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from neuralrde.fields import FreeField, LinearField
from neuralrde.solve import (
    RK4,
    Backsolve,
    Direct,
    Exponential,
    Nested,
    Recompute,
    RK4ThreeEighths,
    solve,
    solve_adaptive,
)

from ..fields.registry import AFFINE, CHANNELS, DEPTH, FIELDS, KEY, STATE, driving, make, start

# Solver and the order of its error in the number of substeps.
SOLVERS = {
    "euler": (diffrax.Euler(), 1),
    "heun": (diffrax.Heun(), 2),
    "midpoint": (diffrax.Midpoint(), 2),
    "bosh3": (diffrax.Bosh3(), 3),
    "rk4": (RK4(), 4),
    "rk4_3/8": (RK4ThreeEighths(), 4),
    "tsit5": (diffrax.Tsit5(), 5),
    "dopri5": (diffrax.Dopri5(), 5),
}
EXACT_GRADIENTS = {"direct": Direct(), "recompute": Recompute(), "nested": Nested(), "nested3": Nested(levels=3)}


def exact(field, z0, log_signatures):
    """SciPy's solver, window by window, at a tolerance beyond all that is compared with it."""
    z = np.asarray(z0)
    for log_signature in log_signatures:
        slope = jax.jit(field.contract(log_signature))
        z = scipy.integrate.solve_ivp(lambda _, z, f=slope: f(z), (0, 1), z, rtol=1e-12, atol=1e-13).y[:, -1]
    return z


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_solves_to_what_scipy_says(name):
    with jax.enable_x64(True):
        field, windows = make(name), driving(2)
        got = jax.jit(lambda z, w: solve(field, z, w, solver=diffrax.Dopri5(), substeps=8))(start(), windows)
        # Eight steps of order 5 across fields of about unit size: (1/8)^5 / 120.
        np.testing.assert_allclose(got, exact(field, start(), windows), atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_converges_at_its_order(solver):
    with jax.enable_x64(True):
        field, windows = make("free"), driving(2, size=1.0)
        rule, order = SOLVERS[solver]
        reference = jax.jit(lambda w: solve(field, start(), w, solver=diffrax.Dopri8(), substeps=16))(windows)
        errors = []
        for substeps in (4, 8):
            run = jax.jit(lambda w, n=substeps: solve(field, start(), w, solver=rule, substeps=n))
            errors.append(np.abs(run(windows) - reference).max())
        # Half a unit for the terms of higher order that four substeps still see.
        assert abs(np.log2(errors[0] / errors[1]) - order) < 0.5, errors


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("solver", ["rk4", "exponential"])
def test_every_gradient_of_every_field(name, solver):
    """Direct differentiation against finite differences, and every other exact gradient against it."""
    if solver == "exponential" and name not in AFFINE:
        pytest.skip("no exact flow")
    with jax.enable_x64(True):
        windows, weight = driving(5), jnp.arange(1.0, STATE + 1)
        rule = RK4() if solver == "rk4" else Exponential(parallel=False)
        trained, rest = eqx.partition(make(name), eqx.is_inexact_array)

        def loss(trained, z0, windows, gradient, every_window=False):
            out = solve(
                eqx.combine(trained, rest), z0, windows, solver=rule, gradient=gradient, every_window=every_window
            )
            return (jnp.sin(out) @ weight).sum()

        point = (trained, start(), windows)

        @jax.jit
        def everything(point):
            grads = {n: jax.grad(loss, (0, 1, 2))(*point, g) for n, g in EXACT_GRADIENTS.items()}
            every = {n: jax.grad(loss, (0, 1, 2))(*point, g, True) for n, g in EXACT_GRADIENTS.items()}
            return grads, every

        @jax.jit
        def difference(point, direction, size):
            move = lambda s: loss(*jax.tree.map(lambda x, d: x + s * size * d, point, direction), Direct())
            return (move(1.0) - move(-1.0)) / (2 * size)

        leaves, tree = jax.tree.flatten(point)
        rng = np.random.default_rng(0)
        direction = tree.unflatten([jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves])
        grads, every = everything(point)
        along = sum(jnp.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (grads["direct"], direction)), strict=True))
        # Central differences: error size² in the step and rounding / size; 1e-5 balances them at about 1e-9.
        np.testing.assert_allclose(along, difference(point, direction, 1e-5), rtol=1e-6)
        for kind in (grads, every):
            for other in kind.values():
                for a, b in zip(*map(jax.tree.leaves, (kind["direct"], other)), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)  # the same sums in another order


@pytest.mark.parametrize("every_window", [False, True])
@pytest.mark.parametrize("name", ["free", "bracket"])
def test_backsolve_converges_to_the_exact_gradient_with_substeps(name, every_window):
    with jax.enable_x64(True):
        windows = driving(3, size=0.8)
        trained, rest = eqx.partition(make(name), eqx.is_inexact_array)

        def loss(trained, z0, windows, gradient, substeps):
            field = eqx.combine(trained, rest)
            out = solve(field, z0, windows, gradient=gradient, substeps=substeps, every_window=every_window)
            return jnp.sin(out).sum()

        errors = []
        for substeps in (1, 4):
            both = jax.jit(
                lambda *point, n=substeps: [jax.grad(loss, (0, 1, 2))(*point, g, n) for g in (Backsolve(), Direct())]
            )
            pairs = zip(*map(jax.tree.leaves, both(trained, start(), windows)), strict=True)
            errors.append(max(float(jnp.abs(a - b).max()) for a, b in pairs))
        # The adjoint is integrated at order 4, so four times the steps should leave 1/256 of the error.
        assert errors[1] < errors[0] / 50
        assert errors[1] < 1e-4


@pytest.mark.parametrize("name", FIELDS)
def test_padding_leaves_the_state_bit_for_bit(name):
    """A ragged batch, padded with zero log-signatures, equals its samples one by one."""
    field, lengths, longest = make(name), [3, 7, 5], 7
    windows = jnp.stack([driving(longest, seed=s).at[n:].set(0.0) for s, n in enumerate(lengths)])
    z0 = jnp.stack([start() + s for s in range(3)])
    for solver in [RK4(), *([Exponential(parallel=False)] if name in AFFINE else [])]:
        run = jax.jit(jax.vmap(lambda z, w, s=solver: solve(field, z, w, solver=s, every_window=True)))
        states = np.asarray(run(z0, windows))
        for state, n, z, w in zip(states, lengths, z0, windows, strict=True):
            assert (state[n:] == state[n]).all()
            alone = jax.jit(lambda z, w, s=solver: solve(field, z, w, solver=s))(z, w[:n])
            # A batch of three and a single sample may sum in different orders: float32 rounding over 7 windows.
            np.testing.assert_allclose(state[-1], alone, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", AFFINE)
def test_parallel_equals_sequence(name):
    with jax.enable_x64(True):
        field, windows = make(name), driving(33)

        @jax.jit
        def both(z0, windows):
            run = lambda p: solve(field, z0, windows, solver=Exponential(parallel=p), every_window=True)
            grads = [jax.grad(lambda z, p=p: solve(field, z, windows, solver=Exponential(parallel=p)).sum())(z0)
                     for p in (True, False)]  # fmt: skip
            return [run(True), run(False)], grads

        (parallel, sequence), grads = both(start(), windows)
        np.testing.assert_allclose(parallel, sequence, rtol=1e-11, atol=1e-12)  # products in another order
        np.testing.assert_allclose(*grads, rtol=1e-11, atol=1e-12)


def test_adaptive_equals_fixed():
    with jax.enable_x64(True):
        field, windows = make("free"), driving(4, size=1.0)
        fixed = jax.jit(lambda w: solve(field, start(), w, substeps=32, every_window=True))(windows)
        adaptive = jax.jit(
            lambda w: solve_adaptive(field, start(), w, rtol=1e-9, atol=1e-10, every_window=True)
        )(windows)
        np.testing.assert_allclose(adaptive, fixed, atol=1e-7)  # the tolerance, over four windows


def test_brackets_are_computed_once_a_solve_not_once_a_window():
    field = LinearField(CHANNELS, STATE, DEPTH, key=KEY)
    jaxpr = jax.make_jaxpr(lambda w: solve(field, start(), w, solver=Exponential(parallel=False)))(driving(5)).jaxpr
    (scan,) = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
    outside = [e for e in jaxpr.eqns if e.primitive.name == "dot_general"]
    # Three brackets, of two products of matrices and two with vectors each.
    assert len(outside) == 12
    assert any(v.aval.shape == (5, 1, STATE, STATE) for v in scan.invars)


def test_cost_is_linear_in_length_and_memory_is_that_of_the_states():
    field = FreeField(6, 8, width=16, key=KEY)
    z0 = jnp.ones((4, 8))

    def temporary(windows, gradient):
        loss = lambda z, w: jax.vmap(lambda z, w: solve(field, z, w, gradient=gradient))(z, w).sum()
        compiled = jax.jit(jax.grad(loss)).lower(z0, jnp.ones((4, windows, 6))).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    growth = {type(g).__name__: temporary(2048, g) - temporary(1024, g) for g in (Recompute(), Nested(), Direct())}
    states = 1024 * 4 * (8 + 6) * 4  # 1024 more windows of 4 samples: a state and a log-signature each, in bytes
    assert growth["Recompute"] < 1.6 * states
    assert growth["Nested"] < growth["Recompute"]
    assert growth["Direct"] > 5 * growth["Recompute"]


def test_no_windows_and_every_window():
    field = make("free")
    np.testing.assert_array_equal(solve(field, start(), driving(0)), start())
    assert solve(field, start(), driving(0), every_window=True).shape == (1, STATE)
    states = solve(field, start(), driving(3), every_window=True)
    np.testing.assert_array_equal(states[0], start())
    np.testing.assert_allclose(states[-1], solve(field, start(), driving(3)), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (dict(solver=diffrax.Kvaerno5()), TypeError, "solve_adaptive"),
        (dict(solver="rk4"), TypeError, r"RK4\(\)"),
        (dict(solver=Exponential()), TypeError, r"solver=RK4\(\)"),
        (dict(substeps=0), ValueError, "at least 1"),
        (dict(z0=jnp.ones(5)), ValueError, "expected 4"),
        (dict(z0=jnp.ones((2, 4))), ValueError, "jax.vmap"),
        (dict(log_signatures=jnp.ones((3, 6))), ValueError, "basis='words'"),
    ],
)
def test_errors_say_what_to_write(change, error, words):
    arguments = dict(field=make("free"), z0=start(), log_signatures=driving(3)) | change
    with pytest.raises(error, match=words):
        solve(**arguments)
