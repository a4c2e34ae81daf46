"""The paper's own scheme, on the same weights: torchdiffeq's rk4, which is the 3/8 rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde.fields import FreeField
from neuralrde.solve import RK4ThreeEighths, solve

torch = pytest.importorskip("torch")
torchdiffeq = pytest.importorskip("torchdiffeq")


@pytest.mark.parametrize("controls", [3, 6])  # depth 1, the neural CDE, and depth 2
def test_states_equal_torchdiffeqs(controls):
    field = FreeField(controls, 4, width=8, layers=3, key=jax.random.key(0))
    windows = np.random.default_rng(0).normal(size=(20, controls)).astype(np.float32) * 0.3
    z0 = np.ones(4, np.float32)
    tensor = lambda array: torch.tensor(np.asarray(array))
    layers = [(tensor(layer.weight), tensor(layer.bias)) for layer in field.features.layers]

    def slope(z, window):
        for weight, bias in layers[:-1]:
            z = torch.relu(weight @ z + bias)
        weight, bias = layers[-1]
        features = torch.tanh(weight @ z + bias)
        matrix = torch.einsum("csw,w->sc", tensor(field.weight), features) + tensor(field.bias).T
        return matrix @ tensor(window)

    # Window by window: the field jumps at their boundaries, where the first and last stages of a step fall.
    z, expected = tensor(z0), [z0]
    for window in windows:
        z = torchdiffeq.odeint(lambda t, z, w=window: slope(z, w), z, torch.tensor([0.0, 1.0]), method="rk4")[-1]
        expected.append(z.numpy())
    got = solve(field, jnp.asarray(z0), jnp.asarray(windows), solver=RK4ThreeEighths(), every_window=True)
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-5, atol=1e-5)  # float32 rounding over 20 windows
