"""The cost of longer and longer series, from a thousand to a million points: log-signatures, forward, backward."""

from functools import partial
from pathlib import Path

import numpy as np

from ..timing import table
from .processes import Run, race
from .training_steps import CHANNELS, STEP, build_model, make_weights, training_step

POINTS = [1_000, 10_000, 100_000, 1_000_000]
PICTURE = Path("docs/images/length.png")


def from_points(points: int, batch: int, *, nested: bool) -> Run:
    """Log-signatures of raw series, then a training step on them, at depth 2."""
    from neuralrde.devices import use_all_cores
    from neuralrde.solvers import Nested, Recompute

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


def main(batch: int = 8) -> None:
    print(f"# Length: {batch} series of {CHANNELS} channels, windows of {STEP}")
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
    draw(found, batch)


def draw(found: dict[str, list], batch: int) -> None:
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
