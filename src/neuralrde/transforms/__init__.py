"""From raw series to control paths: transforms that are fitted on the training set and called on any series."""

from collections.abc import Mapping
from typing import Any

from ..errors import ParameterError
from ..registry import Config, Registry
from .channels import Integral, ObservationCounts, Products, TimeChannel, TimeSinceObserved
from .compose import Compose, Standard
from .filling import FillForward, FillLinear
from .points import BasePoint, Resample, WithBoundaries
from .scaling import Scale, ScaleEach
from .spectrogram import Spectrogram
from .transform import Transform


def _checked(value: Any) -> Any:
    if not isinstance(value, Transform | str | Mapping | list | tuple | type | Config):
        raise ParameterError("transform", value, '"standard", a transform such as Scale(), or Compose(...)')
    return value


TRANSFORMS = Registry(
    "transform",
    Transform,
    {
        "standard": Standard,
        "compose": Compose,
        "fill-forward": FillForward,
        "fill-linear": FillLinear,
        "observation-counts": ObservationCounts,
        "time-since-observed": TimeSinceObserved,
        "scale": Scale,
        "scale-each": ScaleEach,
        "time": TimeChannel,
        "base-point": BasePoint,
        "boundaries": WithBoundaries,
        "integral": Integral,
        "products": Products,
        "spectrogram": Spectrogram,
        "resample": Resample,
    },
    coerce=_checked,
)

__all__ = [
    "TRANSFORMS",
    "BasePoint",
    "Compose",
    "FillForward",
    "FillLinear",
    "Integral",
    "ObservationCounts",
    "Products",
    "Resample",
    "Scale",
    "ScaleEach",
    "Spectrogram",
    "Standard",
    "TimeChannel",
    "TimeSinceObserved",
    "Transform",
    "WithBoundaries",
]
