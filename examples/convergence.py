"""The order of the log-ODE method rises with depth: `python examples/convergence.py [folder]`.

A nonlinear equation dZ = f(Z) dX is solved by log-ODEs with exact Lie brackets, from log-signatures over longer and
longer windows, and compared with following X from point to point: along a smooth curve, and along Brownian paths.

At depth N the first thing left out is level N + 1 of the log-signature. Along Brownian motion that is of size
h^((N+1)/2) in a window of length h, and such errors add up like noise: the order is N / 2. Along a smooth curve the
order is at least N. It is even (2, 4, 4, 6), because reversing a curve negates its log-signature: seen from the middle
of a window, a smooth curve's has no even powers of h.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import neuralrde as nrde
from neuralrde.fields import BracketField, MatrixField
from neuralrde.plots import GRID, figure, save
from neuralrde.solvers import Direct, solve

jax.config.update("jax_enable_x64", True)

POINTS, SAMPLES, DEPTHS = 4096, 100, [1, 2, 3, 4]
COLOURS = {1: "#d9730d", 2: "#8a8f9c", 3: "#0b6e99", 4: "#5b3a8c"}


def vectors(z: jax.Array) -> jax.Array:
    """f: two vector fields on the plane that do not commute, as the columns of a matrix."""
    x, y = z
    return jnp.array([[jnp.sin(y), 1 + 0.5 * jnp.cos(x)], [jnp.cos(x + y), 0.5 * jnp.sin(x)]])


FIELD = MatrixField(vectors, state=2, controls=2)


def smooth_curve() -> np.ndarray:
    t = np.linspace(0, 1, POINTS + 1)
    return np.stack([np.sin(5 * t) + t, t * np.cos(4 * t)], axis=-1)[None]


def brownian_paths(seed: int = 0) -> np.ndarray:
    increments = np.random.default_rng(seed).normal(size=(SAMPLES, POINTS, 2)) / np.sqrt(POINTS)
    return np.pad(increments.cumsum(axis=1), ((0, 0), (1, 0), (0, 0)))


def end_states(field: MatrixField | BracketField, log_signatures: list[np.ndarray], substeps: int) -> list[jax.Array]:
    """For each array of log-signatures, one per window, the end states of all samples."""
    one = lambda logs: solve(field, jnp.array([0.3, -0.2]), logs, substeps=substeps, gradient=Direct())
    run, most = jax.jit(jax.vmap(one)), max(logs.shape[1] for logs in log_signatures)
    # Zero log-signatures leave the state where it was: with them all are of one shape, and compile once.
    return [run(np.pad(logs, ((0, 0), (0, most - logs.shape[1]), (0, 0)))) for logs in log_signatures]


def errors(path: np.ndarray, windows: list[int], substeps: int) -> dict[int, np.ndarray]:
    """For each depth, the root mean square error of the end state for each number of windows."""
    [exact] = end_states(FIELD, [np.diff(path, axis=1)], substeps=1)
    found = {}
    for depth in DEPTHS:
        logs = [nrde.log_signatures(path, depth, step=POINTS // count, basis="brackets") for count in windows]
        ends = end_states(BracketField(FIELD, depth), logs, substeps)
        found[depth] = np.array([float(jnp.sqrt(((end - exact) ** 2).sum(-1).mean())) for end in ends])
    return found


def slope(windows: list[int], errors: np.ndarray) -> float:
    return float(-np.polyfit(np.log(windows), np.log(errors), 1)[0])


def draw(axis, windows: list[int], found: dict[int, np.ndarray], title: str) -> None:
    lengths = 1 / np.array(windows)
    for depth, values in found.items():
        axis.loglog(lengths, values, "o-", color=COLOURS[depth], linewidth=1.6, markersize=4.5)
        axis.annotate(f"depth {depth}: order {slope(windows, values):.1f}", (lengths[-1], values[-1]), (-8, 0),
                      textcoords="offset points", color=COLOURS[depth], ha="right", va="center")  # fmt: skip
    axis.set(title=title, xlabel="length of a window, of the whole path's")
    axis.set_xlim(lengths[-1] / 10, lengths[0] * 1.5)  # room for the labels
    axis.set_xticks(lengths, [f"1/{count}" for count in windows])
    axis.minorticks_off()
    axis.grid(color=GRID, linewidth=0.6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"), help="where the picture goes")
    folder = parser.parse_args().folder
    begin = time.perf_counter()
    cases = [
        ("Along a smooth curve", [8, 16, 32, 64], errors(smooth_curve(), [8, 16, 32, 64], substeps=32)),
        ("Along Brownian paths", [16, 32, 64, 128, 256], errors(brownian_paths(), [16, 32, 64, 128, 256], substeps=4)),
    ]
    print("| fitted order | " + " | ".join(f"depth {depth}" for depth in DEPTHS) + " |\n" + "|---" * 5 + "|")
    for title, windows, found in cases:
        print(f"| {title} | " + " | ".join(f"{slope(windows, found[depth]):.2f}" for depth in DEPTHS) + " |")

    with figure(11, 5) as picture:
        axes = picture.subplots(1, 2)
        for axis, (title, windows, found) in zip(axes, cases, strict=True):
            draw(axis, windows, found, title)
        axes[0].set_ylabel("error at the end (root mean square)")
    file = save(picture, folder / "convergence.png")
    print(f"\nPicture: {file} ({time.perf_counter() - begin:.0f} s)")


if __name__ == "__main__":
    main()
