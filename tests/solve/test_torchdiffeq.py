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

    def slope(t, z):
        for weight, bias in layers[:-1]:
            z = torch.relu(weight @ z + bias)
        weight, bias = layers[-1]
        features = torch.tanh(weight @ z + bias)
        matrix = torch.einsum("csw,w->sc", tensor(field.weight), features) + tensor(field.bias).T
        # Window i is [i, i + 1). The last stage of a step falls on the boundary and must still see its own window.
        return matrix @ tensor(windows)[min(int(np.ceil(float(t) - 1e-4)) - 1 if t > 0 else 0, len(windows) - 1)]

    # Window by window, so that the stages at a step's start see the right window too.
    state, expected = tensor(z0), [z0]
    for i in range(len(windows)):
        state = torchdiffeq.odeint(
            lambda t, z, i=i: slope(torch.tensor(i + 0.5), z), state, torch.tensor([0.0, 1.0]), method="rk4"
        )[-1]
        expected.append(state.numpy())
    got = solve(field, jnp.asarray(z0), jnp.asarray(windows), solver=RK4ThreeEighths(), every_window=True)
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-5, atol=1e-5)  # float32 rounding over 20 windows
