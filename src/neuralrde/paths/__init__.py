"""Series, and where to cut them into windows."""

from .series import Series, check_finite, concatenate
from .windows import Windows, cuts_by_count, cuts_by_time, even_shifts, window_counts, window_cuts

__all__ = [
    "Series",
    "Windows",
    "check_finite",
    "concatenate",
    "cuts_by_count",
    "cuts_by_time",
    "even_shifts",
    "window_counts",
    "window_cuts",
]
