"""Tasks and their results: a task's key, grids, and groups of results over seeds."""

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ..._write import Values

if TYPE_CHECKING:
    from pandas import DataFrame

Result = Values
"""What became of a task, as its file has it."""
# Metrics of which less is better.
LESS = ("rmse", "mae", "validation_loss", "loss")


@dataclass(frozen=True)
class Task:
    """One run of a sweep.

    Args:
        key: a hash of everything that determines the result, from `content_key`. Tasks of one key are one task.
        point: what tells it from others, for people: `{"data": "hearts", "windows.depth": 2, "seed": 0}`.
        settings: for the function that runs it; they travel to other processes and hosts.
        data: the name of the object among the sweep's `data` that it works on; None if it needs none.
    """

    key: str
    point: Values = field(compare=False)
    settings: object = field(compare=False, default=None)
    data: str | None = field(compare=False, default=None)


def grid_points(lists: Values) -> list[Values]:
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


def content_key(content: object) -> str:
    """A hash of plain values: the same for equal ones, whatever the order of a dictionary's names.

    >>> content_key({"seed": 0, "depth": 2}) == content_key({"depth": 2, "seed": 0})
    True
    >>> content_key({"seed": 0}) == content_key({"seed": 1})
    False
    """

    def plain(value: Any) -> object:
        if hasattr(value, "dtype") and value.ndim == 0:
            return value.item()
        raise TypeError(
            f"Got {value!r} of type {type(value).__name__} among what decides a result; expected numbers, strings, "
            "booleans, None, lists and dictionaries, because only these are the same on every machine."
        )

    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=plain)
    return blake2b(text.encode(), digest_size=10).hexdigest()


def summarise(lines: Sequence[Values]) -> "DataFrame":
    """A pandas DataFrame with a row per point without its seed: by data set, the best first.

    >>> lines = [{"point": {"data": "a", "seed": s}, "metric": "accuracy", "value": 0.5 + s} for s in (0, 1)]
    >>> summarise(lines).round(3).to_dict("records")
    [{'data': 'a', 'metric': 'accuracy', 'mean': 1.0, 'deviation': 0.707, 'seeds': 2, 'seconds': nan, 'failed': 0}]
    """
    import pandas as pd

    rows = []
    for line in lines:
        value = line.get("value") if line.get("status", "done") == "done" else None
        point = {name: short(setting) for name, setting in line["point"].items() if name != "seed"}
        known = {"metric": line.get("metric"), "value": value, "seconds": line.get("seconds"), "failed": value is None}
        rows.append(point | known)
    frame = pd.DataFrame(rows).astype({"value": float, "seconds": float})
    points = names(line["point"] for line in lines)
    groups: Any = frame.groupby([name for name in points if name != "seed"], dropna=False, sort=False)
    found = groups.agg(
        metric=("metric", "first"),
        mean=("value", "mean"),
        deviation=("value", "std"),
        seeds=("value", "count"),
        seconds=("seconds", "mean"),
        failed=("failed", "sum"),
    ).reset_index()
    loss = found["mean"].where(found["metric"].isin(LESS), -found["mean"])
    by = [name for name in ("data", "loss") if name in (*found, "loss")]
    return found.assign(loss=loss).sort_values(by, kind="stable").drop(columns="loss").reset_index(drop=True)


def names(points: Iterable[Values]) -> list[str]:
    """The names in points, data set and model first."""
    every = dict.fromkeys(name for point in points for name in point)
    first = [name for name in ("data", "model") if name in every]
    return [*first, *(name for name in every if name not in first)]


def short(value: object) -> str:
    """A setting in a table's cell.

    >>> short({"name": "log-ncde", "state": 64}), short(0.0010000001), short([1, 4])
    ('log-ncde state=64', '0.001', '1, 4')
    """
    if isinstance(value, dict):
        rest = [f"{name}={short(item)}" for name, item in value.items() if name != "name"]
        return " ".join([*([str(value["name"])] if "name" in value else []), *rest])
    if isinstance(value, list | tuple):
        return ", ".join(map(short, value))
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
