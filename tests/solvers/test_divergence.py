import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde.fields import MatrixField
from neuralrde.solvers import DivergenceError, explain_divergence, solve, stop_if_divergent

EXPLOSIVE = MatrixField(lambda z: (z**2)[:, None], state=1, controls=1)  # z' = z² blows up in finite time


def test_a_runaway_field_is_reported_with_its_sample_and_window():
    windows = jnp.full((4, 6, 1), 0.01).at[2, 3:].set(1e4)
    with pytest.raises(DivergenceError, match="the field runs away") as caught:
        explain_divergence(EXPLOSIVE, jnp.ones((4, 1)), windows)
    states = np.asarray(solve(EXPLOSIVE, jnp.ones(1), windows[2], every_window=True))
    first = int((~np.isfinite(states[:, 0])).argmax()) - 1
    assert (caught.value.sample, caught.value.window) == (2, first)
    assert first >= 3


def test_bad_data_are_told_from_a_bad_model():
    windows = jnp.full((2, 6, 1), 0.01).at[1, 4].set(jnp.nan)
    with pytest.raises(DivergenceError, match="look at the data") as caught:
        explain_divergence(EXPLOSIVE, jnp.ones((2, 1)), windows)
    assert (caught.value.sample, caught.value.window) == (1, 4)
    with pytest.raises(DivergenceError, match="initial state of sample 0"):
        explain_divergence(EXPLOSIVE, jnp.full((2, 1), jnp.inf), windows)


def test_nothing_to_report():
    assert explain_divergence(EXPLOSIVE, jnp.ones((2, 1)), jnp.full((2, 3, 1), 0.1)) is None


def test_stop_inside_jit():
    run = jax.jit(lambda w: stop_if_divergent(solve(EXPLOSIVE, jnp.ones(1), w)))
    assert np.isfinite(run(jnp.full((3, 1), 0.1))).all()
    with pytest.raises(Exception, match="not finite"):
        jax.block_until_ready(run(jnp.full((3, 1), 1e5)))
