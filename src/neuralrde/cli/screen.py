"""What is printed: aligned tables in plain text, which look right in a terminal, a log and an e-mail."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any


def table(rows: Sequence[Sequence[Any]], *, header: Sequence[str] | None = None, indent: int = 2) -> str:
    """Columns as wide as their widest cell; numbers to the right.

    >>> print(table([["a", 1], ["bc", 10]], header=["name", "count"]))
      name  count
      a         1
      bc       10
    """
    texts = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(*([list(header)] if header else []), *texts, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [bool(rows) and all(isinstance(row[c], int | float) for row in rows) for c in range(len(widths))]
    lines = [
        "  ".join(
            cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(row, widths, right, strict=True)
        )
        for row in [*([list(header)] if header else []), *texts]
    ]
    return "\n".join(" " * indent + line.rstrip() for line in lines)


def pairs(values: Mapping[str, Any], *, indent: int = 2) -> str:
    """Names and values, one pair a line."""
    return table([[name, str(value)] for name, value in values.items()], indent=indent)


def number(value: Any) -> str:
    """Four digits are enough for people."""
    return f"{value:#.4g}" if isinstance(value, float) else str(value)


def count(n: int, noun: str) -> str:
    """
    >>> count(1, "class"), count(2000, "class")
    ('1 class', '2,000 classes')
    """
    ending = "" if n == 1 else "es" if noun.endswith("s") else "s"
    return f"{n:,} {noun}{ending}"


def print_json(value: Any) -> None:
    """One object on one line, for scripts; what is not a finite number is null, which all readers of JSON know."""
    print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
