"""Solving neural RDEs: our time, memory and share of the machine's peak beside torchdiffeq's and Diffrax's.

The same weights, data and Runge-Kutta steps for all: a training step (loss and gradients) of the paper's model on 562
windows, one step of the 3/8 rule a window. Each way lives in a process of its own, with all cores, so that memory can be
told apart; the processes hold their problem ready and are timed in turn, one at a time. Losses and gradients are
compared before anything is timed.

Then: the cost of longer and longer series, and linear models beside the nonlinear one.
"""

import ctypes
import gc
import math
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from neuralrde import log_signature_channels, log_signatures

from .timing import milliseconds, race, table

WINDOWS, CHANNELS, STATE, WIDTH, LAYERS, STAGES = 562, 6, 32, 64, 3, 4
WORK = [(32, 2), (181, 2), (181, 3)]  # batch, depth
WAYS = ["ours", "torchdiffeq adjoint", "torchdiffeq odeint", "Diffrax"]
TARGETS = {(32, 2): (17, 9, None), (181, 2): (6, 4, 10), (181, 3): (9, 6, 10)}  # at least, in the order of WAYS[1:]
ROUNDS = 3
LENGTHS, STEP = [1_000, 10_000, 100_000, 1_000_000], 32
PICTURE = Path("docs/images/length.png")

Arrays = dict[str, np.ndarray]
Run = Callable[[], tuple[float, Arrays]]  # the loss, and its gradient by each array of weights


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

    model = NeuralRDE(CHANNELS, 1, depth=depth, state=STATE, width=WIDTH, layers=LAYERS, key=jax.random.key(0), **options)
    zero = lambda linear: eqx.tree_at(lambda l: l.bias, linear, jnp.zeros_like(linear.bias))
    model = eqx.tree_at(lambda m: (m.encoder, m.decoder.linear), model, replace_fn=zero)
    return eqx.tree_at(arrays_of, model, [jnp.asarray(weight) for weight in weights.values()])


def arrays_of(model: Any) -> list:
    """The arrays of a model, or of its gradient, in the order of `make_weights`."""
    layers = [array for layer in model.field.features.layers for array in (layer.weight, layer.bias)]
    return [model.encoder.weight, model.decoder.linear.weight, *layers, model.field.weight, model.field.bias]


def in_jax(weights: Arrays, data: Arrays, depth: int, predict: Callable | None = None) -> Run:
    """A compiled training step of our model, or of another way to `predict` with it; the batch over all cores."""
    import equinox as eqx
    import jax

    from neuralrde.devices import device_mesh, pad_batch, replicate, shard_batch, sharded_value_and_grad, use_all_cores
    from neuralrde.solve import RK4ThreeEighths

    use_all_cores()
    mesh = device_mesh()
    model = replicate(build_model(weights, depth, solver=RK4ThreeEighths()), mesh)

    def losses(model, batch):
        one = model if predict is None else lambda x0, logs: predict(model, x0, logs)
        return ((jax.vmap(one)(batch["x0"], batch["logs"]) - batch["labels"]) ** 2).mean(axis=-1)

    batch, counts = pad_batch(data, mesh.size)
    batch, counts = shard_batch(batch, mesh), shard_batch(counts, mesh)
    step = sharded_value_and_grad(losses, mesh)
    if predict is not None:  # Diffrax fails inside shard_map (its issue 765), so that XLA shares its batch out
        step = eqx.filter_value_and_grad(lambda m, batch, counts: (counts * losses(m, batch)).sum() / counts.sum())
    step = eqx.filter_jit(step).lower(model, batch, counts).compile()

    def run():
        loss, gradient = step(model, batch, counts)
        loss.block_until_ready()
        return float(loss), dict(zip(weights, map(np.asarray, arrays_of(gradient)), strict=True))

    return run


def with_diffrax(weights: Arrays, data: Arrays, depth: int) -> Run:
    import diffrax
    import jax.numpy as jnp

    from neuralrde.solve import RK4ThreeEighths

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
        matrix = lambda t, z, _: (jnp.einsum("csw,w->sc", field.weight, field.features(z)) + field.bias.T)
        solution = diffrax.diffeqsolve(
            diffrax.ControlTerm(matrix, Control(logs)), RK4ThreeEighths(), 0.0, float(WINDOWS), 1.0, model.encoder(x0),
            max_steps=WINDOWS, adjoint=diffrax.RecursiveCheckpointAdjoint(),
        )  # fmt: skip
        return model.decoder.linear(solution.ys[-1])

    return in_jax(weights, data, depth, predict)


def with_torchdiffeq(weights: Arrays, data: Arrays, depth: int, *, adjoint: bool) -> Run:
    """The paper's own scheme: f(z) as a matrix, times the derivative of the control path, which is constant a window."""
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
            layers = [torch.nn.Linear(*pair) for pair in zip(sizes, sizes[1:], strict=False)]
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

    def run(windows=logs.shape[1]):
        times = torch.tensor([0.0, float(windows)])
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

    run(windows=2)  # what torch sets up once, as JAX does when it compiles, is not the memory of a training step
    return run


PREPARE: dict[str, Callable[..., Run]] = {
    "ours": in_jax,
    "torchdiffeq adjoint": lambda *args: with_torchdiffeq(*args, adjoint=True),
    "torchdiffeq odeint": lambda *args: with_torchdiffeq(*args, adjoint=False),
    "Diffrax": with_diffrax,
}


# Processes that hold a problem ready, and are timed in turn.


def peak_memory(run: Callable[[], object]) -> tuple[object, int]:
    """What it returns, and how many bytes the process grew by at the most while it ran (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # free memory that is kept for later would hide what is taken now
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far, which compilation may have set
    status = lambda name: int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) * 1024
    before = status("VmRSS")
    result = run()
    return result, status("VmHWM") - before


def worker(connection: Any, way: str, arguments: tuple) -> None:
    run = PREPARE[way](*arguments)
    connection.send(peak_memory(run))
    while connection.recv():
        begin = time.perf_counter()
        run()
        connection.send(time.perf_counter() - begin)


class Workers:
    """One process for each way. Only one of them works at a time."""

    def __init__(self, ways: list[str], arguments: tuple):
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes, self.first = {}, [], {}
        for way in ways:
            self.pipes[way], theirs = context.Pipe()
            self.processes.append(context.Process(target=worker, args=(theirs, way, arguments), daemon=True))
            self.processes[-1].start()
            theirs.close()
            self.first[way] = self.pipes[way].recv()  # ((loss, gradients), bytes)

    def seconds(self, way: str) -> float:
        self.pipes[way].send(True)
        return self.pipes[way].recv()

    def close(self) -> None:
        for pipe in self.pipes.values():
            pipe.send(False)
        for process in self.processes:
            process.join()
