"""A task: one run of a sweep."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Task:
    """One run, known by its key.

    Args:
        key: a hash of all that decides the result, from `content_key`. Tasks of one key are one task.
        point: what tells it from others, for people: `{"data": "hearts", "windows.depth": 2, "seed": 0}`.
        settings: what the function that runs it is given; it travels to other processes and hosts.
        data: the name of the object among the sweep's `data` that it works on; None if it needs none.
        search: the name of the search that asked for it, and the number of its trial; None in a grid.
    """

    key: str
    point: dict[str, Any] = field(compare=False)
    settings: Any = field(compare=False, default=None)
    data: str | None = field(compare=False, default=None)
    search: tuple[str, int] | None = field(compare=False, default=None)


class Pruned(Exception):
    """Raised inside a run that its search gives up: it does too badly to go on with."""
