"""Inside JAX: jit, vmap, gradients of the first and second order, and the form without the kernel."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde import log_signature, log_signatures, signature
from neuralrde.paths import cuts_by_count, cuts_by_time
from neuralrde.signatures import _jax_form, _kernel, _library
from neuralrde.signatures._spans import Spans

GRID = [(1, 3), (2, 1), (2, 2), (3, 3), (6, 2), (2, 4), (2, 5), (17, 2)]


def test_the_kernel_was_built():
    """Where there is a compiler, as on every machine that runs these tests, a missing kernel is a broken build."""
    assert _kernel.available()


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def random_path(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape).cumsum(axis=-2))


# Windows of one increment, and one longer than the path, at sizes with and without code of their own.
STEPS = [*((*size, 7) for size in GRID), (3, 3, 1), (3, 3, 100), (2, 5, 1), (2, 5, 100), (17, 2, 1), (17, 2, 100)]


@pytest.mark.parametrize(("channels", "depth", "step"), STEPS)
def test_kernel_equals_jax_form_and_its_gradient(channels, depth, step):
    path = random_path(3, 23, channels)
    cuts = cuts_by_count(23, step)

    @jax.jit
    def both(path):
        ours, pull_back = jax.vjp(lambda p: log_signatures(p, depth, step=step), path)
        plain, pull_back_plain = jax.vjp(lambda p: _jax_form.words(p, Spans.between(cuts), depth), path)
        cotangent = jnp.cos(jnp.arange(plain.size, dtype=plain.dtype)).reshape(plain.shape)
        return (ours, *pull_back(cotangent)), (plain, *pull_back_plain(cotangent))

    for ours, plain in zip(*both(path), strict=True):
        # Two orders of summation of at most 22 increments in float64.
        np.testing.assert_allclose(ours, plain, rtol=1e-10, atol=1e-10 * np.abs(plain).max())


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_gradient_of_irregular_windows(depth):
    rng = np.random.default_rng(1)
    path, times = random_path(5, 20, 3), rng.exponential(size=(5, 20)).cumsum(axis=1)
    cuts = cuts_by_time(times, 2.7)
    cuts[0] = np.minimum(cuts[0], 11)  # a shorter sample: the points behind its end have no gradient
    loss = lambda words: (jnp.sin(jnp.arange(words.size)).reshape(words.shape) * words).sum()
    ours = jax.jit(jax.grad(lambda p: loss(log_signatures(p, depth, cuts=cuts))))(path)
    plain = jax.jit(jax.grad(lambda p: loss(_jax_form.words(p, Spans.between(cuts), depth))))(path)
    np.testing.assert_allclose(ours, plain, rtol=1e-10, atol=1e-10 * np.abs(plain).max())
    assert not ours[0, 12:].any()


@pytest.mark.parametrize(("channels", "depth"), [(2, 2), (3, 3), (2, 4), (2, 5)])
@pytest.mark.parametrize("basis", ["words", "brackets"])
def test_gradient_equals_finite_differences(channels, depth, basis):
    path = random_path(13, channels)
    weights = np.random.default_rng(2).normal(size=log_signatures(path, depth, step=5).shape)
    loss = lambda p: (weights * log_signatures(p, depth, step=5, basis=basis)).sum()
    gradient = jax.jit(jax.grad(loss))(path)
    # Central differences: error h² times third derivatives, plus rounding eps/h: about 1e-9 at h = 1e-5.
    h = 1e-5
    for i, c in np.ndindex(path.shape):
        change = np.zeros(path.shape)
        change[i, c] = h
        plain = np.asarray(path)
        slope = (loss(plain + change) - loss(plain - change)) / (2 * h)
        np.testing.assert_allclose(gradient[i, c], slope, rtol=1e-6, atol=1e-6)


def test_second_derivatives():
    path = random_path(7, 2)
    cuts = cuts_by_count(7, 3)
    ours = jax.jit(jax.jacrev(jax.grad(lambda p: (log_signatures(p, 3, step=3) ** 2).sum())))(path)
    plain = jax.jit(jax.hessian(lambda p: (_jax_form.words(p, Spans.between(cuts), 3) ** 2).sum()))(path)
    np.testing.assert_allclose(ours, plain, rtol=1e-9, atol=1e-9 * np.abs(plain).max())  # float64 sums


@pytest.mark.parametrize(
    "windows",
    [
        {"step": 3},
        {"cuts": np.array([[0, 2, 8], [0, 5, 8]])},
        {"step": 2, "scales": (1, 2)},
        {"starts": np.array([0, 2]), "ends": np.array([6, 8]), "dilation": 2},
    ],
    ids=str,
)
def test_forward_mode_is_reverse_mode(windows):
    path = random_path(2, 9, 2)
    f = lambda p: log_signatures(p, 3, **windows)
    forward, reverse = (jax.jit(one(f))(path) for one in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-12)  # float64 sums
    along = jax.jit(jax.vmap(lambda tangent: jax.jvp(f, (path,), (tangent,))[1]))(jnp.stack([path, -path]))
    np.testing.assert_allclose(along[0], -along[1], rtol=1e-10)


def test_hessians_mix_both_modes():
    path = random_path(4, 2)
    f = lambda p: (log_signature(p, 2) ** 2).sum()
    plain = jax.jit(jax.hessian(lambda p: (_jax_form.words(p, Spans.between(np.array([0, 3])), 2) ** 2).sum()))(path)
    for ours in (jax.hessian(f), jax.jacfwd(jax.jacfwd(f)), jax.jacrev(jax.jacfwd(f))):
        np.testing.assert_allclose(jax.jit(ours)(path), plain, rtol=1e-9, atol=1e-9 * np.abs(plain).max())  # float64
    # The gradient itself is the kernel's.
    assert not _kernel.available() or "neuralrde_backward" in str(jax.make_jaxpr(jax.grad(f))(path))


def test_vmap_over_any_axis_and_jacobian():
    path = random_path(4, 3, 11, 2)
    whole = log_signatures(path, 3, step=4)
    f = lambda p: log_signatures(p, 3, step=4)
    np.testing.assert_array_equal(jax.jit(jax.vmap(f))(path), whole)
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(f)))(path), whole)
    np.testing.assert_array_equal(jax.jit(jax.vmap(f, in_axes=1, out_axes=1))(path), whole)
    jacobian = jax.jit(jax.jacrev(f))(path[0, 0])
    forward = jax.jit(jax.jacfwd(lambda p: _jax_form.words(p, Spans.between(cuts_by_count(11, 4)), 3)))(path[0, 0])
    np.testing.assert_allclose(jacobian, forward, rtol=1e-10, atol=1e-10)


def test_numpy_and_jax_give_the_same_and_stay_what_they_are():
    path = np.random.default_rng(0).normal(size=(2, 30, 3))
    numpy, jax_ = log_signatures(path, 3, step=7), log_signatures(jnp.asarray(path), 3, step=7)
    assert isinstance(numpy, np.ndarray)
    assert isinstance(jax_, jax.Array)
    np.testing.assert_array_equal(numpy, jax_)
    with jax.enable_x64(False):
        assert log_signatures(path, 3, step=7).dtype == signature(path, 3).dtype == np.float64
        assert log_signatures(jnp.asarray(path), 3, step=7).dtype == np.float32


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_nan_inside_jit_shows_in_its_window_alone(depth):
    path = random_path(13, 2).at[6, 1].set(jnp.nan)
    words = jax.jit(lambda p: log_signatures(p, depth, step=4))(path)
    assert [bool(jnp.isfinite(word).all()) for word in words] == [True, False, True]


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_gradients_lower_for_other_platforms(platform, depth):
    gradient = jax.jit(jax.grad(lambda p: (log_signatures(p, depth, step=4) ** 2).sum()))
    exported = jax.export.export(gradient, platforms=[platform])(jax.ShapeDtypeStruct((2, 30, 3), jnp.float32))
    assert "@neuralrde_" not in exported.mlir_module()  # what the kernel is called by


@pytest.mark.parametrize(("step", "depth"), [(128, 3), (4, 3), (128, 4)])
def test_the_jax_form_keeps_little_for_its_gradient(step, depth):
    """Copies of path and result that the compiled gradient holds; one number per point and word would be a hundred."""
    path = jax.ShapeDtypeStruct((181, 21000, 6), jnp.float32)
    words = lambda p: _jax_form.words(p, Spans.between(cuts_by_count(21000, step)), depth)
    result = jax.eval_shape(words, path)
    compiled = jax.jit(lambda p, bar: jax.vjp(words, p)[1](bar)[0]).lower(path, result).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 5 * 4 * (path.size + result.size)


@pytest.mark.long
def test_without_the_kernel_the_result_is_the_same():
    """In a process of its own, in which the kernel is switched off."""
    program = """
import numpy as np
from neuralrde import log_signatures
from neuralrde.signatures import _kernel
assert not _kernel.available()
path = np.random.default_rng(0).normal(size=(3, 50, 3))
np.save({0!r}, log_signatures(path, 4, step=8))
"""
    path = np.random.default_rng(0).normal(size=(3, 50, 3))
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "words.npy")
        environment = {**os.environ, "NEURALRDE_KERNEL": "off"}
        subprocess.run([sys.executable, "-c", program.format(file)], check=True, env=environment)
        np.testing.assert_allclose(np.load(file), log_signatures(path, 4, step=8), rtol=1e-10, atol=1e-12)


def test_deeper_than_the_kernel_goes(monkeypatch):
    path = np.asarray(random_path(4, 2))
    by_kernel = log_signatures(path, 6, step=3)
    monkeypatch.setattr(_library, "MOST_DEPTH", 5)
    monkeypatch.setattr(_library, "words_of_numpy", None)  # it must not be asked
    np.testing.assert_allclose(log_signatures(path, 6, step=3), by_kernel, rtol=1e-9, atol=1e-9)  # float64 sums
