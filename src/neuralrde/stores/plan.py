"""The plan of a preparation, saved so that a resumed run repeats it exactly."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import setting
from ..models import MODELS
from ..models.base import model_class
from ..paths import Series, Windows
from ..transforms import BasePoint, Transform
from .format import INDEX, PLAN, Json, Location, SourceError, checksum, checksum_of, identity, packed
from .index import Index, as_labels, fitted, parts_of
from .layout import ControlLayout
from .rows import RowSource

# Bytes of log-signatures in a shard, and of series that it is made from, about: what an interruption may cost.
SHARD, RAW = 2**26, 2**28
# A worker needs this part of the memory, at most.
_PART = 1 / 8


@dataclass(frozen=True)
class StoreSpec:
    """What decides the content of a store: the data, and what is to be made of them."""

    files: list[tuple[str, int, int | str]]
    source: Json
    windows: Json | None
    model: str
    transform: Json
    task: str | None
    classes: list[Any] | None = None

    @staticmethod
    def of(
        source: RowSource,
        windows: Windows | None,
        model: str,
        transform: Transform,
        task: str | None,
        classes: list[Any] | None,
    ) -> "StoreSpec":
        files = [identity(file) for file in source.files]
        plain = None if windows is None else windows_to_json(windows)
        return StoreSpec(files, source.described(), plain, model, transform.state(), task, classes)

    @property
    def key(self) -> str:
        return checksum_of(asdict(self))


@dataclass(frozen=True)
class Plan:
    """Everything that a shard's task needs beside the source. Plain values, so that it is a JSON file."""

    key: str
    channels: tuple[str, ...]
    timed: bool
    transform: Json
    windows: Json
    path_channels: tuple[str, ...]
    projection: list[list[float]] | None
    model: str
    most: int
    """Points that are prepared at once, padding included; a longer series is cut in time."""
    per_point: float
    """Bytes that each takes while it is prepared."""
    shards: list[tuple[int, int]]
    """The first series of each, and the one behind the last."""
    places: list[tuple[int, int]]
    """Of each shard: the block in which it begins, and the row of it."""
    task: str | None
    classes: list[Any] | None
    index: str = ""
    """The checksum of the index of all series."""

    @staticmethod
    def read(location: Location) -> "Plan":
        content = location.read_json(PLAN)
        fields = {name: value for name, value in content.items() if name not in ("format", "checksum")}
        fields |= {name: tuple(fields[name]) for name in ("channels", "path_channels")}
        fields |= {name: [tuple(pair) for pair in fields[name]] for name in ("shards", "places")}
        return Plan(**fields)

    def write(self, location: Location) -> None:
        location.write_json(PLAN, asdict(self))

    @cached_property
    def layout(self) -> ControlLayout:
        projection = None if self.projection is None else np.array(self.projection, np.float32)
        return ControlLayout(len(self.path_channels), windows_from_json(self.windows), projection)


def write_plan(
    location: Location, spec: StoreSpec, index: Index, windows: Windows | None, transform: Transform, memory: int
) -> Plan:
    """Decide what to compute, and write the plan and the index of all series."""
    target, classes = as_labels(index.target, spec.task, spec.classes) if index.target else (None, None)
    arrays = {"lengths": np.array(index.lengths, np.int64), "ids": np.array(index.ids)}
    arrays |= {} if target is None else {"target": target}
    arrays |= {"groups": np.array(index.groups)} if index.groups else {}
    data = packed(arrays)
    plan = make_plan(spec, index, windows, transform, memory)
    task = None if target is None else "regression" if classes is None else "classification"
    plan = replace(plan, task=task, classes=classes, index=checksum(data))
    location.write(INDEX, data)
    plan.write(location)  # last: where it is, the index is whole
    return plan


def make_plan(spec: StoreSpec, index: Index, windows: Windows | None, transform: Transform, memory: int) -> Plan:
    """Fit the transform, resolve the windows, and divide the series into shards."""
    source, model = index.source, MODELS[spec.model]
    transform = fitted(transform, index)
    path = _path_channels(transform, source)
    windows = windows or model_class(model).recommended.windows(len(path))
    lengths = np.array(index.lengths, np.int64) + sum(isinstance(part, BasePoint) for part in parts_of(transform))
    windows = windows.for_lengths(lengths)
    if windows.every is not None and not source.timed:
        raise SourceError(
            f"Got windows by time, {setting('every', windows.every)}, and series without times; expected "
            f"{setting('step')}...."
        )
    layout = ControlLayout.for_model(model, len(path), windows)
    if windows.every is not None:  # about: transforms may add points
        counts = np.maximum(1, np.ceil(np.array(index.durations) / windows.every)).astype(np.int64)
    else:
        counts = np.maximum(1, -(-(lengths - 1) // int(windows.step)))  # type: ignore
    per_point = 8.0 * (4 * len(source.channels) + 6 * len(path)) + 32.0 * layout.controls * counts.sum() / lengths.sum()
    shards = _shards(index, 4 * layout.controls * counts, 8 * len(source.channels) * lengths)
    return Plan(
        key=spec.key,
        channels=source.channels,
        timed=source.timed,
        transform=transform.state(),
        windows=windows_to_json(windows),
        path_channels=path,
        projection=None if layout.projection is None else layout.projection.tolist(),
        model=spec.model,
        most=max(4096, int(memory * _PART / per_point)),
        per_point=per_point,
        shards=shards,
        places=[(index.blocks[first], index.rows[first]) for first, _ in shards],
        task=spec.task,
        classes=spec.classes,
    )


def windows_from_json(plain: Json) -> Windows:
    depth = plain["depth"]
    depth = tuple(depth) if isinstance(depth, list) else depth
    return Windows(**{**plain, "depth": depth, "scales": tuple(plain["scales"])})


def windows_to_json(windows: Windows) -> Json:
    if windows.shifts > 1:
        raise SourceError(
            f"Got {setting('windows', windows)}; expected {setting('shifts', 1)}, because a store holds log-signatures "
            "of one way to cut."
        )
    plain = {"step": windows.step, "depth": windows.depth, "every": windows.every, "scales": list(windows.scales)}
    plain |= {"count": windows.count} if windows.step is None and windows.every is None else {}
    return plain | {"depth": list(windows.depth) if isinstance(windows.depth, tuple) else windows.depth}


def _path_channels(transform: Transform, source: RowSource) -> tuple[str, ...]:
    """The names of the channels of prepared series, from two points that stand for any."""
    points = np.zeros((1, 2, len(source.channels)))
    times = np.array([[0.0, 1.0]]) if source.timed else None
    return transform(Series(points, times=times, channels=source.channels)).channels


def _shards(index: Index, output: np.ndarray, raw: np.ndarray) -> list[tuple[int, int]]:
    """Series that begin in the same blocks, so that few rows are read for two shards."""
    shards, first, size, used = [], 0, 0, 0
    for i in range(len(index.lengths)):
        new_block = i > 0 and index.blocks[i] != index.blocks[i - 1]
        full = size >= SHARD or used >= RAW
        # Within a block only where that cannot be helped: its rows are then read twice.
        if i > first and ((full and new_block) or size >= 2 * SHARD or used >= 2 * RAW):
            shards.append((first, i))
            first, size, used = i, 0, 0
        size, used = size + int(output[i]), used + int(raw[i])
    return [*shards, (first, len(index.lengths))]
