"""Several transforms as one: `Compose`, and `Standard`, which the estimators take by default."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from ..errors import ParameterError
from ..paths.checks import check_flag
from ..paths.series import Series
from .channels import ObservationCounts, TimeChannel, TimeSinceObserved
from .filling import Fill, FillForward, FillLinear
from .points import BasePoint
from .scaling import Scale
from .transform import Carried, Transform


@dataclass(frozen=True, init=False, repr=False)
class Compose(Transform):
    """Apply transforms one after the other; each is fitted on the output of those before it.

    A common order: count observations while missing values can still be seen, fill them, scale, add time (so
    that it is not scaled), and put the base point in front.

    >>> import numpy as np
    >>> from neuralrde.transforms import BasePoint, FillForward, Scale, TimeChannel
    >>> prepare = Compose(ObservationCounts(), FillForward(), Scale(), TimeChannel(), BasePoint())
    >>> training = Series.from_array([[1.0, np.nan, 3.0], [2.0, 2.0, np.nan]])
    >>> prepare = prepare.fit(training)
    >>> prepare(training)
    Series(2 samples, 4 points, 3 channels: time, x0, x0 count; float64)
    >>> Transform.from_state(prepare.state()) == prepare
    True
    """

    transforms: tuple[Transform, ...]

    def __init__(self, *transforms: Transform):
        filled = None
        for transform in transforms:
            if not isinstance(transform, Transform):
                raise TypeError(
                    f"Got {transform!r} among the transforms; expected transforms, such as `FillForward()` with its "
                    "parentheses. Write `Compose(FillForward(), Scale())`, not a list."
                )
            if isinstance(transform, ObservationCounts | TimeSinceObserved) and filled is not None:
                name = type(transform).__name__
                raise ValueError(
                    f"Got {name} after {type(filled).__name__}; expected it before, because filling hides what was "
                    f"missing. Write `Compose({name}(), {type(filled).__name__}(), ...)`."
                )
            if isinstance(transform, Fill):
                filled = transform
        object.__setattr__(self, "transforms", transforms)

    def expanded(self) -> "Compose":
        return Compose(*(transform.expanded() for transform in self.transforms))

    def fit(self, series: Series) -> "Compose":
        return self.fit_and_call(series)[0]

    @property
    def is_fitted(self) -> bool:
        return all(transform.is_fitted for transform in self.transforms)

    def fit_and_call(self, series: Series) -> tuple["Compose", Series]:
        fitted = []
        for transform in self.transforms:
            one, series = transform.fit_and_call(series)
            fitted.append(one)
        return type(self)(*fitted), series

    def __call__(self, series: Series) -> Series:
        for transform in self.transforms:
            series = transform(series)
        return series

    def begin(self, streams: int, channels: int) -> list[Carried]:
        carried = []
        for transform in self.transforms:
            carried.append(transform.begin(streams, channels))
            channels = transform.channels_after(channels)
        return carried

    def step(self, carried: list[Carried], series: Series) -> tuple[list[Carried], Series]:
        after = []
        for transform, before in zip(self.transforms, carried, strict=True):
            now, series = transform.step(before, series)
            after.append(now)
        return after, series

    def channels_after(self, channels: int) -> int:
        for transform in self.transforms:
            channels = transform.channels_after(channels)
        return channels

    def points_after(self, lengths: Int[np.ndarray, "samples"]) -> Int[np.ndarray, "samples"]:
        for transform in self.transforms:
            lengths = transform.points_after(lengths)
        return lengths

    @property
    def timed(self) -> bool | None:
        known = [transform.timed for transform in self.transforms if transform.timed is not None]
        return any(known) if known else None

    @property
    def parts(self) -> tuple[Transform, ...]:
        return tuple(part for transform in self.transforms for part in transform.parts)

    def __repr__(self) -> str:
        return f"Compose({', '.join(map(repr, self.transforms))})"

    @classmethod
    def _from_fields(cls, *, transforms) -> "Compose":
        return cls(*transforms)


FILLS = {"forward": FillForward, "linear": FillLinear}


@dataclass(frozen=True)
class Standard(Transform):
    """Count what was observed, fill what is missing, scale, and add time: the estimators' default.

    `fit` returns a `Compose` of the fitted transforms.

    Args:
        fill: "forward" fills with the last observation and never looks ahead, "linear" interpolates; None expects no
            missing values. With filling, each channel that had missing values in training gets another channel that
            counts its observations.
        scale: whether channels are standardised.
        time: whether time is a channel.
        base_point: whether paths start from the origin, so that log-signatures know where a series begins.

    >>> import numpy as np
    >>> Standard(fill="linear").fit(Series.from_array(np.arange(6.0).reshape(2, 3)))
    Compose(ObservationCounts(channels=None), FillLinear(default=None), Scale(), TimeChannel(duration=None))
    """

    fill: str | None = "forward"
    scale: bool = True
    time: bool = True
    base_point: bool = False

    def __post_init__(self):
        if self.fill is not None and self.fill not in FILLS:
            raise ParameterError("fill", self.fill, f"one of {[*FILLS, None]}")
        for name in ("scale", "time", "base_point"):
            check_flag(name, getattr(self, name))

    def expanded(self) -> Compose:
        kinds: list[type[Transform]] = [] if self.fill is None else [ObservationCounts, FILLS[self.fill]]
        kinds += [Scale] * self.scale + [TimeChannel] * self.time + [BasePoint] * self.base_point
        return Compose(*[kind() for kind in kinds])

    def fit(self, series: Series) -> Compose:
        return self.expanded().fit(series)

    @property
    def is_fitted(self) -> bool:
        return False

    def __call__(self, series: Series) -> Series:
        raise ValueError(
            "Got Standard before it was fitted; expected a fitted one, because it uses numbers of the training set. "
            "Write `transform = Standard().fit(training)`, then `transform(series)`."
        )

    def begin(self, streams: int, channels: int) -> Carried:
        return self(None)  # type: ignore
