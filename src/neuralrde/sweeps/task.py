"""A task, one run of a sweep: its settings, a point of a grid, and its key, a hash of all that decides the result."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np


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


def grid_points(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination, the last name varying fastest. What is no list is one value.

    A value that is itself a list is written in a list: `[[1, 4], [1, 16]]` are two values.

    >>> grid_points({"model": "log-ncde", "depth": [1, 2], "seed": [0, 1]})[1:3]
    [{'model': 'log-ncde', 'depth': 1, 'seed': 1}, {'model': 'log-ncde', 'depth': 2, 'seed': 0}]
    """
    for name, values in lists.items():
        if isinstance(values, list) and not values:
            raise ValueError(f"Got no value for {name} in a grid; expected at least one. Leave {name} out.")
    each = [values if isinstance(values, list) else [values] for values in lists.values()]
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*each)]


def content_key(content: Any) -> str:
    """A hash of plain values: the same for equal ones, whatever the order of a dictionary's names.

    >>> content_key({"seed": 0, "depth": 2}) == content_key({"depth": 2, "seed": 0})
    True
    >>> content_key({"seed": 0}) == content_key({"seed": 1})
    False
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)
    return blake2b(text.encode(), digest_size=10).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"Got {value!r} of type {type(value).__name__} among what decides a result; expected numbers, strings, "
        "booleans, None, lists and dictionaries, because only these are the same on every machine."
    )
