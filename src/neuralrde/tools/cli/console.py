"""What a command prints and how it ends: refusals with exit codes, aligned tables, JSON for scripts.

Tables are plain text, which looks right in a terminal, a log and an e-mail. Output may lose its reader:
`neuralrde fit ... | head -1` goes on training.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

from ..._write import Values, strict_json

FAILED, WRONG_USE, INTERRUPTED, TERMINATED = 1, 2, 130, 143


class Refusal(Exception):
    """A sentence for the user: got, expected, what to write instead."""

    def __init__(self, message: str, code: int = FAILED):
        super().__init__(message)
        self.code = code


def how_stopped(error: BaseException) -> tuple[str, int]:
    """The word and the exit code for an interrupt: by SIGTERM, as a scheduler sends it, or by Ctrl-C.

    >>> how_stopped(KeyboardInterrupt())
    ('Interrupted', 130)
    """
    # Training raises a KeyboardInterrupt of its own at SIGTERM. Ray makes an exit of it.
    terminated = type(error).__name__ == "Terminated" or isinstance(error, SystemExit)
    return ("Terminated", TERMINATED) if terminated else ("Interrupted", INTERRUPTED)


def table(rows: Sequence[Sequence[object]], *, header: Sequence[str] | None = None, indent: int = 2) -> str:
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


def pairs(values: Values, *, indent: int = 2) -> str:
    """Names and values, one pair per line."""
    return table([[name, str(value)] for name, value in values.items()], indent=indent)


def number(value: object) -> str:
    """Four digits are enough for people."""
    return f"{value:#.4g}" if isinstance(value, float) else str(value)


def count(n: int, noun: str) -> str:
    """
    >>> count(1, "class"), count(2000, "class")
    ('1 class', '2,000 classes')
    """
    ending = "" if n == 1 else "es" if noun.endswith("s") else "s"
    return f"{n:,} {noun}{ending}"


def print_json(value: object) -> None:
    """One object on one line, for scripts."""
    print(strict_json(value))


@contextlib.contextmanager
def going_on_unread() -> Iterator[None]:
    """Inside, what is printed after its reader has gone is dropped, and raises nothing."""
    old = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Unread(stream) for stream in old)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = old


def drop(stream: IO[str]) -> None:
    """Let a stream whose reader has gone write to nowhere, also what it still holds."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class _Unread:
    """A stream that is dropped when its reader goes."""

    def __init__(self, stream: IO[str]):
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            drop(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            drop(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
