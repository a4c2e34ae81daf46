"""How messages name parameters: `columns=['a']` in Python, `--columns a` where the command line runs.

A message never spells a parameter out. It asks `setting` for the name and value, and whoever shows messages to people
who write no Python gives `notation` another way to write them.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

Notation = Callable[[str, Any], str]
_NO_VALUE: Any = object()


def as_python(name: str, value: Any) -> str:
    """A keyword argument; `...` is any value, and a number of NumPy is a plain number.

    >>> as_python("depth", 2), as_python("columns", [...])
    ('depth=2', 'columns=[...]')
    """
    plain = value.item() if hasattr(value, "dtype") and value.shape == () else value
    return f"{name}={repr(plain).replace('Ellipsis', '...')}"


_notation: Notation = as_python


def setting(name: str, value: Any = _NO_VALUE) -> str:
    """A parameter and its value, or the parameter alone, as a message names them."""
    return f"{name}=" if value is _NO_VALUE and _notation is as_python else _notation(name, value)


def has_value(value: Any) -> bool:
    """Whether a notation is asked for a parameter with a value."""
    return value is not _NO_VALUE


def python_only(text: str) -> str:
    """Text that helps only those who write Python: empty in another notation."""
    return text if _notation is as_python else ""


def few(items: Iterable[Any], most: int = 12) -> str:
    """A list in a message, of which the first items are enough.

    >>> few("abc"), few(range(100), most=3)
    ("['a', 'b', 'c']", '[0, 1] and 98 more')
    """
    items = list(items)
    return f"{items}" if len(items) <= most else f"{items[: most - 1]} and {len(items) - most + 1} more"


@contextmanager
def notation(other: Notation) -> Iterator[None]:
    """Inside, all messages of this process name parameters in another way."""
    global _notation
    before, _notation = _notation, other
    try:
        yield
    finally:
        _notation = before


class ParameterError(ValueError):
    """A parameter has a value that it cannot have.

    >>> print(ParameterError("depth", 0, "at least 1", because="windows have increments", remedy="Write depth=2."))
    Got depth=0; expected at least 1, because windows have increments. Write depth=2.

    Args:
        parameter: its name.
        value: what was given.
        expected: what would be right.
        because: why.
        remedy: a sentence on what to do.
    """

    def __init__(self, parameter: str, value: Any, expected: str, because: str = "", remedy: str = ""):
        super().__init__(parameter, value, expected, because, remedy)
        self.parameter, self.value, self.expected, self.because, self.remedy = self.args

    def __str__(self) -> str:
        reason = f", because {self.because}" if self.because else ""
        sentence = f"Got {setting(self.parameter, self.value)}; expected {self.expected}{reason}."
        return f"{sentence} {self.remedy.strip()}".strip()


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about the line outside the library from which it was called, however deep that is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_back.f_globals.get("__name__", "").startswith("neuralrde."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)
