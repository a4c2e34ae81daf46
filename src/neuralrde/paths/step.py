"""A step: how every preparation of a series looks. `fit` on the training set, then call on any series."""

import abc
import inspect
from dataclasses import fields
from typing import Any, ClassVar

from .series import Series


class Step(abc.ABC):
    """One preparation of a series, as a frozen dataclass of plain numbers, names and tuples of them.

    `fit` learns from the training set and returns a fitted copy; what it learned are the fields whose names
    end in `_`. Calling the step prepares a series and changes neither it nor the step, so later data meet the
    training set's numbers. A new step is a subclass with `__call__`, and `fit` if it learns.
    """

    _kinds: ClassVar[dict[str, type["Step"]]] = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Step._kinds[cls.__name__] = cls

    def fit(self, series: Series) -> "Step":
        """A copy that has learned from the training set; the step itself if it has nothing to learn."""
        return self

    @abc.abstractmethod
    def __call__(self, series: Series) -> Series:
        """The series, prepared."""

    def state(self) -> dict[str, Any]:
        """The step as a plain dictionary that JSON can hold; `Step.from_state` makes the step from it again.

        >>> from neuralrde.paths import TimeChannel
        >>> state = TimeChannel(duration=2.0).state()
        >>> state["step"], state["duration"]
        ('TimeChannel', 2.0)
        >>> Step.from_state(state)
        TimeChannel(duration=2.0)
        """
        plain = {field.name: _to_plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore
        return {"step": type(self).__name__, **plain}

    @staticmethod
    def from_state(state: dict[str, Any]) -> "Step":
        """The step that `state` was taken from, fitted as it was."""
        kind = state.get("step")
        if kind not in Step._kinds:
            known = sorted(name for name, cls in Step._kinds.items() if not inspect.isabstract(cls))
            raise ValueError(
                f"Got a state of the step {kind!r}; expected one of {known}. A step of your own must be imported first."
            )
        try:
            values = {name: _from_plain(value) for name, value in state.items() if name != "step"}
            return Step._kinds[kind]._from_fields(**values)
        except TypeError as error:
            raise ValueError(
                f"Got a state that does not fit the step {kind!r} ({error}); expected what `state()` "
                "returns. It may come from another version of neuralrde."
            ) from None

    @classmethod
    def _from_fields(cls, **values) -> "Step":
        return cls(**values)


def check_fitted(step: Step, learned: Any) -> None:
    if learned is None:
        name = type(step).__name__
        raise ValueError(
            f"Got {name} before it was fitted; expected a fitted one, because it uses numbers of the "
            "training set. Write `step = step.fit(training)`, then `step(series)`."
        )


def check_channels(step: Step, learned: tuple[str, ...] | None, series: Series) -> None:
    """A number learned for one channel must never meet another."""
    check_fitted(step, learned)
    if learned != series.channels:
        raise ValueError(
            f"Got a series with the channels {list(series.channels)}; expected {list(learned or ())}, in "
            f"this order, because {type(step).__name__} was fitted on them. Order and name them alike, "
            "`Series(..., channels=[...])`."
        )


def _to_plain(value: Any) -> Any:
    if isinstance(value, Step):
        return value.state()
    return [_to_plain(item) for item in value] if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return Step.from_state(value)
    return tuple(_from_plain(item) for item in value) if isinstance(value, list | tuple) else value
