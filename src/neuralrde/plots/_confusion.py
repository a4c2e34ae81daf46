"""The confusion matrix: which classes are taken for which."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .style import GRID, INK, add_note, figure

# Beyond so many classes the numbers inside the cells could not be read.
_NUMBERED = 20
# Up to so many, a cell has room for its share beside its count.
_DETAILED = 6


def confusion(
    true: ArrayLike,
    predicted: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    title: str | None = None,
    note: str | None = None,
) -> Any:
    """Counts of each true class (rows) and predicted class (columns); the shade is the share of the row.

    >>> confusion(["run", "walk", "run"], ["run", "walk", "walk"])
    <Figure size 598x572 with 1 Axes>

    Args:
        true, predicted: labels, one per sample.
        classes: their order; None sorts them.
        title: None says how many were right.
        note: a line below, such as what to compare it with.
    """
    true, predicted = np.asarray(true).astype(str), np.asarray(predicted).astype(str)
    if true.shape != predicted.shape or true.ndim != 1 or len(true) == 0:
        raise ValueError(
            f"Got labels of shape {true.shape} and predictions of shape {predicted.shape}; expected one of each for "
            "every sample."
        )
    found = sorted({*true.tolist(), *predicted.tolist()})
    names = found if classes is None else [str(name) for name in classes]
    names += [name for name in found if name not in names]
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, ([names.index(name) for name in true], [names.index(name) for name in predicted]), 1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    right = np.trace(counts)

    size = 3.6 + 0.5 * min(len(names), _NUMBERED)
    with figure(size + 0.6 * (len(names) > _DETAILED), size - 0.2) as picture:
        axis = picture.subplots()
        image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        if len(names) <= _NUMBERED:
            for (row, column), count in np.ndenumerate(counts):
                text = f"{count}\n{shares[row, column]:.0%}" if len(names) <= _DETAILED else f"{count}"
                colour = "white" if shares[row, column] > 0.55 else INK
                axis.text(column, row, text, ha="center", va="center", color=colour)
        slanted = max(map(len, names)) > 8 and len(names) > 2
        axis.set_xticks(range(len(names)), names, rotation=40 if slanted else 0, ha="right" if slanted else "center")
        axis.set_yticks(range(len(names)), names)
        axis.set(xlabel="predicted", ylabel="true")
        axis.set_title(title or f"{right} of {len(true)} right: {right / len(true):.1%}")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        if len(names) > _DETAILED:  # else every cell says its share
            bar = picture.colorbar(image, ax=axis, pad=0.02, shrink=0.85, format=lambda value, _: f"{value:.0%}")
            bar.set_label("share of the true class")
            bar.outline.set_edgecolor(GRID)
        add_note(picture, note)
    return picture
