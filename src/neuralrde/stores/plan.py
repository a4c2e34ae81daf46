"""What is to be computed, decided once and kept beside the shards, so that whoever goes on computes the same."""

import io
import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Int

from ..models import MODELS
from ..models.base import model_class
from ..paths import Series, Windows
from ..transforms import BasePoint, Transform
from .driver import Driver
from .files import identity
from .index import Index
from .labels import as_labels
from .place import Place
from .reading import OTHER, StoreError, damaged
from .rows import RowSource, SourceError
from .statistics import fitted, parts_of

FORMAT = 2
MANIFEST, SERIES, PLAN, INDEX = "manifest.json", "series.npz", "work/plan.json", "work/index.npz"
# Bytes of log-signatures in a shard, and of series that it is made from, about: what an interruption may cost.
SHARD, RAW = 2**26, 2**28
# A worker needs this part of the memory, at most.
_PART = 1 / 8


@dataclass(frozen=True)
class Asked:
    """What decides the content of a store."""

    files: list[Any]
    source: dict[str, Any]
    windows: dict[str, Any] | None
    model: str
    transform: dict[str, Any]
    task: str | None
    classes: list[Any] | None = None

    @staticmethod
    def of(source: RowSource, windows: Any, model: str, transform: Transform, task: Any, classes: Any) -> "Asked":
        files = [identity(file) for file in source.files]
        plain = None if windows is None else plain_windows(windows)
        return Asked(files, source.described(), plain, model, transform.state(), task, classes)

    @property
    def key(self) -> str:
        return _of_content(asdict(self))


@dataclass(frozen=True)
class Plan:
    """Everything that a shard's task needs beside the source. Plain values, so that it is a JSON file."""

    key: str
    channels: tuple[str, ...]
    timed: bool
    transform: dict[str, Any]
    windows: dict[str, Any]
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
    def read(place: Place) -> "Plan":
        fields = {name: value for name, value in unsealed(place, PLAN).items() if name not in ("format", "checksum")}
        fields |= {name: tuple(fields[name]) for name in ("channels", "path_channels")}
        fields |= {name: [tuple(one) for one in fields[name]] for name in ("shards", "places")}
        return Plan(**fields)

    @property
    def driver(self) -> Driver:
        projection = None if self.projection is None else np.array(self.projection, np.float32)
        return Driver(len(self.path_channels), windows_of(self.windows), projection)


def make_plan(asked: Asked, index: Index, windows: Windows | None, transform: Transform, memory: int) -> Plan:
    """Fit the transform, resolve the windows, and divide the series into shards."""
    source = index.source
    transform = fitted(transform, source.channels, index.moments, index.longest, timed=source.timed)
    path = _path_channels(transform, source)
    cls = MODELS[asked.model]
    wanted = windows
    if wanted is None:
        wanted = model_class(cls).recommended.windows(len(path))
    lengths = np.array(index.lengths, np.int64) + sum(isinstance(one, BasePoint) for one in parts_of(transform))
    wanted = wanted.for_lengths(lengths)
    if wanted.every is not None and not source.timed:
        raise SourceError(f"Got windows by time, every={wanted.every}, and series without times; expected step=....")
    driver = Driver.for_model(cls, len(path), wanted)
    counts = _window_counts(wanted, lengths, np.array(index.durations))
    per_point = 8.0 * (4 * len(source.channels) + 6 * len(path)) + 32.0 * driver.controls * counts.sum() / lengths.sum()
    out = 4 * driver.controls * counts
    shards, places = _shards(index, out, 8 * len(source.channels) * lengths)
    labels = as_labels(index.target, asked.task, asked.classes) if index.target else None
    return Plan(
        key=asked.key,
        channels=source.channels,
        timed=source.timed,
        transform=transform.state(),
        windows=plain_windows(wanted),
        path_channels=path,
        projection=None if driver.projection is None else driver.projection.tolist(),
        model=asked.model,
        most=max(4096, int(memory * _PART / per_point)),
        per_point=per_point,
        shards=shards,
        places=places,
        task=None if labels is None else labels.task,
        classes=None if labels is None else labels.classes,
    )


def index_file(index: Index, asked: Asked) -> bytes:
    """The index of all series as an archive of arrays."""
    labels = as_labels(index.target, asked.task, asked.classes) if index.target else None
    arrays = {"lengths": np.array(index.lengths, np.int64), "ids": np.array(index.ids)}
    arrays |= {} if labels is None else {"target": labels.target}
    arrays |= {"groups": np.array(index.groups)} if index.groups else {}
    return packed(arrays)


def sealed(content: dict[str, Any]) -> bytes:
    """As JSON, with a checksum: a number in it that changes is noticed."""
    content = json.loads(json.dumps({"format": FORMAT, **content}))
    return json.dumps({**content, "checksum": _of_content(content)}, indent=1).encode()


def unsealed(place: Place, name: str) -> dict[str, Any]:
    """What `sealed` has made of a file of a store, its checksum included."""
    try:
        content = json.loads(place.read(name))
        layout, told = content.get("format"), content.get("checksum")
    except (ValueError, AttributeError, RecursionError):
        raise damaged(place, name, "it is no JSON of a store") from None
    if layout != FORMAT:
        raise StoreError(
            f"Got {place.root}, a store of format {layout}; expected {FORMAT}, because another version of neuralrde "
            "has made it. Use that version, or prepare the data again, in another folder."
        )
    if told != _of_content({key: value for key, value in content.items() if key != "checksum"}):
        raise damaged(place, name, OTHER)
    return content


def _of_content(content: dict[str, Any]) -> str:
    return checksum(json.dumps(content, sort_keys=True).encode())


def checksum(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore
    return buffer.getvalue()


def unpacked(place: Place, name: str, expected: str | None = None) -> dict[str, np.ndarray]:
    """The arrays in a file of a store, which must have the checksum that is expected of it."""
    try:
        data = place.read(name)
    except FileNotFoundError:
        raise damaged(place, name, "it is not there") from None
    if expected not in (None, checksum(data)):
        raise damaged(place, name, OTHER)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def windows_of(plain: dict[str, Any]) -> Windows:
    """From a JSON file."""
    depth = plain["depth"]
    return Windows(
        **{**plain, "depth": tuple(depth) if isinstance(depth, list) else depth, "scales": tuple(plain["scales"])}
    )


def plain_windows(windows: Windows) -> dict[str, Any]:
    if windows.searched or windows.shifts > 1:
        raise SourceError(
            f"Got windows={windows!r}; expected numbers and shifts=1, because a store holds log-signatures of one way "
            "to cut. Choose step and depth on a part of the series that fits in memory, with windows='auto'."
        )
    plain = {"step": windows.step, "depth": windows.depth, "every": windows.every, "scales": list(windows.scales)}
    plain |= {"count": windows.count} if windows.step is None and windows.every is None else {}
    return plain | {"depth": list(windows.depth) if isinstance(windows.depth, tuple) else windows.depth}


def _path_channels(transform: Transform, source: RowSource) -> tuple[str, ...]:
    """Their names, from two points that stand for any."""
    points = np.zeros((1, 2, len(source.channels)))
    times = np.array([[0.0, 1.0]]) if source.timed else None
    return transform(Series(points, times=times, channels=source.channels)).channels


def _window_counts(
    windows: Windows, lengths: Int[np.ndarray, "series"], durations: np.ndarray
) -> Int[np.ndarray, "series"]:
    """About: transforms may add points."""
    if windows.every is not None:
        return np.maximum(1, np.ceil(durations / windows.every)).astype(np.int64)
    return np.maximum(1, -(-(lengths - 1) // int(windows.step)))  # type: ignore


def _shards(index: Index, out: np.ndarray, raw: np.ndarray) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Series that begin in the same blocks, so that few rows are read for two shards."""
    shards, first, size, used = [], 0, 0, 0
    for i in range(len(index.lengths)):
        new_block = i > 0 and index.blocks[i] != index.blocks[i - 1]
        full = size >= SHARD or used >= RAW
        # Within a block only where that cannot be helped: its rows are then read twice.
        if i > first and ((full and new_block) or size >= 2 * SHARD or used >= 2 * RAW):
            shards.append((first, i))
            first, size, used = i, 0, 0
        size, used = size + int(out[i]), used + int(raw[i])
    shards.append((first, len(index.lengths)))
    return shards, [(index.blocks[a], index.rows[a]) for a, _ in shards]
