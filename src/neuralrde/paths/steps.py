"""Steps: several steps, one after the other, as one step."""

from dataclasses import dataclass

from .channels import ObservationCounts
from .filling import Fill
from .series import Series
from .step import Step


@dataclass(frozen=True, init=False, repr=False)
class Steps(Step):
    """Steps one after the other; each is fitted on the training set as the steps before it have left it.

    A common order: count observations while missing values can still be seen, fill them, scale, add time (so
    that it is not scaled), and put the base point in front.

    >>> import numpy as np
    >>> from neuralrde.paths import BasePoint, FillForward, Scale, TimeChannel
    >>> prepare = Steps(ObservationCounts(), FillForward(), Scale(), TimeChannel(), BasePoint())
    >>> training = Series.from_array([[1.0, np.nan, 3.0], [2.0, 2.0, np.nan]])
    >>> prepare = prepare.fit(training)
    >>> prepare(training)
    Series(2 samples, 4 points, 3 channels: time, x0, x0 count; float64)
    >>> Step.from_state(prepare.state()) == prepare
    True
    """

    steps: tuple[Step, ...]

    def __init__(self, *steps: Step):
        filled = None
        for step in steps:
            if not isinstance(step, Step):
                raise TypeError(
                    f"Got {step!r} among the steps; expected steps, such as `FillForward()` with its "
                    "parentheses. Write `Steps(FillForward(), Scale())`, not a list."
                )
            if isinstance(step, ObservationCounts) and filled is not None:
                raise ValueError(
                    f"Got ObservationCounts after {type(filled).__name__}; expected it before, because "
                    "filling hides what was missing. Write `Steps(ObservationCounts(), "
                    f"{type(filled).__name__}(), ...)`."
                )
            if isinstance(step, Fill):
                filled = step
        object.__setattr__(self, "steps", steps)

    def fit(self, series: Series) -> "Steps":
        fitted = []
        for i, step in enumerate(self.steps):
            fitted.append(step.fit(series))
            if i + 1 < len(self.steps):
                series = fitted[-1](series)
        return type(self)(*fitted)

    def __call__(self, series: Series) -> Series:
        for step in self.steps:
            series = step(series)
        return series

    def __repr__(self) -> str:
        return f"Steps({', '.join(map(repr, self.steps))})"

    @classmethod
    def _from_fields(cls, *, steps) -> "Steps":
        return cls(*steps)
