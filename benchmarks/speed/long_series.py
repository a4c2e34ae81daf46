"""Worms of 17984 frames at step 4: seconds an epoch and peak memory, ours beside the paper's stack, in one run.

4496 windows, depth 2 and 3, the paper's sizes for EigenWorms (state 32, 3 layers of 64). The same weights, data and 3/8
steps for both: a whole epoch is one batch of all 43 worms, loss and gradients. torchdiffeq's adjoint is the paper's way
of training. Where its epoch would take over ten minutes by a first look at a few windows, it is timed on fewer windows,
and the output says that it was scaled. The data are not UEA's EigenWorms, but a sample of the same kind.
"""

import multiprocessing
from functools import partial
from typing import Any

import numpy as np

from neuralrde import log_signatures
from reproduction.data import load

from ..timing import table
from .processes import race
from .solve import ADJOINT
from .training_steps import LAYERS, STATE, WIDTH, Arrays, make_weights, ours, with_torchdiffeq

STEP, DEPTHS = 4, (2, 3)
# torchdiffeq is looked at over so many windows first, and not run whole if it would take longer than this.
GLANCE, LONGEST = 64, 600.0


def worms(depth: int, samples: int | None = None) -> Arrays:
    """Log-signatures of all worms, of unit size over a whole series, so that solves stay finite."""
    series = load("eigenworms_source44").series.values[:samples].astype(np.float64)
    series = (series - series.mean(axis=(0, 1))) / series.std(axis=(0, 1))
    logs = log_signatures(series, depth, step=STEP)
    scale = 1 / np.sqrt((logs**2).mean(axis=(0, 1)) * logs.shape[1])
    labels = np.random.default_rng(0).normal(size=(len(series), 1)).astype(np.float32)
    return {"x0": series[:, 0].astype(np.float32), "logs": (logs * scale).astype(np.float32), "labels": labels}


def shortened(data: Arrays, windows: int) -> Arrays:
    return data | {"logs": np.ascontiguousarray(data["logs"][:, :windows])}


def check(results: dict[str, Any]) -> None:
    """Both compute the same: losses agree. (The adjoint's gradients drift over thousands of windows.)"""
    (mine, _), (theirs, _) = results["ours"], results[ADJOINT]
    assert abs(theirs - mine) < 1e-3 * abs(mine), (mine, theirs)


def compare(depth: int, samples: int | None) -> list[str]:
    weights, data = make_weights(depth), worms(depth, samples)
    windows = data["logs"].shape[1]
    glance = race({ADJOINT: partial(with_torchdiffeq, weights, shortened(data, GLANCE), depth, adjoint=True)}, rounds=1)
    expected = glance[ADJOINT][0] * windows / GLANCE
    # Whole or in part, ours runs the same windows in the check, and all of them in the timing.
    part = windows if expected < LONGEST else max(GLANCE, int(windows * LONGEST / expected / 4))
    problem = weights, shortened(data, part), depth
    ways = {"ours": partial(ours, *problem), ADJOINT: partial(with_torchdiffeq, *problem, adjoint=True)}
    found = race(ways, rounds=1, check=check)
    if part < windows:
        found["ours"] = race({"ours": partial(ours, weights, data, depth)}, rounds=1)["ours"]
    (mine, memory), (theirs, their_memory) = found["ours"], found[ADJOINT]
    theirs *= windows / part
    how = "measured whole" if part == windows else f"scaled from {part} of {windows} windows; its MB are of those"
    return [str(depth), f"{mine:.1f}", f"{memory / 1e6:.0f}", f"{theirs:.0f}", f"{their_memory / 1e6:.0f}",
            f"{theirs / mine:.1f}", how]  # fmt: skip


def main(samples: int | None = None) -> None:
    sizes = f"state {STATE}, trunk {LAYERS} x {WIDTH}, {multiprocessing.cpu_count()} cores"
    print(f"# Worms: {samples or 43} series of 17984 points, step {STEP}, {sizes}\n")
    header = ["depth", "ours, s an epoch", "MB", f"{ADJOINT}, s an epoch", "MB", "times", "torchdiffeq was"]
    print(table(header, [compare(depth, samples) for depth in DEPTHS]), flush=True)
