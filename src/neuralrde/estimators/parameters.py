"""Parameters are checked in `fit`, as scikit-learn wants it; wrong names when they are given."""

import difflib
import inspect
from typing import Any

import numpy as np


class NamedParameters:
    """Says which name was meant when a parameter's name is wrong."""

    def __new__(cls, *args, **parameters):
        check_names(cls, parameters, TypeError)
        return super().__new__(cls)

    def set_params(self, **parameters):
        check_names(type(self), {name.partition("__")[0]: value for name, value in parameters.items()}, ValueError)
        return super().set_params(**parameters)  # type: ignore


def check_names(cls: type, parameters: dict[str, Any], error: type[Exception]) -> None:
    known = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    for name in parameters:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            # scikit-learn's own words first, which its tools look for.
            raise error(f"Invalid parameter {name!r} for {cls.__name__}.{meant} Valid parameters are: {known}.")


def check_whole(name: str, value: Any, *, low: int = 1, high: int = 2**20, also: tuple = ()) -> None:
    if isinstance(value, str | None) and value in also:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        others = "".join(f", or {other!r}" for other in also)
        raise ValueError(f"Got {name}={value!r}; expected a whole number from {low} to {high}{others}.")


def check_number(
    name: str, value: Any, *, low: float = 0.0, high: float = np.inf, above: bool = False, also: tuple = ()
) -> None:
    """With `above`, the number must be larger than `low`, and not `low` itself."""
    if value is None and None in also:
        return
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and low <= float(value) <= high) or (above and value == low):  # type: ignore
        others = "".join(f", or {other!r}" for other in also)
        span = f"above {low:g}" if above and high == np.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"Got {name}={value!r}; expected a number {span}{others}.")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool):
        raise ValueError(f"Got {name}={value!r}; expected True or False.")


def check_choice(name: str, value: Any, choices: Any) -> None:
    choices = list(choices)
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        near = difflib.get_close_matches(str(value), [c for c in choices if isinstance(c, str)], n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Got {name}={value!r}; expected one of {choices}.{meant}")
