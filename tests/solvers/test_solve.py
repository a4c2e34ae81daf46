"""Every field with every solver and every gradient, against independent solvers and finite differences."""

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from neuralrde.fields import FreeField, LinearField
from neuralrde.solvers import (
    RK4,
    Adaptive,
    Backsolve,
    Direct,
    Exponential,
    Nested,
    Recompute,
    RK4ThreeEighths,
    solve,
)

from ..fields.registry import AFFINE, CHANNELS, DEPTH, FIELDS, KEY, STATE, driving, make, quick, start

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
EXACT_GRADIENTS = {
    "direct": Direct(),
    "recompute": Recompute(),
    "nested": Nested(),
    "nested3": Nested(levels=3),
}


def exact(field, z0, log_signatures):
    """SciPy's solver, window by window, at a tolerance beyond all that is compared with it."""
    z, contracted = np.asarray(z0), quick(lambda l, z: field.contract(l)(z))
    for log_signature in log_signatures:
        slope = lambda _, z, l=log_signature: contracted(l, z)
        z = scipy.integrate.solve_ivp(slope, (0, 1), z, rtol=1e-10, atol=1e-11).y[:, -1]
    return z


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_solves_to_what_scipy_says(name):
    with jax.enable_x64(True):
        field, windows = make(name), driving(2)
        got = quick(lambda z, w: solve(field, z, w, substeps=16))(start(), windows)
        # Sixteen steps of order 4: (1/16)^4 / 120 times a fifth derivative, which for depth-3 brackets is large.
        np.testing.assert_allclose(got, exact(field, start(), windows), atol=1e-5)


@functools.cache
def reference():
    """The free field, driven hard, solved far beyond what the solvers below can reach."""
    with jax.enable_x64(True):
        field, windows = make("free"), driving(2, size=3.0)
        exact = quick(lambda w: solve(field, start(), w, solver=diffrax.Dopri8(), substeps=64))(windows)
        return field, windows, exact


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_converges_at_its_order(solver):
    field, windows, exact = reference()
    rule, order = SOLVERS[solver]
    with jax.enable_x64(True):
        errors = []
        for substeps in (8, 16):
            run = quick(lambda w, n=substeps: solve(field, start(), w, solver=rule, substeps=n))
            errors.append(np.abs(run(windows) - exact).max())
        assert errors[1] > 1e-12  # not yet rounding
        # Half a unit for terms of higher order; a wrong entry in a tableau brings the order down to 1 or 2.
        assert np.log2(errors[0] / errors[1]) > order - 0.5, errors


@pytest.mark.parametrize("name", [*FIELDS, *(f"{name}, exactly" for name in AFFINE)])
def test_every_gradient_of_every_field(name):
    """Direct differentiation against finite differences, and every other exact gradient against it."""
    name, *exactly = name.split(", ")
    rule = Exponential(parallel=False) if exactly else diffrax.Bosh3() if name == "free" else diffrax.Heun()
    with jax.enable_x64(True):
        trained, rest = eqx.partition(make(name), eqx.is_inexact_array)

        def loss(trained, z0, windows, gradient, every_window=True):
            field = eqx.combine(trained, rest)
            out = solve(field, z0, windows, solver=rule, gradient=gradient, every_window=every_window)
            return (jnp.sin(out) @ jnp.arange(1.0, STATE + 1)).sum()

        grad = jax.grad(loss, (0, 1, 2))
        point = (trained, start(), driving(5))
        leaves, tree = jax.tree.flatten(point)
        rng = np.random.default_rng(0)
        direction = tree.unflatten([jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves])
        moved = quick(lambda s, point: loss(*jax.tree.map(lambda x, d: x + s * d, point, direction), Direct()))
        difference = (moved(1e-5, point) - moved(-1e-5, point)) / 2e-5
        exact = quick(lambda point: grad(*point, Direct()))(point)
        along = sum(jnp.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (exact, direction)), strict=True))
        # Central differences: error step² and rounding / step, both about 1e-10, times derivatives.
        np.testing.assert_allclose(along, difference, rtol=1e-6)
        others = EXACT_GRADIENTS if name == "free" else {"recompute": Recompute()}
        for gradient in others.values():
            _same(quick(lambda point, g=gradient: grad(*point, g))(point), exact)
        if name == "free":  # the final state alone goes another way through every gradient
            final = quick(lambda point: [grad(*point, g, False) for g in (Direct(), *others.values())])(point)
            for other in final[1:]:
                _same(other, final[0])


def _same(got, expected):
    for a, b in zip(*map(jax.tree.leaves, (got, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)  # the same sums in another order


@pytest.mark.parametrize("every_window", [False, True])
def test_backsolve_converges_to_the_exact_gradient_with_substeps(every_window):
    with jax.enable_x64(True):
        windows = driving(3, size=0.8)
        trained, rest = eqx.partition(make("free"), eqx.is_inexact_array)

        def loss(trained, z0, windows, gradient, substeps):
            field = eqx.combine(trained, rest)
            out = solve(field, z0, windows, gradient=gradient, substeps=substeps, every_window=every_window)
            return jnp.sin(out).sum()

        errors = []
        for substeps in (2, 8):
            both = lambda *p, n=substeps: [jax.grad(loss, (0, 1, 2))(*p, g, n) for g in (Backsolve(), Direct())]
            pairs = zip(*map(jax.tree.leaves, quick(both)(trained, start(), windows)), strict=True)
            errors.append(max(float(jnp.abs(a - b).max()) for a, b in pairs))
        # The adjoint is integrated at order 4, so four times the steps should leave 1/256 of the error.
        assert errors[1] < errors[0] / 50
        assert errors[1] < 1e-4


@pytest.mark.parametrize("name", FIELDS)
def test_padding_leaves_the_state_bit_for_bit(name):
    """A ragged batch, padded with zero log-signatures, equals its samples one by one."""
    field, lengths, longest = make(name), [3, 7, 5], 7
    solver = Exponential(parallel=False) if name in AFFINE else diffrax.Bosh3()
    run = lambda z, w: solve(field, z, w, solver=solver, every_window=True)
    windows = jnp.stack([driving(longest, seed=s).at[n:].set(0.0) for s, n in enumerate(lengths)])
    z0 = jnp.stack([start() + s for s in range(3)])
    states = np.asarray(quick(jax.vmap(run))(z0, windows))
    for state, n in zip(states, lengths, strict=True):
        assert (state[n:] == state[n]).all()
    # Three samples and one may be summed in different orders: float32 rounding over 3 windows.
    np.testing.assert_allclose(states[0, :4], quick(run)(z0[0], windows[0, :3]), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", AFFINE)
def test_parallel_equals_sequence(name):
    with jax.enable_x64(True):
        field, windows = make(name), driving(33)

        @quick
        def both(z0, windows):
            run = lambda p: solve(field, z0, windows, solver=Exponential(parallel=p), every_window=True)
            grad = lambda p: jax.grad(lambda z: solve(field, z, windows, solver=Exponential(parallel=p)).sum())(z0)
            return [run(True), run(False)], [grad(True), grad(False)]

        (parallel, sequence), grads = both(start(), windows)
        np.testing.assert_allclose(parallel, sequence, rtol=1e-11, atol=1e-12)  # products in another order
        np.testing.assert_allclose(*grads, rtol=1e-11, atol=1e-12)


def test_adaptive_equals_fixed():
    with jax.enable_x64(True):
        field, windows = make("free"), driving(4, size=1.0)
        fixed = quick(lambda w: solve(field, start(), w, substeps=32, every_window=True))(windows)
        adaptive = quick(lambda w: solve(field, start(), w, solver=Adaptive(rtol=1e-9, atol=1e-10), every_window=True))(
            windows
        )
        np.testing.assert_allclose(adaptive, fixed, atol=1e-7)  # the tolerance, over four windows


def test_adaptive_takes_what_solve_takes():
    field = make("free")
    for windows, every in ((driving(0), False), (driving(0), True), (np.asarray(driving(1)), False)):
        fixed = solve(field, start(), jnp.asarray(windows), substeps=16, every_window=every)
        found = solve(field, start(), windows, solver=Adaptive(rtol=1e-6, atol=1e-7), every_window=every)
        np.testing.assert_allclose(found, fixed, atol=1e-4)  # the tolerance, in float32
    with pytest.raises(ValueError, match="expected 4"):
        solve(field, jnp.ones(5), driving(3), solver=Adaptive())


def test_brackets_are_computed_once_a_solve_not_once_a_window():
    field = LinearField(CHANNELS, STATE, DEPTH, key=KEY)
    jaxpr = jax.make_jaxpr(lambda w: solve(field, start(), w, solver=Exponential(parallel=False)))(driving(5)).jaxpr
    (scan,) = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
    outside = [e for e in jaxpr.eqns if e.primitive.name == "dot_general"]
    # Three brackets, of two products of matrices and two with vectors each.
    assert len(outside) == 12
    assert any(v.aval.shape == (5, 1, STATE, STATE) for v in scan.invars)


def test_memory_is_that_of_the_states():
    """Bytes that the compiled gradient needs for 1024 more windows. A wide state, so that states outweigh the rest."""
    state, extra = 64, 1024
    field = FreeField(2, state, width=8, layers=1, key=KEY)

    def temporary(windows, gradient):
        loss = lambda z, w: solve(field, z, w, solver=diffrax.Heun(), gradient=gradient).sum()
        lowered = quick(jax.grad(loss)).lower(jnp.ones(state), jnp.ones((windows, 2)))
        return lowered.compile().memory_analysis().temp_size_in_bytes

    growth = {
        type(g).__name__: temporary(2 * extra, g) - temporary(extra, g) for g in (Recompute(), Nested(), Direct())
    }
    states = extra * state * 4
    assert 0.9 * states < growth["Recompute"] < 1.2 * states
    assert growth["Nested"] < 0.3 * states
    assert growth["Direct"] > 2 * states


@pytest.mark.parametrize("gradient", [Recompute(), Nested()])
def test_a_batch_is_read_where_it_lies(gradient):
    """No copy of the log-signatures, which here outweigh all states together by ten times."""
    batch, windows, controls, state = 4, 256, 80, 8
    field = FreeField(controls, state, width=8, layers=1, key=KEY)
    one = lambda field, z, w: solve(field, z, w, solver=diffrax.Heun(), gradient=gradient).sum()
    loss = lambda field, z, w: jax.vmap(one, (None, 0, 0))(field, z, w).sum()
    logs = jnp.ones((batch, windows, controls))
    compiled = eqx.filter_jit(eqx.filter_grad(loss)).lower(field, jnp.ones((batch, state)), logs).compile()
    assert compiled.compiled.memory_analysis().temp_size_in_bytes < 0.5 * logs.nbytes


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
        ({"solver": diffrax.Kvaerno5()}, TypeError, "Adaptive"),
        ({"solver": "rk4"}, TypeError, r"RK4\(\)"),
        ({"solver": Exponential()}, TypeError, r"solver=RK4\(\)"),
        ({"substeps": 0}, ValueError, "at least 1"),
        ({"z0": jnp.ones(5)}, ValueError, "expected 4"),
        ({"z0": jnp.ones((2, 4))}, ValueError, "jax.vmap"),
        ({"log_signatures": jnp.ones((3, 6))}, ValueError, "basis='words'"),
    ],
)
def test_errors_say_what_to_write(change, error, words):
    arguments = {"field": make("free"), "z0": start(), "log_signatures": driving(3)} | change
    with pytest.raises(error, match=words):
        solve(**arguments)


def test_the_adjoint_is_not_affine():
    with pytest.raises(TypeError, match=r"gradient=Recompute\(\)"):
        solve(make(next(iter(AFFINE))), start(), driving(3), solver=Exponential(), gradient=Backsolve())
