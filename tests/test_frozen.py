"""Statistics that a model keeps: saved with it, never trained."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neuralrde.frozen import Frozen, partition_weights, weights_of
from neuralrde.training import AdamW, Examples, OptaxOptimizer, Settings, SquaredError, fit


class Shifted(eqx.Module):
    """A weight, and a number that is no weight."""

    weight: jax.Array
    mean: Frozen

    def __call__(self, x):
        return self.weight * (x - self.mean.value)


def model():
    return Shifted(jnp.ones(1), Frozen(np.array([3.0])))


@pytest.mark.parametrize(
    "optimizer",
    [
        AdamW(learning_rate=0.1, weight_decay=5.0),
        optax.adamw(0.1, weight_decay=0.5),
        OptaxOptimizer(optax.add_decayed_weights(0.5), learning_rate=0.1),
    ],
    ids=["ours", "optax", "optax, without a rate"],
)
def test_weight_decay_leaves_it_alone(optimizer):
    x = np.arange(8, dtype=np.float32)[:, None]
    settings = Settings(epochs=5, batch_size=4, optimizer=optimizer)
    trained = fit(model(), Examples((x,), 2 * x), loss=SquaredError(), settings=settings).model
    assert abs(float(trained.weight[0]) - 1) > 0.01
    assert trained.mean.value.tolist() == [3.0]  # bit for bit


def test_it_has_no_gradient_even_where_all_arrays_are_differentiated():
    gradient = eqx.filter_grad(lambda model: model(jnp.ones(1)).sum())(Shifted(jnp.ones(1), Frozen(jnp.ones(1) * 3)))
    assert gradient.mean.array.tolist() == [0.0]
    assert gradient.weight.tolist() == [-2.0]


def test_it_is_no_weight_and_is_put_back():
    weights, rest = partition_weights(model())
    assert [leaf.tolist() for leaf in jax.tree.leaves(weights)] == [[1.0]]
    assert eqx.tree_equal(eqx.combine(weights, rest), model())
    assert eqx.tree_equal(weights_of(model()), weights)


def test_it_takes_the_precision_that_is_set():
    assert Frozen(np.ones(2, np.float64)).value.dtype == jnp.float32
    with jax.enable_x64(True):
        assert Frozen(np.ones(2, np.float32)).value.dtype == jnp.float64
