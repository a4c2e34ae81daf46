"""The critical-difference picture: mean ranks on a line, and bars that join classifiers which cannot be told apart."""

from pathlib import Path
from typing import Any

import pandas as pd

from neuralrde.plots import COLOURS, INK, PALE, figure, save

from .ranking import ALPHA, rank

IMAGES = Path(__file__).parents[3] / "docs" / "images"
PICTURES = {"regular": IMAGES / "league.png", "irregular": IMAGES / "irregular-league.png"}
OURS = ("closed-form", "neural")


def critical_difference(accuracy: pd.DataFrame) -> Any:
    """From a table with a row per set and a column per classifier, two classifiers at least.

    >>> critical_difference(pd.DataFrame({"neural": [0.9, 0.8, 0.7], "minirocket": [0.8, 0.7, 0.6]}))
    <Figure size 988x247 with 1 Axes>
    """
    found = rank(accuracy)
    names = list(found.ranks)
    half = (len(names) + 1) // 2
    bars = 0.32 * len(found.cliques)
    depth = bars + 0.55 * (half + 0.3)
    with figure(7.6, round(0.9 + 0.62 * (depth + 0.6), 1)) as picture:
        axis = picture.subplots()
        # Names stand outside of the ranks' line, and need room there.
        room = 0.32 * len(names)
        axis.set(xlim=(1 - room, len(names) + room), ylim=(depth + 0.3, -0.75))
        axis.axis("off")
        axis.plot([1, len(names)], [0, 0], color=INK, linewidth=1.2)
        for tick in range(1, len(names) + 1):
            axis.plot([tick, tick], [-0.12, 0], color=INK, linewidth=1.2)
            axis.text(tick, -0.2, str(tick), ha="center", va="bottom")
        for row, clique in enumerate(found.cliques):
            height = 0.28 + 0.32 * row
            ends = found.ranks[clique[0]] - 0.05, found.ranks[clique[-1]] + 0.05
            axis.plot(ends, [height, height], color=INK, linewidth=4, solid_capstyle="round")
        for place, name in enumerate(names):
            # The better half is named on the left, the others on the right, and lines do not cross.
            left = place < half
            height = bars + 0.55 * (place + 1 if left else len(names) - place)
            edge = 0.95 if left else len(names) + 0.05
            mine, value = name in OURS, found.ranks[name]
            line = COLOURS[0] if mine else PALE
            axis.plot([value, value, edge], [0, height, height], color=line, linewidth=1.4, zorder=1)
            text = f"{name}  {value:.2f}" if left else f"{value:.2f}  {name}"
            axis.text(edge + (-0.05 if left else 0.05), height, text, ha="right" if left else "left", va="center",
                      color=COLOURS[0] if mine else INK, fontweight="bold" if mine else None)  # fmt: skip
        axis.set_title(
            f"Mean rank over {len(accuracy)} sets; a bar joins those that cannot be told apart (p > {ALPHA:g})"
        )
    return picture


def draw(accuracy: pd.DataFrame, league: str = "regular") -> Path:
    return save(critical_difference(accuracy), PICTURES[league])
