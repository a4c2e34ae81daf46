"""Pictures: one a file, each a function that returns a Matplotlib figure. Matplotlib is loaded when one is drawn."""

from .bars import accuracy_bars
from .confusion import confusion
from .learning_curves import learning_curves
from .predicted_against_true import predicted_against_true
from .style import COLOURS, GRID, INK, PALE, PlotsUnavailable, figure, save
from .windows_over_series import windows_over_series

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
