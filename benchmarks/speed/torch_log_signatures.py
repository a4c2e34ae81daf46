"""Log-signatures in PyTorch, forward and backward: ours, pysiglib's on all cores, and iisignature's.

First the windows of `log_signatures`, where both peers are handed windows already cut out and copied. Then single short
paths, where the overhead of a call decides; there pysiglib runs on one core too, and its faster time counts.
"""

import time

import iisignature
import numpy as np
import pysiglib
import pysiglib.torch_api
import torch

import neuralrde.torch as nt

from ..timing import milliseconds, race, table
from .log_signatures import WORK, windows_of

# length, channels, depth
SINGLE = [(200, 2, 2), (200, 2, 4), (200, 7, 3), (400, 4, 3), (800, 2, 3), (800, 7, 2), (800, 7, 4)]
PEERS = ["pysiglib", "iisignature"]


def windows(samples: int, length: int, channels: int, step: int, depth: int) -> tuple[str, dict, dict]:
    """Seconds of each, forward and backward."""
    rng = np.random.default_rng(0)
    path = (rng.normal(size=(samples, length, channels)).cumsum(axis=1) * 0.1).astype(np.float32)
    path = path[:, : (length - 1) // step * step + 1].copy()  # the peers know no shorter last window
    cut = windows_of(path, step)
    ours, theirs = torch.from_numpy(path).requires_grad_(), torch.from_numpy(cut).requires_grad_()
    name = f"{samples} x {length}, {channels} channels, step {step}, depth {depth}"
    return name, *raced(ours, lambda path: nt.log_signatures(path, depth, step=step), theirs, depth, repeat=1)


def single(length: int, channels: int, depth: int) -> tuple[str, dict, dict]:
    path = torch.from_numpy(np.random.default_rng(0).normal(size=(length, channels)).cumsum(axis=0)).requires_grad_()
    name = f"{length} points, {channels} channels, depth {depth}"
    repeat = 100 if channels**depth < 1000 else 5
    return name, *raced(path, lambda path: nt.log_signature(path, depth), path, depth, repeat=repeat)


def raced(ours: torch.Tensor, own, theirs: torch.Tensor, depth: int, *, repeat: int) -> tuple[dict, dict]:
    """A call each, and a call with its gradient, both from scratch."""
    channels, array = theirs.shape[-1], theirs.detach().numpy()
    pysiglib.prepare_log_sig(channels, depth, 1)
    prepared = iisignature.prepare(channels, depth, "S")
    jobs = (-1,) if repeat == 1 else (-1, 1)
    calls = {"ours": (ours, own)}
    for n_jobs in jobs:
        run = lambda path, n_jobs=n_jobs: pysiglib.torch_api.log_sig(path, depth, method=1, n_jobs=n_jobs)
        calls[f"pysiglib {n_jobs}"] = (theirs, run)
    found = {name: run(path) for name, (path, run) in calls.items()}
    for name, values in found.items():
        apart = (values.reshape(found["ours"].shape) - found["ours"]).abs().max()
        assert apart < 1e-3 * found["ours"].abs().max(), f"{name} computes something else"
    bars = {name: torch.ones_like(values) for name, values in found.items()}
    bar = np.ones((*array.shape[:-2], found["ours"].shape[-1]), array.dtype)

    def often(call):
        return lambda: [call() for _ in range(repeat)]

    def without_gradient(path, run):
        with torch.no_grad():
            return run(path)

    def both_ways(name, path, run):
        return torch.autograd.grad(run(path), path, bars[name])

    forward = {name: often(lambda one=one: without_gradient(*one)) for name, one in calls.items()}
    forward["iisignature"] = often(lambda: iisignature.logsig(array, prepared, "S"))
    there = race(forward)
    back = {name: often(lambda name=name, one=one: both_ways(name, *one)) for name, one in calls.items()}
    if there["iisignature"] < 0.3:  # backwards it is five to ten times slower again
        back["iisignature"] = often(
            lambda: (iisignature.logsig(array, prepared, "S"), iisignature.logsigbackprop(bar, array, prepared, "S"))
        )
    return tuple(best_of(times, repeat) for times in (there, race(back)))  # type: ignore


def best_of(times: dict[str, float], repeat: int) -> dict[str, float]:
    found = {name: seconds / repeat for name, seconds in times.items() if not name.startswith("pysiglib")}
    return found | {"pysiglib": min(seconds / repeat for name, seconds in times.items() if name.startswith("pysiglib"))}


def row(name: str, times: dict[str, float], unit: float) -> list[str]:
    """Milliseconds, or whatever unit is given."""
    ours = times["ours"]
    cell = lambda peer: f"{milliseconds(times[peer] * unit)} ({times[peer] / ours:.1f}x)" if peer in times else "-"
    return [name, milliseconds(ours * unit), *map(cell, PEERS)]


def main() -> None:
    print("# Log-signatures in PyTorch (in brackets: how many times longer than ours)")
    for what, done, unit in (
        ("windows, float32, milliseconds", [windows(*work) for work in WORK], 1),
        ("single paths, float64, microseconds", [single(*work) for work in SINGLE], 1000),
    ):
        for number, way in enumerate(("forward", "with the gradient"), 1):
            print("\n" + table([f"{what}, {way}", "ours", *PEERS], [row(one[0], one[number], unit) for one in done]))


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - begin:.0f} s")
