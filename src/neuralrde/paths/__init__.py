"""From raw series to control paths: series, steps that prepare them, and where to cut windows."""

from .base_point import BasePoint
from .boundaries import WithBoundaries
from .channels import ObservationCounts, TimeChannel
from .checks import check_finite
from .filling import FillForward, FillLinear
from .moments import Integral, Products
from .scaling import Scale, ScaleEach
from .series import Series, concatenate
from .spectrogram import Spectrogram
from .step import Step
from .steps import Steps
from .windows import cuts_by_count, cuts_by_time, first_windows, window_counts, window_cuts

__all__ = [
    "BasePoint",
    "FillForward",
    "FillLinear",
    "Integral",
    "ObservationCounts",
    "Products",
    "Scale",
    "ScaleEach",
    "Series",
    "Spectrogram",
    "Step",
    "Steps",
    "TimeChannel",
    "WithBoundaries",
    "check_finite",
    "concatenate",
    "cuts_by_count",
    "cuts_by_time",
    "first_windows",
    "window_counts",
    "window_cuts",
]
