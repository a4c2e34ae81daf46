"""Depth against step: where a Neural RDE does well, as the paper's figure of the BIDMC sets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from .style import GRID, INK, PALE, figure

Grid = tuple[Sequence[int], Sequence[int], Float[np.ndarray, "depths steps"]]


def depth_step_heatmaps(grids: dict[str, Grid], *, title: str, higher_is_better: bool = False) -> Any:
    """A row of cells for each depth, beside each other for each data set; dark is good, empty is not run.

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
