"""A training step of the paper's model, in four ways: ours, torchdiffeq's adjoint and odeint, and Diffrax.

The same weights, data and Runge-Kutta steps for all: loss and gradients, one step of the 3/8 rule a window, all cores.
Each way imports what it needs inside a process of its own.
"""

import math
import multiprocessing
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from neuralrde import log_signatures
from neuralrde.signatures import log_signature_channels

from .processes import Run  # here it gives the loss, and its gradient by each array of weights

WINDOWS, CHANNELS, STATE, WIDTH, LAYERS, STAGES, STEP = 562, 6, 32, 64, 3, 4, 32
Arrays = dict[str, np.ndarray]


# The problem, in NumPy: what every way is handed.


def make_data(batch: int, depth: int, windows: int = WINDOWS) -> Arrays:
    """Random walks as log-signatures of about unit size over the whole series, and labels."""
    rng = np.random.default_rng(0)
    path = rng.normal(size=(batch, windows * STEP + 1, CHANNELS)).astype(np.float32).cumsum(axis=1)
    logs = log_signatures(path, depth, step=STEP)
    scale = 1 / np.sqrt((logs**2).mean(axis=(0, 1)) * windows)
    return {
        "x0": path[:, 0],
        "logs": (logs * scale).astype(np.float32),
        "labels": rng.normal(size=(batch, 1)).astype(np.float32),
    }


def make_weights(depth: int) -> Arrays:
    rng = np.random.default_rng(1)
    normal = lambda *shape, inputs: (rng.normal(size=shape) / math.sqrt(inputs)).astype(np.float32)
    controls = log_signature_channels(CHANNELS, depth)
    weights = {"encoder": normal(STATE, CHANNELS, inputs=CHANNELS), "decoder": normal(1, STATE, inputs=STATE)}
    for layer, inputs in enumerate([STATE] + [WIDTH] * (LAYERS - 1)):
        weights[f"trunk {layer}"] = normal(WIDTH, inputs, inputs=inputs / 2)
        weights[f"bias {layer}"] = np.zeros(WIDTH, np.float32)
    weights["last"] = normal(controls, STATE, WIDTH, inputs=WIDTH * controls)
    weights["last bias"] = np.zeros((controls, STATE), np.float32)
    return weights


def flops(batch: int, depth: int) -> tuple[float, float]:
    """Forward, and forward + backward as it is run: states are kept, so that each window is computed twice."""
    controls = log_signature_channels(CHANNELS, depth)
    contraction = 2 * controls * (WIDTH + 1) * STATE
    stages = STAGES * 2 * (STATE * WIDTH + (LAYERS - 1) * WIDTH * WIDTH + WIDTH * STATE)
    # Backward a product costs two more, but log-signatures are data: the contraction needs the weights' gradient only.
    both = (2 + 1) * contraction + (2 + 2) * stages
    return batch * WINDOWS * (contraction + stages), batch * WINDOWS * both


# The four ways. Each imports what it needs inside its own process.


def build_model(weights: Arrays, depth: int, **options: Any) -> Any:
    """Our model, with these weights."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from neuralrde.models import NeuralRDE

    model = NeuralRDE(
        CHANNELS, 1, depth=depth, state=STATE, width=WIDTH, layers=LAYERS, key=jax.random.key(0), **options
    )
    zero = lambda linear: eqx.tree_at(lambda l: l.bias, linear, jnp.zeros_like(linear.bias))
    model = eqx.tree_at(lambda m: (m.encoder, m.decoder.linear), model, replace_fn=zero)
    return eqx.tree_at(arrays_of, model, [jnp.asarray(weight) for weight in weights.values()])


def arrays_of(model: Any) -> list:
    """The arrays of a model, or of its gradient, in the order of `make_weights`."""
    layers = [array for layer in model.field.features.layers for array in (layer.weight, layer.bias)]
    return [model.encoder.weight, model.decoder.linear.weight, *layers, model.field.weight, model.field.bias]


def training_step(model: Any, data: Arrays, predict: Callable | None = None, *, backward: bool = True) -> tuple:
    """How to place data on all cores, and a compiled step. `predict` is another way to use the model's weights."""
    import equinox as eqx
    import jax

    from neuralrde.devices import device_mesh, pad_batch, replicate, shard_batch, sharded_value_and_grad

    def losses(model, batch):
        one = model if predict is None else lambda x0, logs: predict(model, x0, logs)
        return ((jax.vmap(one)(batch["x0"], batch["logs"]) - batch["labels"]) ** 2).mean(axis=-1)

    mesh = device_mesh()
    model = replicate(model, mesh)
    place = lambda data: tuple(shard_batch(part, mesh) for part in pad_batch(data, mesh.size))
    step = sharded_value_and_grad(losses, mesh)
    if predict is not None:  # Diffrax fails inside shard_map (its issue 765): XLA shares its batch out
        step = eqx.filter_value_and_grad(lambda m, batch, counts: (counts * losses(m, batch)).sum() / counts.sum())
    if not backward:  # what is not asked for is not computed
        both = step
        step = lambda *args: (both(*args)[0], None)
    step = eqx.filter_jit(step).lower(model, *place(data)).compile()
    run: Any = lambda placed: jax.block_until_ready(step(model, *placed))
    run.temporary = step.compiled.memory_analysis().temp_size_in_bytes * mesh.size
    return place, run


def ours(
    weights: Arrays,
    data: Arrays,
    depth: int,
    predict: Callable | None = None,
    *,
    backward: bool = True,
    cores: int | None = None,
) -> Run:
    from neuralrde.devices import use_all_cores
    from neuralrde.solvers import RK4ThreeEighths

    use_all_cores(cores)
    model = build_model(weights, depth, solver=RK4ThreeEighths())
    place, step = training_step(model, data, predict, backward=backward)
    placed = place(data)

    def run():
        loss, gradient = step(placed)
        return float(loss), dict(zip(weights, map(np.asarray, arrays_of(gradient)), strict=True)) if backward else None

    run.temporary = step.temporary
    return run


def with_diffrax(weights: Arrays, data: Arrays, depth: int, *, share: bool) -> Run:
    import diffrax
    import jax.numpy as jnp

    from neuralrde.solvers import RK4ThreeEighths

    class Control(diffrax.AbstractPath):
        """Its increment over [i, i + 1] is window i's log-signature."""

        logs: Any

        @property
        def t0(self):
            return 0.0

        @property
        def t1(self):
            return float(WINDOWS)

        def evaluate(self, t0, t1=None, left=True):
            return self.logs[jnp.round(t0).astype(int)]

    def predict(model, x0, logs):
        field = model.field
        matrix = lambda t, z, _: jnp.einsum("csw,w->sc", field.weight, field.features(z)) + field.bias.T
        solution = diffrax.diffeqsolve(
            diffrax.ControlTerm(matrix, Control(logs)), RK4ThreeEighths(), 0.0, float(WINDOWS), 1.0, model.encoder(x0),
            max_steps=WINDOWS, adjoint=diffrax.RecursiveCheckpointAdjoint(),
        )  # fmt: skip
        return model.decoder.linear(solution.ys[-1])

    return ours(weights, data, depth, predict, cores=None if share else 1)


def with_torchdiffeq(weights: Arrays, data: Arrays, depth: int, *, adjoint: bool) -> Run:
    """The paper's own scheme: f(z) as a matrix, times the derivative of the control path, constant in a window."""
    import torch
    import torchdiffeq

    torch.set_num_threads(multiprocessing.cpu_count())
    parameters = {name: torch.nn.Parameter(torch.tensor(weight)) for name, weight in weights.items()}
    x0, logs, labels = (torch.tensor(data[name]) for name in ("x0", "logs", "labels"))
    controls = logs.shape[-1]

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = [STATE] + [WIDTH] * LAYERS
            layers = [torch.nn.Linear(*pair) for pair in pairwise(sizes)]
            for i, layer in enumerate(layers):
                layer.weight, layer.bias = parameters[f"trunk {i}"], parameters[f"bias {i}"]
            between = [module for layer in layers for module in (layer, torch.nn.ReLU())]
            self.last = torch.nn.Linear(WIDTH, STATE * controls)
            # Outputs in the order (state, controls), as in the paper's code: a product with the log-signature follows.
            last = parameters["last"].detach().permute(1, 0, 2).reshape(STATE * controls, WIDTH)
            self.last.weight = torch.nn.Parameter(last.contiguous())
            self.last.bias = torch.nn.Parameter(parameters["last bias"].detach().T.reshape(-1).contiguous())
            self.trunk = torch.nn.Sequential(*between[:-1], torch.nn.Tanh())

        def forward(self, t, z):
            matrix = self.last(self.trunk(z)).view(-1, STATE, controls)
            window = min(int(t), logs.shape[1] - 1)  # perturbed inwards from the ends of a step, see below
            return (matrix @ logs[:, window, :, None]).squeeze(-1)

    field = Field()
    options = {"step_size": 1.0, "perturb": True}
    trained = [parameters["encoder"], parameters["decoder"], *field.parameters()]

    def run():
        times = torch.tensor([0.0, float(logs.shape[1])])
        for parameter in trained:
            parameter.grad = None
        z0 = x0 @ parameters["encoder"].T
        if adjoint:
            final = torchdiffeq.odeint_adjoint(
                field, z0, times, method="rk4", options=options, adjoint_params=tuple(field.parameters())
            )[-1]
        else:
            final = torchdiffeq.odeint(field, z0, times, method="rk4", options=options)[-1]
        loss = ((final @ parameters["decoder"].T - labels) ** 2).mean()
        loss.backward()
        last = field.last.weight.grad.view(STATE, controls, WIDTH).permute(1, 0, 2)
        gradients = {name: parameter.grad for name, parameter in parameters.items() if not name.startswith("last")}
        gradients |= {"last": last, "last bias": field.last.bias.grad.view(STATE, controls).T}
        return loss.item(), {name: gradients[name].numpy() for name in weights}

    return run
