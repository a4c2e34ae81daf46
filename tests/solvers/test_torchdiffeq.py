"""The paper's own scheme, on the same weights: torchdiffeq's rk4, which is the 3/8 rule, and its adjoint."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde.fields import FreeField
from neuralrde.solvers import Backsolve, Recompute, RK4ThreeEighths, solve

torch = pytest.importorskip("torch")
torchdiffeq = pytest.importorskip("torchdiffeq")


def tensor(array):
    return torch.tensor(np.asarray(array))


class Field(torch.nn.Module):
    """Our field as theirs, driven by the window that the time falls in."""

    def __init__(self, field, windows):
        super().__init__()
        self.layers = [(tensor(layer.weight), tensor(layer.bias)) for layer in field.features.layers]
        self.weight, self.bias = torch.nn.Parameter(tensor(field.weight)), torch.nn.Parameter(tensor(field.bias))
        self.windows = tensor(windows)

    def forward(self, t, z):
        for weight, bias in self.layers[:-1]:
            z = torch.relu(weight @ z + bias)
        weight, bias = self.layers[-1]
        matrix = torch.einsum("csw,w->sc", self.weight, torch.tanh(weight @ z + bias)) + self.bias.T
        return matrix @ self.windows[int(t)]


# The field jumps at the windows' boundaries, where the first and last stages of a step fall: evaluate just inside.
STEPS = {"method": "rk4", "options": {"step_size": 1.0, "perturb": True}}


@pytest.mark.parametrize("controls", [3, 6])  # depth 1, the neural CDE, and depth 2
def test_states_equal_torchdiffeqs(controls):
    field = FreeField(controls, 4, width=8, layers=3, key=jax.random.key(0))
    windows = np.random.default_rng(0).normal(size=(20, controls)).astype(np.float32) * 0.3
    z0 = np.ones(4, np.float32)
    with torch.no_grad():
        expected = torchdiffeq.odeint(Field(field, windows), tensor(z0), torch.arange(21.0), **STEPS)
    got = solve(field, jnp.asarray(z0), jnp.asarray(windows), solver=RK4ThreeEighths(), every_window=True)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)  # float32 rounding over 20 windows


def test_the_adjoints_gradient_equals_torchdiffeqs():
    """Also where it is far from the exact one; the paper's main tables were made with it."""
    field = FreeField(3, 4, width=8, layers=3, key=jax.random.key(0))
    windows = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32) * 3
    z0 = np.ones(4, np.float32)

    theirs, start = Field(field, windows), tensor(z0).requires_grad_()
    final = torchdiffeq.odeint_adjoint(theirs, start, torch.tensor([0.0, 8.0]), **STEPS)[-1]
    (final**2).sum().backward()
    expected = [start.grad, theirs.weight.grad, theirs.bias.grad]

    def ours(gradient):
        def loss(trained):
            final = solve(trained[1], trained[0], jnp.asarray(windows), solver=RK4ThreeEighths(), gradient=gradient)
            return (final**2).sum()

        at_start, at_field = eqx.filter_grad(loss)((jnp.asarray(z0), field))
        return [at_start, at_field.weight, at_field.bias]

    for one, other in zip(ours(Backsolve()), expected, strict=True):
        # Rounding of float32, which a reconstruction backwards magnifies.
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3 * float(abs(other).max()))
    exact = ours(Recompute())[1]
    assert np.linalg.norm(exact - expected[1].numpy()) > 0.05 * np.linalg.norm(exact)
