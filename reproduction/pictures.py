"""The report's pictures: what a result costs in time, and depth against step as in the paper's figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from neuralrde.plots import COLOURS, GRID, INK, PALE, figure

MARKERS = ("o", "D", "^")  # the next one where the colours begin again
Points = Sequence[tuple[float, float]]
Grid = tuple[Sequence[int], Sequence[int], Float[np.ndarray, "depths steps"]]


def against_time(
    runs: Mapping[str, Points], *, title: str, quantity: str, floors: Mapping[str, float] | None = None
) -> Any:
    """One point per run: minutes, on a logarithmic axis, and its value; lines for floors.

    Args:
        runs: (minutes, value) of runs, by the name that the legend shows.
        title, quantity: of the picture and of the values.
        floors: values that need no time.

    >>> against_time({"ours": [(2.0, 1.4)], "published": [(100.0, 3.0)]}, title="HR", quantity="RMSE")
    <Figure size 910x494 with 1 Axes>
    """
    if not any(runs.values()):
        raise ValueError("Got no run to draw; expected at least one with a time and a value.")
    with figure(7.0, 3.8) as picture:
        axis = picture.subplots()
        for number, (name, points) in enumerate(runs.items()):
            minutes, values = zip(*points, strict=True) if points else ((), ())
            again, colour = divmod(number, len(COLOURS))
            look: dict[str, Any] = {"color": COLOURS[colour], "marker": MARKERS[again % len(MARKERS)]}
            if "published" in name:
                look |= {"color": PALE, "marker": "s"}
            axis.scatter(minutes, values, s=30, alpha=0.85, linewidths=0, label=name, zorder=3, **look)
        for name, value in (floors or {}).items():
            axis.axhline(value, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
            axis.annotate(name, (1, value), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                          ha="right", fontsize=8.5)  # fmt: skip
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set(xlabel="minutes of training (here: CPU cores; published: a GPU)", ylabel=quantity, title=title)
        axis.grid(color=INK, alpha=0.07)
        picture.legend(loc="outside lower center", ncols=3)
    return picture


def depth_step_heatmaps(grids: dict[str, Grid], *, title: str, higher_is_better: bool = False) -> Any:
    """One row of squares per depth, one picture per data set; dark is good, a dash was not run.

    >>> depth_step_heatmaps({"HR": ([1, 2], [8, 64], np.array([[9.0, 8.0], [3.0, np.nan]]))}, title="RMSE")
    <Figure size 572x325 with 1 Axes>
    """
    if not grids:
        raise ValueError("Got no grid to draw; expected at least one data set with a result.")
    widths = [max(2.9, 0.62 * len(steps)) for _, steps, _ in grids.values()]
    deepest = max(len(depths) for depths, _, _ in grids.values())
    with figure(sum(widths) + 1.5, 1.5 + 0.5 * deepest) as picture:
        axes = picture.subplots(1, len(grids), squeeze=False, width_ratios=widths)[0]
        for axis, (name, (depths, steps, values)) in zip(axes, grids.items(), strict=True):
            goodness = values if higher_is_better else -values
            low, high = (np.nanmin(goodness), np.nanmax(goodness)) if np.isfinite(values).any() else (0.0, 1.0)
            shade = (goodness - low) / ((high - low) or 1.0)
            axis.imshow(np.ma.masked_invalid(shade), cmap="Blues", vmin=-0.15, vmax=1.1, aspect="auto")
            for (row, column), value in np.ndenumerate(values):
                there = np.isfinite(value)
                colour = PALE if not there else "white" if shade[row, column] > 0.6 else INK
                text = f"{value:.3g}" if there else "–"
                axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=8.5)
            axis.set_xticks(range(len(steps)), [str(step) for step in steps])
            axis.set_yticks(range(len(depths)), [str(depth) for depth in depths])
            axis.set(xlabel="step", ylabel="depth", title=name)
            axis.tick_params(length=0)
            axis.spines[:].set(visible=True, edgecolor=GRID)
        picture.suptitle(title, fontsize=11)
    return picture
