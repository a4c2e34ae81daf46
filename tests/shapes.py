"""What checks the types and shapes of the library's signatures while the tests run; `conftest.py` puts it in place."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import IO, Any, Self, TextIO

import jaxtyping
import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype

# A whole number will do where a float is asked for, as for type checkers (PEP 484); numpy's scalars are numbers.
_NUMBERS = {int: int | np.integer, float: float | int | np.integer | np.floating}
# Streams (StringIO, an open file of a zip archive) are no subclasses of these, which only type checkers know.
_STREAMS = {TextIO: object, IO[bytes]: object, IO[str]: object}
_check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict(_NUMBERS | _STREAMS)))


def checked(function: Any) -> Any:
    """Let beartype check a function's arguments and its result.

    jaxtyping decorates methods one by one, where beartype cannot know what `Self` stands for: that hint goes unchecked.
    """
    if inspect.isfunction(function):
        for name, hint in function.__annotations__.items():
            if hint is Self:
                function.__annotations__[name] = Any
    return _check(function)


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """No checking in here: what is called wrongly on purpose is to be refused by the library, in its own words."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
