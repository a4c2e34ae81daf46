"""Predicted against true: a regression's predictions, on the diagonal where they are right."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .style import COLOURS, PALE, add_note, figure


def predicted_against_true(
    true: ArrayLike, predicted: ArrayLike, *, name: str = "target", note: str | None = None
) -> Any:
    """A point for each sample; pairs with an unknown (NaN) side are left out.

    >>> predicted_against_true([1.0, 2.0, 3.0], [1.1, 2.0, 2.7])
    <Figure size 637x611 with 1 Axes>

    Args:
        true, predicted: numbers of one shape.
        name: what they are of.
        note: a line below, such as what to compare it with.
    """
    true, predicted = np.asarray(true, float).ravel(), np.asarray(predicted, float).ravel()
    if true.shape != predicted.shape:
        raise ValueError(f"Got {len(true)} true and {len(predicted)} predicted numbers; expected the same number.")
    known = np.isfinite(true) & np.isfinite(predicted)
    true, predicted = true[known], predicted[known]
    if len(true) == 0:
        raise ValueError("Got no pair of a true and a predicted number that is known; expected at least one.")
    rmse = np.sqrt(np.mean((predicted - true) ** 2))
    low, high = min(true.min(), predicted.min()), max(true.max(), predicted.max())
    edge = 0.05 * (high - low) or 1.0

    with figure(4.9, 4.7) as picture:
        axis = picture.subplots()
        ends = (low - edge, high + edge)
        axis.plot(ends, ends, color=PALE, linewidth=1, linestyle="--", zorder=1)
        faint = float(np.clip(30 / np.sqrt(len(true)), 0.08, 0.75))  # many points would be one blot
        axis.scatter(true, predicted, s=16, color=COLOURS[0], alpha=faint, linewidths=0, zorder=2)
        axis.set(xlim=ends, ylim=ends, aspect="equal", xlabel=f"true {name}", ylabel=f"predicted {name}")
        axis.set_title(f"RMSE {rmse:.3g} over {len(true):,} samples")
        add_note(picture, note)
    return picture
