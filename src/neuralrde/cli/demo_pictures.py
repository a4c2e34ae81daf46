"""The demo's own pictures: movements of a wrist, and what depth and scale bring."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..plots import COLOURS, INK, PALE, figure


def motions(test: Dataset, classes: np.ndarray, probability: np.ndarray) -> Any:
    """One test series of each class: three accelerations over time, and how sure the model is of the true class."""
    assert test.classes is not None
    order = list(test.classes)
    with figure(7.4, 4.6) as picture:
        axes = picture.subplots(2, 2, sharex=True, sharey=True)
        for axis, name in zip(axes.flat, order, strict=False):
            row = int(np.flatnonzero(np.asarray(test.target) == order.index(name))[0])
            seconds = np.arange(test.series.lengths[row]) / 10
            for channel, colour in zip(range(3), COLOURS, strict=False):
                values = test.series.values[row, : len(seconds), channel]
                axis.plot(seconds, values, color=colour, linewidth=1.3)
            sure = probability[row, list(classes).index(name)]
            axis.set_title(f"{name}: {sure:.0%} sure", loc="left", fontweight="bold")
        picture.suptitle("What is the wrist doing? The closed form has learned it from 40 recordings", color=INK)
        picture.supxlabel("seconds; acceleration along three axes of a smart watch", fontsize=9, color=INK)
    return picture


def depth_and_scale(scale: Mapping[str, Sequence[float]], depth: Mapping[str, float]) -> Any:
    """Accuracies with one and with several scales, and with depth 1 and 2; a dot for each of several seeds."""
    panels = [("Scale: what is the wrist doing?", {name: list(values) for name, values in scale.items()}, 0.25)]
    panels += [("Depth: which channel moves first?", {name: [value] for name, value in depth.items()}, 0.5)]
    panels = [panel for panel in panels if panel[1]]
    with figure(4.2 * len(panels), 3.2) as picture:
        axes = np.atleast_1d(picture.subplots(1, len(panels)))
        for axis, (title, bars, chance) in zip(axes, panels, strict=True):
            for place, values in enumerate(bars.values()):
                mean = float(np.mean(values))
                axis.bar(place, mean, width=0.6, color=PALE if place + 1 < len(bars) else COLOURS[0])
                if len(values) > 1:
                    axis.scatter(np.full(len(values), place), values, color=INK, s=12, zorder=3)
                axis.text(place, 0.04, f"{mean:.1%}", ha="center", color="white", fontweight="bold")
            axis.axhline(chance, color=INK, linewidth=1, linestyle=":")
            axis.text(-0.5, chance + 0.015, "chance", ha="right", fontsize=8.5)
            axis.set_xticks(range(len(bars)), [name.replace(", ", "\n") for name in bars])
            axis.set(xlim=(-0.9, len(bars) - 0.5), ylim=(0, 1.02), title=title)
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return picture
