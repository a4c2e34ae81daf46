"""Neural RDEs in PyTorch: the same numbers as in JAX, and a loss that falls."""

import equinox as eqx
import jax
import numpy as np
import pytest
import torch
import torchdiffeq

import neuralrde
import neuralrde.torch as nt
from neuralrde.online import export_model
from neuralrde.solvers import Recompute
from neuralrde.transforms import Standard


def data(samples=32, length=41):
    """Whether a closed path turns left or right: the areas alone say it."""
    rng = np.random.default_rng(0)
    sign, angle = rng.choice([-1.0, 1.0], samples), np.linspace(0, 2 * np.pi, length)
    circles = np.stack([np.broadcast_to(np.cos(angle), (samples, length)), sign[:, None] * np.sin(angle)], axis=-1)
    x = torch.from_numpy(circles + 0.05 * rng.normal(size=circles.shape)).float()
    time = torch.linspace(0, 1, length)[None, :, None].expand(samples, -1, 1)
    return torch.cat([time, x], dim=-1), torch.from_numpy((sign > 0).astype(np.float32))


@pytest.mark.parametrize(("solver", "theirs"), [("rk4", neuralrde.RK4()), ("heun", __import__("diffrax").Heun())])
@pytest.mark.parametrize("readout", ["final", "mean"])
def test_it_computes_what_the_model_in_jax_computes(solver, theirs, readout):
    path, _ = data(samples=3)
    readouts = {"final": neuralrde.models.FinalState(), "mean": neuralrde.models.MeanState()}
    options = {"depth": 2, "state": 5, "width": 7, "layers": 2, "substeps": 2}
    jaxs = neuralrde.NeuralRDE(
        3, 2, **options, solver=theirs, readout=readouts[readout], gradient=Recompute(), key=jax.random.key(0)
    )
    logs = nt.log_signatures(path, 2, step=8)
    jaxs = jaxs.fit_scale(logs.numpy())
    ours = nt.NeuralRDE(3, 2, **options, solver=solver, readout=readout).fit_scale(logs)
    linear = [jaxs.encoder, *jaxs.field.features.layers, jaxs.decoder.linear]
    with torch.no_grad():
        for to, of in zip([ours.encoder, *ours.hidden, ours.decoder], linear, strict=True):
            to.weight.copy_(torch.from_numpy(np.array(of.weight)))
            to.bias.copy_(torch.from_numpy(np.array(of.bias)))
        ours.weight.copy_(torch.from_numpy(np.array(jaxs.field.weight)))
        ours.bias.copy_(torch.from_numpy(np.array(jaxs.field.bias)))
    expected = eqx.filter_vmap(jaxs)(path[:, 0].numpy(), logs.numpy())
    np.testing.assert_allclose(ours(path[:, 0], logs).detach(), expected, rtol=1e-4, atol=1e-5)  # float32


def test_what_is_computed_again_changes_no_gradient():
    path, _ = data(samples=4)
    logs, gradients = nt.log_signatures(path, 2, step=4), []
    for keep in (0, 1, 3, None):
        torch.manual_seed(0)
        model = nt.NeuralRDE(3, 1, depth=2, state=4, width=8, readout="every", keep=keep)
        model(path[:, 0], logs).square().sum().backward()
        gradients.append(torch.cat([one.grad.flatten() for one in model.parameters()]))
    for other in gradients[1:]:
        torch.testing.assert_close(other, gradients[0], rtol=1e-5, atol=1e-5)  # float32, sums in another order


def trained(model, parameters, target, steps=20):
    optimizer, losses = torch.optim.Adam(parameters, lr=0.01), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model()[:, 0], target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.long
def test_training_lowers_the_loss():
    torch.manual_seed(0)
    path, target = data()
    logs = nt.log_signatures(path, 2, step=8)
    model = nt.NeuralRDE(3, 1, depth=2, state=8, width=16).fit_scale(logs)
    losses = trained(lambda: model(path[:, 0], logs), model.parameters(), target)
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.long
def test_training_torchcdes_neural_rde():
    """torchcde's `logsig_example.py`: its windows, a linear path through them, and torchdiffeq beneath its `cdeint`."""
    torch.manual_seed(0)
    path, target = data()
    coefficients = nt.logsig_windows(path, 2, window_length=8.0)
    increments, size = coefficients.diff(dim=-2), coefficients.shape[-1]
    field = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8 * size), torch.nn.Tanh())
    first, last = torch.nn.Linear(size, 8), torch.nn.Linear(8, 1)

    def slope(t, z):
        window = min(int(t), increments.shape[1] - 1)
        return (field(z).unflatten(-1, (8, size)) @ increments[:, window, :, None])[..., 0]

    def model():
        t = torch.arange(0.0, increments.shape[1] + 1)
        return last(torchdiffeq.odeint(slope, first(coefficients[:, 0]), t, method="euler")[-1])

    parameters = [one for module in (field, first, last) for one in module.parameters()]
    losses = trained(model, parameters, target, steps=30)
    assert losses[-1] < 0.7 * losses[0]


def test_gradients_reach_what_comes_before_the_log_signatures():
    path, _target = data()
    before, windows, model = torch.nn.Linear(3, 2), nt.LogSignatureWindows(2, step=8), nt.NeuralRDE(2, 1, depth=2)
    mixed = before(path)
    model(mixed[:, 0], windows(mixed)).square().mean().backward()
    assert before.weight.grad is not None
    assert before.weight.grad.abs().min() > 0


def test_mistakes():
    with pytest.raises(ValueError, match="one of 'final', 'mean', 'every'"):
        nt.NeuralRDE(3, 1, depth=2, readout="last")
    with pytest.raises(ValueError, match="solver='rk5'"):
        nt.NeuralRDE(3, 1, depth=2, solver="rk5")


@pytest.mark.long
def test_an_exported_model_predicts_in_torch(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 81, 2)).cumsum(axis=1)
    small = neuralrde.Config(neuralrde.NeuralRDE, state=8, width=16)
    estimator = neuralrde.NeuralRDERegressor(
        model=small,
        windows=16,
        transform=Standard(fill=None),
        epochs=2,
        closed_form=False,
        random_state=0,
        verbose=False,
    ).fit(X, X[:, -1, 0])
    export_model(estimator, tmp_path, formats=["onnx"])
    model = nt.ExportedModel(tmp_path)
    found = model(torch.from_numpy(X))
    # float32, by another compiler
    np.testing.assert_allclose(found[:, 0], estimator.predict(X), rtol=1e-3, atol=1e-3)
