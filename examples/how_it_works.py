"""The pictures of "The log-ODE in pictures", from the library: `python examples/how_it_works.py [folder]`.

- levy_area.png: a path, its increment and its Levy area; the same steps in the other order
- windows_of_a_path.png: a path cut into windows, and what is kept of each
- driven_state.png: a state driven by all points, and by 12 log-signatures of depth 1, 2 and 3
- contraction.png: the last layer of the network meets the log-signature once per window
- gradients.png: which states are kept for the way back
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import neuralrde as nrde
from neuralrde.plots import COLOURS, GRID, INK, PALE, figure, save

BLUE, ORANGE, GREEN, PURPLE = COLOURS[:4]


def levy_area() -> Any:
    """Twice the same two movements: right then up, and up then right. Only the area knows which came first."""
    smooth = np.sin(np.linspace(0, np.pi / 2, 60)) ** 2
    first, second = np.concatenate([smooth, np.ones(60)]), np.concatenate([np.zeros(60), smooth])
    with figure(9, 3.7) as picture:
        left, right = picture.subplots(1, 2, sharey=True)
        for axis, path, title, colour in (
            (left, np.stack([first, second], axis=-1), "x moves first", BLUE),
            (right, np.stack([second, first], axis=-1), "y moves first", ORANGE),
        ):
            dx, dy, area = nrde.log_signature(path, depth=2)
            axis.fill(*np.vstack([path, path[:1]]).T, color=colour, alpha=0.18, linewidth=0)
            axis.plot(*path.T, color=colour, linewidth=2)
            axis.plot(*path[[0, -1]].T, color=INK, linewidth=1, linestyle="--")
            axis.annotate("", path[40], path[20], arrowprops={"arrowstyle": "-|>", "color": colour})
            axis.text(0.5, 0.53, "increment", rotation=45, ha="center", va="bottom", color=INK, rotation_mode="anchor")
            axis.set(title=title, xlabel="x", aspect="equal", xlim=(-0.08, 1.08), ylim=(-0.08, 1.08))
            told = f"log-signature\n({dx:.1f}, {dy:.1f}, {area:+.1f})"
            axis.text(*((0.72, 0.2) if area > 0 else (0.28, 0.72)), told, ha="center", va="center", color=colour)
        left.set_ylabel("y")
    return picture


def wandering_path() -> np.ndarray:
    """A smooth curve with some noise, 241 points in the plane."""
    t = np.linspace(0, 1, 241)
    noise = 0.03 * np.random.default_rng(3).normal(size=(241, 2)).cumsum(axis=0)
    return np.stack([np.cos(9 * t) + 3 * t, np.sin(11 * t) * (1 - 0.4 * t)], axis=-1) + noise


def windows_of_a_path() -> Any:
    path, step = wandering_path(), 40
    logs = nrde.log_signatures(path, depth=2, step=step)
    with figure(10, 4.2) as picture:
        above, below = picture.subplots(1, 2, width_ratios=[1.4, 1])
        for k in range(len(logs)):
            piece, colour = path[k * step : (k + 1) * step + 1], COLOURS[k % len(COLOURS)]
            above.fill(*piece.T, color=colour, alpha=0.15, linewidth=0)
            above.plot(*piece.T, color=colour, linewidth=1.6)
            above.plot(*piece[[0, -1]].T, color=INK, linewidth=0.9, linestyle="--")
            above.plot(*piece[0], "o", color=INK, markersize=4)
            above.annotate(f"{k + 1}", piece[step // 2], (4, 4), textcoords="offset points", color=colour)
        above.plot(*path[-1], "o", color=INK, markersize=4)
        above.set(title=f"{len(path)} points, {len(logs)} windows of {step} increments", xlabel="x", ylabel="y")
        rows = [f"window {k + 1}" for k in range(len(logs))]
        most = np.abs(logs).max(axis=0)
        below.imshow(logs / most, cmap="RdBu_r", vmin=-1.6, vmax=1.6, aspect="auto")
        for k, log in enumerate(logs):
            for c, value in enumerate(log):
                below.text(c, k, f"{value:+.2f}", ha="center", va="center")
        below.set_xticks(range(3), ["increment of x", "increment of y", "Levy area"])
        below.set_yticks(range(len(logs)), rows)
        below.tick_params(length=0)
        below.spines[:].set_visible(False)
        below.set_title("What drives the state: one row after the other")
    return picture


def vectors(z: jax.Array) -> jax.Array:
    """Two vector fields on the plane that do not commute, as the columns of a matrix."""
    x, y = z
    return jnp.array([[jnp.sin(y), 1 + 0.5 * jnp.cos(x)], [jnp.cos(x + y), 0.5 * jnp.sin(x)]])


def driven_state() -> Any:
    """The path goes round in small loops while it drifts: between two cuts it hardly moves, and yet sweeps areas."""
    t = np.linspace(0, 1, 1201)
    loops, size = 2 * np.pi * 20 * t, 0.16 + 0.1 * t
    path = np.stack([0.9 * t + size * np.cos(loops), 0.5 * np.sin(3 * t) + size * np.sin(loops)], axis=-1)
    field, start, step = nrde.fields.MatrixField(vectors, state=2, controls=2), jnp.array([0.3, -0.2]), 100
    exact = nrde.solve(field, start, jnp.asarray(np.diff(path, axis=0)), every_window=True)
    with figure(10, 4.4) as picture:
        plane, errors = picture.subplots(1, 2, width_ratios=[1.5, 1])
        plane.plot(*np.asarray(exact).T, color=PALE, linewidth=1, label=f"all {len(path) - 1} increments")
        for depth, colour, marker in ((1, ORANGE, "s"), (2, BLUE, "o"), (3, GREEN, "^")):
            logs = jnp.asarray(nrde.log_signatures(path, depth, step=step, basis="brackets"))
            brackets = nrde.BracketField(field, depth)
            states = nrde.solve(brackets, start, logs, substeps=8, every_window=True)
            away = np.linalg.norm(states - exact[::step], axis=1)
            if depth < 3:  # depth 3 would hide what it hits
                plane.plot(*np.asarray(states).T, marker, color=colour, markersize=5, label=f"depth {depth}")
            errors.semilogy(range(1, len(states)), away[1:], marker + "-", color=colour, markersize=4, linewidth=1.2)
            errors.annotate(f"depth {depth}", (len(states) - 1, away[-1]), (8, 0), textcoords="offset points",
                            color=colour, va="center", annotation_clip=False)  # fmt: skip
        plane.plot(*np.asarray(exact[::step]).T, "o", markerfacecolor="none", color=INK, markersize=8, linewidth=0,
                   label="where it should be")  # fmt: skip
        plane.set(title="The state, driven by 12 windows of 100 increments", xlabel="z1", ylabel="z2")
        plane.legend(loc="best")
        plane.margins(0.08)
        errors.set(title="Distance from where it should be", xlabel="window", xlim=(0.5, 14.6))
        errors.set_xticks([1, 4, 8, 12])
        errors.grid(color=GRID, linewidth=0.6)
    return picture


def box(axis: Any, x: float, y: float, width: float, height: float, text: str, *, colour: str, tint: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.08"
    for alpha, fill in ((tint, True), (1.0, False)):
        axis.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour if fill else "none",
                                      edgecolor="none" if fill else colour, alpha=alpha, linewidth=1.4))  # fmt: skip
    axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", color=INK, linespacing=1.35)


def arrow(axis: Any, start: tuple[float, float], end: tuple[float, float], colour: str = INK) -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.3})


def contraction() -> Any:
    with figure(10, 4.1) as picture:
        axis = picture.subplots()
        axis.text(
            0.1, 4.55, "Integrate first: four Runge-Kutta stages, four large products", color=ORANGE, weight="bold"
        )
        for k in range(4):
            x = 0.1 + 2.45 * k
            box(axis, x, 2.85, 1.35, 1.35, "last layer\nstate x controls\nx width", colour=ORANGE, tint=0.25)
            box(axis, x + 1.6, 3.2, 0.55, 0.65, f"k{k + 1}", colour=PALE, tint=0.2)
            arrow(axis, (x + 1.35, 3.52), (x + 1.6, 3.52))
        axis.text(
            0.1, 2.15, "Contract first: one large product a window, then four small ones", color=BLUE, weight="bold"
        )
        box(axis, 0.1, 0.45, 1.35, 1.35, "last layer\nstate x controls\nx width", colour=BLUE, tint=0.25)
        box(axis, 1.85, 0.8, 1.35, 0.65, "log-signature\ncontrols", colour=GREEN, tint=0.2)
        axis.text(1.65, 1.12, "·", ha="center", va="center", fontsize=16)
        arrow(axis, (3.2, 1.12), (3.75, 1.12))
        box(axis, 3.75, 0.7, 1.15, 0.85, "F of this\nwindow:\nstate x width", colour=BLUE, tint=0.12)
        for k in range(4):
            x = 5.5 + 1.1 * k
            arrow(axis, (4.9 if k == 0 else x - 0.45, 1.12), (x, 1.12))
            box(axis, x, 0.8, 0.65, 0.65, f"k{k + 1}", colour=PALE, tint=0.2)
        axis.set(xlim=(0, 10), ylim=(0.2, 4.9))
        axis.set_axis_off()
    return picture


def gradients() -> Any:
    windows, stages = 16, 4
    kept = {
        "Direct()": [(w + s / stages, s == 0) for w in range(windows) for s in range(stages)] + [(windows, True)],
        "Recompute()": [(w, True) for w in range(windows + 1)],
        "Nested()": [(w, True) for w in range(0, windows + 1, 4)],
        "Backsolve()": [(windows, True)],
    }
    notes = [
        "exact; everything is kept",
        "exact; the state at each window",
        "exact; a few of them, one more forward pass",
        "approximate; one state, and back in time",
    ]
    with figure(10, 2.7) as picture:
        axis = picture.subplots()
        for row, ((name, dots), note) in enumerate(zip(kept.items(), notes, strict=True)):
            axis.plot([0, windows], [-row, -row], color=GRID, linewidth=1, zorder=0)
            for at, large in dots:
                axis.plot(at, -row, "o", color=BLUE if row < 3 else ORANGE, markersize=7 if large else 3.5)
            axis.text(-0.5, -row, name, ha="right", va="center", family="monospace")
            axis.text(windows + 0.6, -row, note, va="center", color=INK)
        axis.set(xlim=(-4, 26.5), ylim=(-3.6, 0.9), title="What is kept of 16 windows for the way back")
        axis.set_axis_off()
    return picture


PICTURES = (levy_area, windows_of_a_path, driven_state, contraction, gradients)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"), help="where the pictures go")
    folder = parser.parse_args().folder
    jax.config.update("jax_enable_x64", True)
    for draw in PICTURES:
        print(save(draw(), folder / f"{draw.__name__}.png"))


if __name__ == "__main__":
    main()
