"""Accuracy against time: what a result costs."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, INK, PALE, figure

MARKERS = ("o", "D", "^")  # the next where colours begin again
Points = Sequence[tuple[float, float]]


def against_time(
    runs: Mapping[str, Points], *, title: str, quantity: str, floors: Mapping[str, float] | None = None
) -> Any:
    """A point for each run: minutes, on a logarithmic axis, and its value; lines for floors.

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
