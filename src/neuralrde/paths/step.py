"""A step: how every preparation of a series looks. `fit` on the training set, then call on any series."""

import abc
import inspect
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from .series import Series

_LIBRARY = __name__.partition(".")[0]


class Step(abc.ABC):
    """One preparation of a series, as a frozen dataclass of plain numbers, names and tuples of them.

    `fit` learns from the training set and returns a fitted copy; what it learned are the fields whose names
    end in `_`. Calling the step prepares a series and changes neither it nor the step, so later data meet the
    training set's numbers. A new step is a subclass with `__call__`, and `fit` if it learns. Its state names it by
    its module too, `"hospital.Scale"`, so that it may be called as one of the library's.
    """

    _kinds: ClassVar[dict[str, type["Step"]]] = {}
    """The library's steps by their names, all others by module and name."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        name, other = _name_of(cls), Step._kinds.get(_name_of(cls))
        # A notebook's cell that is run again defines its step again.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"Got a second step called {name!r}, of {cls.__module__}; expected another name, because files name "
                f"steps, and that of {other.__module__} has it."
            )
        Step._kinds[name] = cls

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
        return {"step": _name_of(type(self)), **plain}

    @staticmethod
    def from_state(state: dict[str, Any]) -> "Step":
        """The step that `state` was taken from, fitted as it was."""
        if not isinstance(state, Mapping):
            raise ValueError(f"Got the state {state!r}; expected a dictionary, what `state()` returns.")
        cls = _named(state.get("step"))
        try:
            values = {name: _from_plain(value) for name, value in state.items() if name != "step"}
            _check_types(cls, values)
            return cls._from_fields(**values)
        except TypeError as error:
            raise ValueError(
                f"Got a state that does not fit the step {_name_of(cls)!r} ({error}); expected what `state()` "
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


def check_one_each(channels: tuple[str, ...] | None, **learned: tuple[float, ...] | None) -> None:
    """What was learned is one number for each channel, or nothing yet."""
    for name, numbers in learned.items():
        if channels is None or numbers is None:
            if numbers is not channels:
                raise ValueError(f"Got channels_={channels} and {name}={numbers}; expected both of them or neither.")
        elif len(numbers) != len(channels):
            raise ValueError(f"Got {len(channels)} channels and {len(numbers)} {name}; expected one for each channel.")


def _name_of(cls: type[Step]) -> str:
    return cls.__name__ if cls.__module__.partition(".")[0] == _LIBRARY else f"{cls.__module__}.{cls.__qualname__}"


def _named(name: Any) -> type[Step]:
    if isinstance(name, str) and name in Step._kinds:
        return Step._kinds[name]
    # Older files have bare names for all steps; and a step may have moved from a script into a module since.
    bare = name.removeprefix("__main__.") if isinstance(name, str) else None
    known = sorted(key for key, cls in Step._kinds.items() if not inspect.isabstract(cls))
    meant = [key for key in known if Step._kinds[key].__qualname__ == bare and key != bare]
    if len(meant) > 1:
        raise ValueError(f"Got a state of the step {name!r}, which could be any of {meant}; expected one of them.")
    if not meant:
        raise ValueError(
            f"Got a state of the step {name!r}; expected one of {known}. A step of your own must be imported first."
        )
    return Step._kinds[meant[0]]


def _check_types(cls: type[Step], values: dict[str, Any]) -> None:
    """A state may come from a file: its values must be what the step's fields are declared to be."""
    try:
        declared = get_type_hints(cls)
    except NameError:  # a type that only its author's module knows
        return
    for name, value in values.items():
        if name in declared and not _is(value, declared[name]):
            shown = getattr(declared[name], "__name__", declared[name])
            raise TypeError(f"Got {name}={value!r}; expected {shown}, and finite numbers only")


def _is(value: Any, declared: Any) -> bool:
    """Whether a plain value is of a declared type. Types that are not plain are not looked into."""
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in inner)
    if origin in (tuple, Sequence):
        return isinstance(value, tuple) and all(_is(item, inner[0]) for item in value)
    if declared in (bool, str, types.NoneType):
        return isinstance(value, declared)
    if declared in (int, float):
        number = isinstance(value, int if declared is int else int | float) and not isinstance(value, bool)
        return number and math.isfinite(value)
    return not inspect.isclass(declared) or not issubclass(declared, Step) or isinstance(value, declared)


def _to_plain(value: Any) -> Any:
    if isinstance(value, Step):
        return value.state()
    return [_to_plain(item) for item in value] if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return Step.from_state(value)
    return tuple(_from_plain(item) for item in value) if isinstance(value, list | tuple) else value
