"""Training in two processes of one core each, beside one process of one core and one of two: seconds per step.

The same model, data and batches for all. Efficiency is the speed over that of one core, divided by the cores. Each way
runs in processes of its own, pinned to their cores, which find each other over loopback (gloo).
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

# By batch: enough epochs for a median, after the first, which compiles.
BATCHES, EPOCHS, STEPS = (32, 128), 4, 8
WINDOWS, CHANNELS = 128, 6


def train(batch: int) -> float:
    """The median of seconds per step."""
    import jax
    import numpy as np

    from neuralrde import NeuralRDE
    from neuralrde.training import Examples, Listener, Settings, SquaredError, fit

    class Clock(Listener):
        def __init__(self):
            self.times = [time.perf_counter()]

        def step(self, *, examples):
            self.times.append(time.perf_counter())

    rng = np.random.default_rng(0)
    logs = (0.05 * rng.normal(size=(batch * STEPS, WINDOWS, CHANNELS * (CHANNELS + 1) // 2))).astype(np.float32)
    examples = Examples((logs[:, 0, :CHANNELS], logs), logs.sum((1, 2))[:, None])
    model = NeuralRDE(CHANNELS, 1, depth=2, state=32, width=64, layers=3, key=jax.random.key(0))
    clock = Clock()
    fit(
        model,
        examples,
        loss=SquaredError(),
        settings=Settings(epochs=EPOCHS, batch_size=batch),
        listeners=[clock],
        mesh=jax.devices(),
    )
    times = clock.times[1 + STEPS :]
    # Only the first of several processes is told of steps.
    return statistics.median(b - a for a, b in pairwise(times)) if len(times) > 1 else 0.0


def worker(place: dict[str, Any]) -> None:
    from neuralrde.processes import join_processes

    if place["count"] > 1:
        join_processes(place["coordinator"], place["count"], place["number"])
    seconds = train(place["batch"])
    if place["number"] == 0:
        print(seconds)


def measured(batch: int, cores: list[list[int]]) -> float:
    """Seconds per step of as many processes as there are lists, each pinned to its cores."""
    allowed, running = os.sched_getaffinity(0), []
    with socket.create_server(("127.0.0.1", 0)) as free:
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    for number, own in enumerate(cores):
        place = {"batch": batch, "count": len(cores), "number": number, "coordinator": coordinator}
        environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(len(own)), "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-m", "benchmarks.speed.several_processes", json.dumps(place)]
        os.sched_setaffinity(0, own)  # as `taskset` does: what is started inherits it
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        os.sched_setaffinity(0, allowed)
    out = [process.communicate()[0] for process in running]
    return float(out[0].split()[-1])


def main() -> None:
    first, second, *_ = sorted(os.sched_getaffinity(0))
    ways = {
        "1 process, 1 core": [[first]],
        "2 processes, 1 core each": [[first], [second]],
        "1 process, 2 cores": [[first, second]],
    }
    print(f"A step of training, {WINDOWS} windows, depth 2, state 32:")
    for batch in BATCHES:
        # The best of two rounds, in turn: whatever else the machine did, it did to all.
        rounds = [{name: measured(batch, cores) for name, cores in ways.items()} for _ in range(2)]
        best = {name: min(one[name] for one in rounds) for name in ways}
        alone = best["1 process, 1 core"]
        for name, cores in ways.items():
            used = sum(map(len, cores))
            print(
                f"  batch {batch:4d}  {name:25s} {1e3 * best[name]:7.1f} ms  efficiency {alone / best[name] / used:.2f}"
            )


if __name__ == "__main__":
    worker(json.loads(sys.argv[1]))
