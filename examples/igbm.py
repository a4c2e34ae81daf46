"""The paper's example of what depth is worth, an equation of finance: `python examples/igbm.py [folder] [--quick]`.

Inhomogeneous geometric Brownian motion (appendix A of the paper), with the parameters of Foster et al. (2020):

    dy = a (b - y) dt + sigma y o dW,    y(0) = 0.06,    0 <= t <= 5.

The control is X = (t, W). A log-ODE of depth 1 sees the increments of each window only (Wong-Zakai); depth 2 adds the
area between time and noise, depth 3 the next two brackets. Every depth is driven by the same Brownian paths, and so is
the reference, which follows them from point to point.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import neuralrde as nrde
from neuralrde.fields import LinearField
from neuralrde.plots import GRID, INK, figure, save
from neuralrde.solvers import RK4, Exponential, solve

jax.config.update("jax_enable_x64", True)

A, B, SIGMA, START, END = 0.1, 0.04, 0.6, 0.06, 5.0
POINTS = 8_000
STEPS, DEPTHS = [5, 10, 25, 50, 100, 250, 500, 1000], [1, 2, 3]
COLOURS = {1: "#d9730d", 2: "#8a8f9c", 3: "#0b6e99"}
NAMES = {1: "increments only", 2: "depth 2", 3: "depth 3"}


def equation(depth: int) -> LinearField:
    """The equation as an affine field of X = (t, W): its brackets, and so its log-ODEs, are affine too."""
    field = LinearField(channels=2, state=1, depth=depth, key=jax.random.key(0))
    matrices = jnp.array([-A, SIGMA]).reshape(2, 1, 1, 1)
    offsets = jnp.array([A * B, 0.0]).reshape(2, 1, 1)
    return eqx.tree_at(lambda f: (f.matrices, f.offsets), field, (matrices, offsets))


@eqx.filter_jit
def end_values(field: LinearField, log_signatures: np.ndarray, solver: Any) -> jax.Array:
    one = lambda logs: solve(field, jnp.array([START]), logs, solver=solver)[0]
    return jax.vmap(one)(log_signatures)


def brownian_paths(samples: int, seed: int = 0) -> np.ndarray:
    """(t, W) at all points: (samples, points + 1, 2)."""
    increments = np.random.default_rng(seed).normal(size=(samples, POINTS)) * np.sqrt(END / POINTS)
    times = np.broadcast_to(np.linspace(0, END, POINTS + 1), (samples, POINTS + 1))
    return np.stack([times, np.pad(increments.cumsum(axis=1), ((0, 0), (1, 0)))], axis=-1)


def strong_errors(samples: int, numbers: list[int]) -> dict[int, list[float]]:
    """For each depth, the root mean square error at the end for each number of steps."""
    path = brownian_paths(samples)
    # Between two points y moves by a hundredth of itself: Runge-Kutta is exact to 12 digits there, and cheaper.
    exact = end_values(equation(1), np.diff(path, axis=1), RK4())
    errors = {}
    for depth in DEPTHS:
        field = equation(depth)
        logs = [nrde.log_signatures(path, depth, step=POINTS // steps, basis="brackets") for steps in numbers]
        errors[depth] = [float(jnp.sqrt(((end_values(field, log, Exponential()) - exact) ** 2).mean())) for log in logs]
    return errors


def draw(errors: dict[int, list[float]], numbers: list[int], few: float, many: float) -> Any:
    with figure(8, 5) as picture:
        axis = picture.subplots()
        for depth in DEPTHS:
            axis.loglog(numbers, errors[depth], "o-", color=COLOURS[depth], linewidth=1.8, markersize=5)
            axis.annotate(NAMES[depth], (numbers[-1], errors[depth][-1]), (8, 0), textcoords="offset points",
                          color=COLOURS[depth], va="center", annotation_clip=False)  # fmt: skip
        axis.plot([25, 1000], [few, many], linestyle="--", color=INK, linewidth=1, zorder=0)
        axis.text(230, np.sqrt(few * many) / 4, "25 steps of depth 3 are better than\n1000 steps with increments only",
                  ha="center", va="top")  # fmt: skip
        axis.set(xlabel="steps", ylabel="strong error at the end (root mean square)",
                 title="dy = a(b - y) dt + σ y ∘ dW, driven by log-signatures of (t, W)")  # fmt: skip
        axis.set_xticks(numbers, [str(steps) for steps in numbers])
        axis.minorticks_off()
        axis.grid(color=GRID, linewidth=0.6)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"), help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="few Brownian paths: seconds, not a minute")
    options = parser.parse_args()
    begin = time.perf_counter()
    samples, numbers = (100, [25, 1000]) if options.quick else (2000, STEPS)
    errors = strong_errors(samples, numbers)
    print(f"Strong error at t = {END:g}: root mean square over {samples:,} paths of {POINTS:,} points.\n")
    print("| steps | " + " | ".join(NAMES[depth] for depth in DEPTHS) + " |\n" + "|---:" * (len(DEPTHS) + 1) + "|")
    for row, steps in enumerate(numbers):
        print(f"| {steps} | " + " | ".join(f"{errors[depth][row]:.2g}" for depth in DEPTHS) + " |")
    few, many = errors[3][numbers.index(25)], errors[1][numbers.index(1000)]
    print(f"\n25 steps of depth 3: {few:.2g}. 1000 steps with increments only: {many:.2g}. Ratio {few / many:.2f}.")
    file = save(draw(errors, numbers, few, many), options.folder / "igbm.png")
    print(f"Picture: {file} ({time.perf_counter() - begin:.0f} s)", file=sys.stderr)


if __name__ == "__main__":
    main()
