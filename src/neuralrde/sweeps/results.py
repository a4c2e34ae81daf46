"""The file of results: JSON lines, written by one process, read by any at any time."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from .._lock import Lock, Locked
from .._write import private_folder, strict_json


class Results:
    """One line per finished task, whole or not there, and none twice.

    Whoever appends holds a lock, so that a second driver of the same sweep is refused. A line that a crash has torn off
    is removed when the next driver opens the file.

    >>> import tempfile
    >>> with Results(Path(tempfile.mkdtemp()) / "results.jsonl") as results:
    ...     results.append({"key": "a", "accuracy": 0.5}), results.append({"key": "a", "accuracy": 0.5}), len(results)
    (True, False, 1)

    Args:
        path: the file; made when the first line comes.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self._lines: dict[str, dict[str, Any]] = {}
        self._lock: Lock | None = None
        self._handle = -1

    def __enter__(self) -> Self:
        folder = private_folder(self.path.parent)
        try:
            self._lock = Lock(self.path.with_name(f".{self.path.name}.lock"))
        except Locked as locked:
            raise RuntimeError(
                f"Got {self.path}, to which another sweep is writing ({locked}); expected one writer. Wait until it "
                "has ended, or read its table meanwhile with --table."
            ) from None
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644 & folder.stat().st_mode)
        try:
            self._cut_torn_line()
            self._lines = {line["key"]: line for line in self.read(self.path)}
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self._handle)
        self._handle = -1
        if self._lock is not None:
            self._lock.release()

    def append(self, line: dict[str, Any]) -> bool:
        """Write a line through to the disk; False if its key is there already."""
        if line["key"] in self._lines:
            return False
        data = (strict_json(line) + "\n").encode()
        written = os.write(self._handle, data)
        if written < len(data):  # a full disk: half a line must not stay
            os.ftruncate(self._handle, os.fstat(self._handle).st_size - written)
            raise OSError(28, "No space left on device", str(self.path))
        os.fsync(self._handle)
        self._lines[line["key"]] = line
        return True

    def forget(self, keys: set[str]) -> None:
        """Take lines out, so that their tasks are run again."""
        kept = [line for key, line in self._lines.items() if key not in keys]
        os.ftruncate(self._handle, 0)
        self._lines = {}
        for line in kept:
            self.append(line)

    def get(self, key: str) -> dict[str, Any] | None:
        """The line of a key."""
        return self._lines.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._lines

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(list(self._lines.values()))

    def __len__(self) -> int:
        return len(self._lines)

    @staticmethod
    def read(path: str | os.PathLike) -> list[dict[str, Any]]:
        """All whole lines of a file; [] if there is none. It may be written to meanwhile."""
        try:
            text = Path(path).read_bytes()
        except FileNotFoundError:
            return []
        found = {}
        for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), 1):
            try:
                record = json.loads(line)
                found.setdefault(record["key"], record)
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"Line {number} of {path} is no result; expected an object with a key on each line. Remove the "
                    "line: its task is run again."
                ) from None
        return list(found.values())

    def _cut_torn_line(self) -> None:
        text = self.path.read_bytes()
        os.ftruncate(self._handle, text.rfind(b"\n") + 1)
