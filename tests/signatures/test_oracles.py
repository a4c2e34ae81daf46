"""Equality with iisignature and pysiglib."""

import iisignature
import numpy as np
import pytest

from neuralrde import log_signatures, signature
from neuralrde.signatures import change_basis

from .oracles import by_iisignature, by_pysiglib, windows_of

GRID = [(channels, depth) for channels in range(1, 9) for depth in range(1, 6)]
# Both sides round in float64 and sum up to 60 terms of up to 5 factors: 1e-10 leaves a factor 1e4 above what is seen.
TOLERANCE = 1e-10


def random_paths(channels: int, depth: int):
    rng = np.random.default_rng(100 * channels + depth)
    for _ in range(2 if channels**depth > 3000 else 5):
        length = int(rng.integers(2, 60))
        yield rng.normal(size=(length, channels)).cumsum(axis=0), int(rng.integers(1, length + 3))


def assert_close(ours, theirs, tolerance=TOLERANCE):
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= tolerance * max(np.abs(theirs).max(), 1e-300)


@pytest.mark.parametrize(("channels", "depth"), GRID)
def test_equals_pysiglib(channels, depth):
    for path, step in random_paths(channels, depth):
        for basis in ("words", "brackets", "expanded"):
            assert_close(log_signatures(path, depth, step=step, basis=basis), by_pysiglib(path, depth, step, basis))


@pytest.mark.parametrize(("channels", "depth"), [(c, d) for c, d in GRID if c > 1])
def test_equals_iisignature(channels, depth):
    # Its expanded form is prepared in a time that explodes with the size; its brackets are not.
    bases = ("brackets", "expanded") if channels**depth < 300 else ("brackets",)
    for path, step in random_paths(channels, depth):
        for basis in bases:
            assert_close(log_signatures(path, depth, step=step, basis=basis), by_iisignature(path, depth, step, basis))


@pytest.mark.parametrize(("channels", "depth"), [(2, 3), (3, 2), (3, 4), (6, 3), (2, 5), (32, 2)])
def test_gradient_equals_iisignature(channels, depth):
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    path, step = rng.normal(size=(29, channels)).cumsum(axis=0), 9
    prepared = iisignature.prepare(channels, depth, "S")
    cotangent = rng.normal(size=(4, prepared_channels(channels, depth)))
    theirs = np.zeros_like(path)
    for window, bar in zip(windows_of(path, step), cotangent, strict=True):
        theirs[window] += iisignature.logsigbackprop(bar, path[window], prepared, "S")
    with jax.enable_x64(True):
        pull_back = jax.vjp(lambda p: log_signatures(p, depth, step=step, basis="brackets"), jnp.asarray(path))[1]
        ours = np.asarray(pull_back(jnp.asarray(cotangent))[0])
    # iisignature answers gradients in float32.
    assert_close(ours, theirs, tolerance=1e-6)


def prepared_channels(channels, depth):
    from neuralrde.signatures import log_signature_channels

    return log_signature_channels(channels, depth)


@pytest.mark.parametrize(("channels", "depth"), [(2, 5), (3, 3), (5, 4)])
def test_signature_equals_iisignature(channels, depth):
    path = np.random.default_rng(1).normal(size=(40, channels))
    assert_close(signature(path, depth), iisignature.sig(path, depth))


@pytest.mark.parametrize(("channels", "depth", "step"), [(3, 3, 8), (6, 2, 7), (3, 4, 5), (17, 2, 3)])
def test_float32_is_float64_rounded(channels, depth, step):
    path = np.random.default_rng(2).normal(size=(5, 100, channels)).cumsum(axis=1)
    single = log_signatures(path.astype(np.float32), depth, step=step)
    assert single.dtype == np.float32
    # Sums of `step` products of `depth` factors, each rounded to 6e-8.
    assert_close(single, log_signatures(path, depth, step=step), tolerance=2e-5)


def test_bases_of_a_log_signature_agree_with_pysiglib_converted():
    path = np.random.default_rng(3).normal(size=(20, 3))
    words = by_pysiglib(path, 5, 19, "words")
    for basis in ("brackets", "expanded"):
        assert_close(change_basis(words, 3, 5, old="words", new=basis), by_pysiglib(path, 5, 19, basis))
