"""Where tasks run: in this process, one after another. `ray_pool.py` has the other place."""

import socket
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from .task import Pruned, Task

Report = Callable[[dict[str, Any]], None]
"""What a run calls after every epoch, with its record; raises `Pruned` if the run is to be given up."""

Function = Callable[[Any, Any, Path, Report], dict[str, Any]]
"""Runs a task: settings, data, the task's own folder, and a report; it returns what goes into the line of results."""

Hear = Callable[[str, dict[str, Any]], bool]
"""Told of a task's epoch; True if the task is to be given up."""


@dataclass(frozen=True)
class Ended:
    """A task that has ended: "done", "pruned", "failed" by an error of its own, or "lost" with its worker."""

    task: Task
    status: str
    found: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Pool(Protocol):
    """What a sweep needs of the place where its tasks run."""

    def slots(self) -> int:
        """How many tasks can run at a time, now."""
        ...

    def submit(self, task: Task) -> None:
        """Have a task run, at once or when there is room."""
        ...

    def wait(self, seconds: float, hear: Hear) -> list[Ended]:
        """Those that end within this time, and news of the others."""
        ...

    def interrupt(self) -> list[Ended]:
        """Stop everything; those that still ended well."""
        ...


class InProcess:
    """Runs tasks in this process, one after another, each on all of its cores.

    Args:
        function: runs a task.
        data: objects that tasks work on, by name.
        folder: each task gets a folder of its own in it.
    """

    def __init__(self, function: Function, *, data: Mapping[str, Any], folder: Path):
        self._function, self._data, self._folder = function, data, folder
        self._waiting: deque[Task] = deque()

    def slots(self) -> int:
        """One."""
        return 1

    def submit(self, task: Task) -> None:
        """Run it at the next `wait`."""
        self._waiting.append(task)

    def wait(self, seconds: float, hear: Hear) -> list[Ended]:
        """Run one task to its end, however long that takes."""
        if not self._waiting:
            return []
        task = self._waiting.popleft()

        def report(record: dict[str, Any]) -> None:
            if hear(task.key, record):
                raise Pruned

        data = None if task.data is None else self._data[task.data]
        return [Ended(task, *run_one(self._function, task.settings, data, self._folder / task.key, report))]

    def interrupt(self) -> list[Ended]:
        """Nothing runs any more: the interrupt has ended it."""
        self._waiting.clear()
        return []


def run_one(function: Function, settings: Any, data: Any, folder: Path, report: Report) -> tuple[str, dict[str, Any]]:
    """Status and result of a task; an error is its result too. Interrupts pass."""
    begun = time.monotonic()
    place = {"host": socket.gethostname()}
    try:
        found = function(settings, data, folder, report)
    except Pruned:
        return "pruned", {"seconds": _since(begun), **place}
    except Exception as error:
        message = f"{type(error).__name__}: {error}" if not str(error) else str(error)
        return "failed", {"error": message, "trace": traceback.format_exc(limit=-3), "seconds": _since(begun), **place}
    return "done", {"seconds": _since(begun), **place, **found}


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 3)
