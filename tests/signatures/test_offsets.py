"""A log-signature does not depend on where its path lies, in float32 too."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde import log_signatures
from neuralrde.signatures import log_signature_channels


def walk(offset, channels=3):
    """A random walk in float32 that starts at `offset`; its numbers are taken as they are rounded there."""
    rng = np.random.default_rng(0)
    return (offset + 0.1 * rng.normal(size=(4, 201, channels)).cumsum(axis=1)).astype(np.float32)


def levels(channels, depth):
    return np.cumsum([0, *(log_signature_channels(channels, n) for n in range(1, depth + 1))])


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [3, 7])  # three have code of their own
def test_far_from_the_origin(offset, depth, channels):
    path = walk(offset, channels)
    ours, exact = (log_signatures(path.astype(kind), depth, step=50) for kind in (np.float32, np.float64))
    # Level n relative to its largest coefficient: 50 terms with a rounding of 6e-8 each. In absolute coordinates the
    # error was 1e-2 at 1e5.
    edges = np.unique(levels(channels, depth))
    for a, b in itertools.pairwise(edges):
        size = np.abs(exact[..., a:b]).max()
        np.testing.assert_allclose(ours[..., a:b], exact[..., a:b], rtol=0, atol=5e-6 * size)


@functools.partial(jax.jit, static_argnames="depth")
def gradient(path, depth):
    loss = lambda p: (jnp.cos(jnp.arange(p.size)).reshape(p.shape).astype(p.dtype) * p).sum()
    return jax.grad(lambda p: loss(log_signatures(p, depth, step=50)))(path)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_gradients_far_from_the_origin(offset, depth):
    path = walk(offset)
    ours = gradient(jnp.asarray(path), depth)
    with jax.enable_x64(True):
        exact = gradient(jnp.asarray(path.astype(np.float64)), depth)
    np.testing.assert_allclose(ours, exact, rtol=0, atol=2e-5 * np.abs(exact).max())  # as above, and the sums back
