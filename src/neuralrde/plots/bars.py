"""Accuracies side by side: ours beside published ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .style import COLOURS, INK, PALE, figure

Accuracies = Mapping[str, tuple[float, float]]


def accuracy_bars(
    measured: Accuracies, published: Accuracies, *, title: str, source: str = "", chance: float | None = None
) -> Any:
    """One bar per (mean, standard deviation) of accuracies in [0, 1]. The axis need not start at 0.

    >>> accuracy_bars({"ours": (0.86, 0.02)}, {"theirs": (0.81, 0.03)}, title="Accuracy")
    <Figure size 962x299 with 1 Axes>
    """
    bars = [(name, *value, COLOURS[0]) for name, value in measured.items()]
    bars += [(name, *value, PALE) for name, value in published.items()]
    with figure(7.4, 1.4 + 0.45 * len(bars)) as picture:
        axis = picture.subplots()
        rows = np.arange(len(bars))[::-1]
        for row, (_, mean, spread, colour) in zip(rows, bars, strict=True):
            axis.barh(row, mean, height=0.62, color=colour)
            axis.errorbar(mean, row, xerr=spread, color=INK, linewidth=1.1, capsize=3)
            axis.text(0.01, row, f"{mean:.1%}", color="white", va="center", ha="left", fontweight="bold",
                      transform=axis.get_yaxis_transform())  # fmt: skip
        axis.set_yticks(rows, [bar[0] for bar in bars])
        axis.tick_params(axis="y", length=0)
        lowest = min(mean - spread for _, mean, spread, _ in bars)
        start = chance if chance is not None else max(0.0, np.floor(10 * lowest - 1) / 10)
        axis.set(xlim=(start, 1.0), title=title)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.set_xlabel(source, fontsize=8.5)
    return picture
