"""Pictures: each is a function that returns a Matplotlib figure. Matplotlib is loaded when one is drawn."""

from ._confusion import confusion
from ._learning_curves import learning_curves
from ._predicted_against_true import predicted_against_true
from ._windows_over_series import windows_over_series
from .bars import accuracy_bars
from .style import COLOURS, GRID, INK, PALE, PlotsUnavailable, figure, save

__all__ = [
    "COLOURS",
    "GRID",
    "INK",
    "PALE",
    "PlotsUnavailable",
    "accuracy_bars",
    "confusion",
    "figure",
    "learning_curves",
    "predicted_against_true",
    "save",
    "windows_over_series",
]
