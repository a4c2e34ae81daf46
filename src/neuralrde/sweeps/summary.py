"""Results grouped over seeds: mean and deviation."""

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Metrics of which less is better.
LESS = ("rmse", "mae", "validation_loss", "loss")


@dataclass
class Group:
    """Runs that differ in their seed only.

    `values` are the seeds' values of `metric`; `failed` and `pruned` count runs without one.
    """

    point: dict[str, Any]
    metric: str
    values: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    pruned: int = 0

    @property
    def mean(self) -> float | None:
        """Over seeds; None if no run has ended well."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds, with n - 1; None of fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def summarise(lines: Iterable[Mapping[str, Any]]) -> list[Group]:
    """One group per point without its seed: by data set, the best first.

    >>> lines = [{"point": {"data": "a", "seed": s}, "metric": "accuracy", "value": 0.5 + s} for s in (0, 1)]
    >>> [group] = summarise(lines)
    >>> group.point, group.mean, round(group.deviation, 3)
    ({'data': 'a'}, 1.0, 0.707)
    """
    groups: dict[str, Group] = {}
    for line in lines:
        point = {name: value for name, value in line["point"].items() if name != "seed"}
        key = json.dumps(point, sort_keys=True)
        group = groups.setdefault(key, Group(point, line.get("metric") or ""))
        group.metric = group.metric or line.get("metric") or ""
        status = line.get("status", "done")
        if status == "done" and line.get("value") is not None:
            group.values.append(float(line["value"]))
        else:
            group.pruned += status == "pruned"
            group.failed += status != "pruned"
        if line.get("seconds") is not None:
            group.seconds.append(float(line["seconds"]))
    return sorted(groups.values(), key=_order)


def names(groups: Iterable[Group]) -> list[str]:
    """Of all that points are told apart by, data set and model first."""
    found = dict.fromkeys(name for group in groups for name in group.point)
    first = [name for name in ("data", "model") if name in found]
    return [*first, *(name for name in found if name not in first)]


def short(value: Any) -> str:
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


def _order(group: Group) -> tuple[Any, ...]:
    mean = group.mean
    if mean is None:
        return (str(group.point.get("data", "")), 1, 0.0)
    return (str(group.point.get("data", "")), 0, mean if group.metric in LESS else -mean)
