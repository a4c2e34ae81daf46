"""Solving neural RDEs: our time, memory and share of the machine's peak beside torchdiffeq's and Diffrax's.

The same weights, data and Runge-Kutta steps for all: a training step (loss and gradients) of the paper's model on 562
windows, one step of the 3/8 rule a window. Each way lives in a process of its own, with all cores, so that its memory
can be told; the processes hold their problem ready and are timed in turn, one at a time. Losses and gradients are
compared before anything is timed.

Then: the cost of longer and longer series, and linear models beside the nonlinear one.
"""

import ctypes
import gc
import math
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from neuralrde import log_signature_channels, log_signatures

from .timing import milliseconds, table

WINDOWS, CHANNELS, STATE, WIDTH, LAYERS, STAGES = 562, 6, 32, 64, 3, 4
ADJOINT, BACKPROP = "torchdiffeq adjoint", "torchdiffeq odeint"
# Diffrax as its documentation has it, jit of vmap; and with the batch shared out over the cores by our `devices`.
DIFFRAX, DIFFRAX_SHARED = "Diffrax", "Diffrax, shared out"
# Batch, depth, and how many times faster than each peer we mean to be at least.
WORK = [
    (32, 2, {ADJOINT: 17, BACKPROP: 9}),
    (181, 2, {ADJOINT: 6, BACKPROP: 4, DIFFRAX: 10, DIFFRAX_SHARED: None}),
    (181, 3, {ADJOINT: 9, BACKPROP: 6}),
]
ROUNDS = 2
POINTS, STEP = [1_000, 10_000, 100_000, 1_000_000], 32
PICTURE = Path("docs/images/length.png")

Arrays = dict[str, np.ndarray]
Run = Callable[[], Any]  # a training step gives the loss, and its gradient by each array of weights


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
    from neuralrde.solve import RK4ThreeEighths

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


def product(size: int = 2048) -> Run:
    """A matrix product that keeps all cores at their peak: each multiplies matrices of its own."""
    import jax
    import jax.numpy as jnp

    from neuralrde.devices import device_mesh, shard_batch, use_all_cores

    cores = use_all_cores()
    matrices = shard_batch(jnp.ones((cores, size, size)), device_mesh())
    multiply = jax.jit(lambda a: (a @ a)[:, 0, 0])
    return lambda: np.asarray(multiply(matrices))


# Processes that hold a problem ready, and are timed in turn.


def peak_memory(run: Run) -> tuple[Any, int]:
    """What it returns, and how many bytes the process grew by at the most while it ran (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # free memory that is kept for later would hide what is taken now
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far, which compilation may have set
    status = lambda name: int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) * 1024
    before = status("VmRSS")
    result = run()
    return result, status("VmHWM") - before


def worker(connection: Any, prepare: Callable[[], Run]) -> None:
    run = prepare()
    connection.send(run())
    while connection.recv():
        begin = time.perf_counter()
        run()
        connection.send(time.perf_counter() - begin)
    # At the end: what is set up once (threads, workspaces, the allocator's pools) is not a training step's memory.
    # XLA's own account counts where it is larger: memory that the process already held does not show as growth.
    connection.send(max(peak_memory(run)[1], getattr(run, "temporary", 0)))


def race(ways: dict[str, Callable[[], Run]], rounds: int = ROUNDS, check: Callable = lambda results: None) -> dict:
    """For each way, the best seconds of several rounds and the peak of memory. A process each; one at a time works."""
    context = multiprocessing.get_context("spawn")
    pipes, processes, results, memory = {}, [], {}, {}
    for name, prepare in ways.items():
        pipes[name], theirs = context.Pipe()
        processes.append(context.Process(target=worker, args=(theirs, prepare), daemon=True))
        processes[-1].start()
        theirs.close()
        results[name] = pipes[name].recv()
    check(results)
    best = dict.fromkeys(ways, math.inf)
    for _ in range(rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            best[name] = min(best[name], pipe.recv())
    for (name, pipe), process in zip(pipes.items(), processes, strict=True):
        pipe.send(False)
        memory[name] = pipe.recv()
        process.join()
    return {name: (best[name], memory[name]) for name in ways}


# What is measured.


# In single examples gradients agree to 1e-5, but for one in thirty or so, where a ReLU's input is zero to rounding and
# opens here and not there. The adjoint's gradients are approximate by themselves, and at the kinks of ReLU more so.
TOLERANCES = {ADJOINT: 5e-2, BACKPROP: 5e-3, DIFFRAX: 5e-3, DIFFRAX_SHARED: 5e-3}


def check_agreement(results: dict[str, Any]) -> None:
    loss, gradients = results["ours"]
    for way in TOLERANCES.keys() & results.keys():
        theirs, their_gradients = results[way]
        assert abs(theirs - loss) < 1e-4 * abs(loss), (way, theirs, loss)
        for name, gradient in gradients.items():
            off = np.linalg.norm(their_gradients[name] - gradient) / np.linalg.norm(gradient)
            assert off < TOLERANCES[way], (way, name, off)


def compare() -> None:
    rows, shares = [], []
    for batch, depth, targets in WORK:
        problem = make_weights(depth), make_data(batch, depth), depth
        peers = {
            ADJOINT: partial(with_torchdiffeq, *problem, adjoint=True),
            BACKPROP: partial(with_torchdiffeq, *problem, adjoint=False),
            DIFFRAX: partial(with_diffrax, *problem, share=False),
            DIFFRAX_SHARED: partial(with_diffrax, *problem, share=True),
        }
        ways = {"ours": partial(ours, *problem)} | {name: peers[name] for name in targets}
        ways |= {"forward": partial(ours, *problem, backward=False), "product": product}
        found = race(ways, check=check_agreement)
        name, (seconds, memory) = f"batch {batch}, depth {depth}", found["ours"]
        allowed = found[ADJOINT][1] + 4 * batch * WINDOWS * STATE
        row = [name, f"{milliseconds(seconds)} ms, {memory / 1e6:.0f} MB"]
        for peer in peers:
            if peer not in targets:
                row.append("-")
                continue
            theirs, their_memory = found[peer]
            aim = "" if targets[peer] is None else f" ({targets[peer]}x)"
            row.append(f"{milliseconds(theirs)} ms = {theirs / seconds:.1f}x{aim}, {their_memory / 1e6:.0f} MB")
        rows.append([*row, f"{allowed / 1e6:.0f} MB"])
        peak = multiprocessing.cpu_count() * 2 * 2048**3 / found["product"][0]
        there, both = flops(batch, depth)
        rates = [there / found["forward"][0], both / seconds]
        shares.append([name, f"{peak / 1e9:.0f}", *(f"{rate / 1e9:.0f} = {rate / peak:.0%}" for rate in rates)])
        print(f"  measured {name}", flush=True)
    print("\n" + table(["forward + backward", "ours", *peers, "memory allowed"], rows))
    print("\nIn brackets: the ratio aimed at. Memory allowed: the adjoint's, and a state for each window.\n")
    print(table(["GFLOP/s, all cores", "matrix product", "forward", "forward + backward"], shares), flush=True)


def from_points(points: int, batch: int, *, nested: bool) -> Run:
    """Log-signatures of raw series, then a training step on them, at depth 2."""
    from neuralrde.devices import use_all_cores
    from neuralrde.solve import Nested, Recompute

    use_all_cores()
    rng = np.random.default_rng(0)
    path = rng.normal(size=(batch, points, CHANNELS)).astype(np.float32).cumsum(axis=1)
    model = build_model(make_weights(2), 2, gradient=Nested() if nested else Recompute())
    model = model.fit_scale(model.log_signatures(path, step=STEP))
    prepare = lambda: {
        "x0": path[:, 0],
        "logs": model.log_signatures(path, step=STEP),
        "labels": np.zeros((batch, 1), np.float32),
    }
    place, step = training_step(model, prepare())
    return lambda: float(step(place(prepare()))[0])


def lengths(batch: int = 8) -> None:
    found: dict[str, list] = {"Recompute": [], "Nested": []}
    for points in POINTS:
        ways = {name: partial(from_points, points, batch, nested=name == "Nested") for name in found}
        for name, measured in race(ways, rounds=2).items():
            found[name].append(measured)
    rows = []
    for row, points in enumerate(POINTS):
        (kept, kept_memory), (again, again_memory) = (found[name][row] for name in found)
        cells = [kept, kept / points * 1e6, kept_memory / 1e6, again, again_memory / 1e6]
        rows.append([f"{points:,}", *(f"{cell:.3g}" for cell in cells)])
    print("\n" + table(["points", "seconds", "us a point", "MB", "Nested: seconds", "MB"], rows), flush=True)
    draw_lengths(found, batch)


def draw_lengths(found: dict[str, list], batch: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, grid, colours = "#1f2430", "#d5d9e0", {"Recompute": "#0b6e99", "Nested": "#d9730d"}
    plt.rcParams.update({"font.size": 11, "text.color": ink, "axes.labelcolor": ink, "xtick.color": ink,
                         "ytick.color": ink, "axes.edgecolor": grid})  # fmt: skip
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), constrained_layout=True, dpi=130)
    points = np.array(POINTS)
    for which, axis in enumerate(axes):
        for name, measured in found.items():
            values = np.array([pair[which] for pair in measured]) / (1, 1e6)[which]
            axis.loglog(points, values, "o-", color=colours[name], linewidth=1.8, markersize=5, zorder=3)
            other = next(pair[-1][which] for key, pair in found.items() if key != name)
            shift = 6 if measured[-1][which] > other else -6
            axis.annotate(f"{name}()", (points[-1], values[-1]), (9, shift), color=colours[name],
                          textcoords="offset points", va="center")  # fmt: skip
        axis.set_xlim(points[0] / 1.6, points[-1] * 8)  # room for the labels
        axis.set_xticks(points, [f"{p:,}" for p in POINTS])
        axis.minorticks_off()
        axis.grid(color=grid, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel(f"points of each series (windows of {STEP})")
    guide = found["Recompute"][1][0] * points / points[1]
    axes[0].plot(points, guide, "--", color=ink, linewidth=1, zorder=2)
    axes[0].annotate("proportional to length", (points[0], guide[0]), (14, -2), textcoords="offset points")
    axes[0].set(title="Seconds: log-signatures, forward, backward")
    axes[1].set(title=f"Peak memory, MB ({batch} series of {CHANNELS} channels)")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE)
    print(f"\nPicture: {PICTURE}")


def linear(kind: str, data: Arrays, *, parallel: bool) -> Run:
    import jax

    from neuralrde.devices import use_all_cores
    from neuralrde.fields import DiagonalField, LinearField, RotationField
    from neuralrde.models import NeuralRDE
    from neuralrde.solve import Exponential

    use_all_cores()
    controls, key = data["logs"].shape[-1], jax.random.key(0)
    field = {
        "diagonal": lambda: DiagonalField(controls, STATE, key=key),
        "rotations": lambda: RotationField(controls, STATE, key=key),
        "blocks of 4": lambda: LinearField(CHANNELS, STATE, 2, block=4, key=key),
    }[kind]()
    model = NeuralRDE(CHANNELS, 1, depth=2, field=field, solver=Exponential(parallel=parallel), key=key)
    place, step = training_step(model, data)
    placed = place(data)
    return lambda: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(step(placed)[1])])


def compare_linear(batch: int = 181) -> None:
    data = make_data(batch, 2)
    kinds = ["diagonal", "rotations", "blocks of 4"]
    ways: dict[str, Callable] = {"nonlinear": partial(ours, make_weights(2), data, 2)}
    for kind in kinds:
        for order in ("parallel", "sequential"):
            ways[f"{kind}, {order}"] = partial(linear, kind, data, parallel=order == "parallel")
    gradients = {}
    found = race(ways, check=gradients.update)
    rows = [["nonlinear", "-", milliseconds(found["nonlinear"][0]), "1", "-"]]
    for kind in kinds:
        names = [f"{kind}, parallel", f"{kind}, sequential"]
        one, other = (gradients[name] for name in names)
        off = np.linalg.norm(one - other) / np.linalg.norm(other)
        assert off < 1e-4, (kind, off)
        times = [found[name][0] for name in names]
        times_faster = found["nonlinear"][0] / min(times)
        rows.append([kind, *map(milliseconds, times), f"{times_faster:.1f}", f"{off:.0e}"])
    print("\n" + table(["linear fields, ms", "parallel", "sequential", "times faster", "gradients apart"], rows))


def main() -> None:
    print(f"# Training steps: {WINDOWS} windows of {CHANNELS} channels, state {STATE}, trunk {LAYERS} x {WIDTH}, rk4\n")
    compare()
    compare_linear()
    lengths()


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - begin:.0f} s")
