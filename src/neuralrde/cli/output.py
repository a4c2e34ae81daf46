"""Output that nobody reads any more: `neuralrde fit ... | head -1` goes on training."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any


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


def drop(stream: Any) -> None:
    """Let a stream whose reader has gone write to nowhere, also what it still holds."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class _Unread:
    """A stream that is dropped when its reader goes."""

    def __init__(self, stream: Any):
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
