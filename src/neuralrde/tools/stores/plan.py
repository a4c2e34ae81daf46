"""The plan of a preparation, saved so that a resumed run repeats it exactly, and its shards in bounded memory."""

import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import IO, Any

import jax
import numpy as np

from ...datasets.targets import as_target
from ...errors import few, setting
from ...models import MODELS, AbstractDrivenModel, MultiScaleRDE, NeuralRDE
from ...models.base import model_class
from ...paths import Series, Windows, window_counts
from ...paths.series import frozen
from ...registry import make
from ...signatures.streams import LogSignatureStreams
from ...transforms import Transform
from .files import PLAN, Classes, SourceError, StoreFolder, Values, checksum_of, packed, record_name, shard_name
from .rows import RowSource
from .scan import Index, fitted

# Bytes of log-signatures in a shard, and of series that it is made from, about: what an interruption may cost.
SHARD, RAW = 2**26, 2**28
# A worker needs this part of the memory, at most.
_PART = 1 / 8


@dataclass(frozen=True)
class StoreSpec:
    """What decides the content of a store: the data, and what is to be made of them."""

    source: RowSource
    windows: Windows | None
    model: str
    transform: Transform
    task: str | None
    classes: Classes | None

    @property
    def key(self) -> str:
        return checksum_of(
            {
                "files": [(file, (about := os.stat(file)).st_size, about.st_mtime_ns) for file in self.source.files],
                "source": self.source.described(),
                "windows": None if self.windows is None else windows_to_json(self.windows),
                "model": self.model,
                "transform": self.transform.state(),
                "task": self.task,
                "classes": self.classes,
            }
        )


@dataclass(frozen=True)
class Plan:
    """Everything that a shard's task needs beside the source. Plain values, so that it is a JSON file."""

    key: str
    model: str
    channels: Sequence[str]
    path_channels: Sequence[str]
    transform: Values
    windows: Values
    mixed: bool
    controls: int
    task: str | None
    classes: Classes | None
    index: str
    """The checksum of the index of all series."""
    most: int
    """Points that are prepared at once, padding included; a longer series is cut in time."""
    per_point: float
    """Bytes that each takes while it is prepared."""
    shards: list[Sequence[int]]
    """The first series of each, and the one behind the last."""
    places: list[Sequence[int]]
    """For each shard the block in which it begins, and the row of it."""

    @staticmethod
    def read(folder: StoreFolder) -> "Plan":
        content = folder.read_json(PLAN)
        return Plan(**{name: value for name, value in content.items() if name not in ("format", "checksum")})

    @property
    def driven(self) -> AbstractDrivenModel:
        return driven_model(self.model, len(self.path_channels), make("windows", self.windows))


@lru_cache(8)
def driven_model(name: str, channels: int, windows: Windows) -> AbstractDrivenModel:
    """The smallest model that takes what a store for this one holds: in words, and mixed if it mixes many channels."""
    many = MultiScaleRDE.channels_seen(channels) < channels
    mixes = many and issubclass(model_class(MODELS[name]), MultiScaleRDE)
    options: Any = {**windows.looks, "key": jax.random.key(0), "width": 1, "state": 1}
    return MultiScaleRDE(channels, 1, units=1, blocks=0, **options) if mixes else NeuralRDE(channels, 1, **options)


def make_plan(
    spec: StoreSpec, index: Index, labels: tuple[np.ndarray, Classes | None] | None, digest: str, memory: float
) -> Plan:
    """Fit the transform, resolve the windows, and divide the series into shards.

    Args:
        spec: what to make.
        index: of all series; `digest` is the checksum of its file.
        labels: the target as numbers, and the classes, from `as_labels`.
        memory: bytes to work with.
    """
    source, transform = spec.source, fitted(spec.transform, index)
    # The names of the channels of prepared series, from two points that stand for any.
    points, times = np.zeros((1, 2, len(source.channels))), np.array([[0.0, 1.0]]) if source.timed else None
    path = transform(Series(points, times=times, channels=source.channels)).channels
    windows = spec.windows or model_class(MODELS[spec.model]).recommended.windows(len(path))
    lengths = transform.points_after(index.lengths)
    windows = windows.for_lengths(lengths)
    if windows.every is not None and not source.timed:
        raise SourceError(
            f"Got windows by time, {setting('every', windows.every)}, and series without times; expected "
            f"{setting('step')}...."
        )
    spans, step = (lengths - 1, windows.step) if windows.every is None else (index.durations, windows.every)
    counts = np.maximum(1, np.ceil(spans / step)).astype(np.int64)  # about, by time: transforms may add points
    driven = driven_model(spec.model, len(path), windows)
    controls = driven.controls
    per_point = 8.0 * (4 * len(source.channels) + 6 * len(path)) + 32.0 * controls * counts.sum() / lengths.sum()
    shards = _shards(index.blocks, 4 * controls * counts, 8 * len(source.channels) * lengths)
    classes = None if labels is None else labels[1]
    return Plan(
        key=spec.key,
        model=spec.model,
        channels=source.channels,
        path_channels=path,
        transform=transform.state(),
        windows=windows_to_json(windows),
        mixed=driven.takes_increments,
        controls=controls,
        task=None if labels is None else "regression" if classes is None else "classification",
        classes=classes,
        index=digest,
        most=max(4096, int(memory * _PART / per_point)),
        per_point=per_point,
        shards=shards,
        places=[(int(index.blocks[first]), int(index.rows[first])) for first, _ in shards],
    )


def windows_to_json(windows: Windows) -> Values:
    if windows.shifts > 1:
        raise SourceError(
            f"Got {setting('windows', windows)}; expected {setting('shifts', 1)}, because a store holds log-signatures "
            "of one way to cut."
        )
    # Without what older stores do not have, so that a store is known again.
    return {name: value for name, value in asdict(windows).items() if name not in ("lengths", "whole") or value}


def _shards(blocks: np.ndarray, output: np.ndarray, raw: np.ndarray) -> list[Sequence[int]]:
    """Series that begin in the same blocks, so that few rows are read for two shards."""
    shards, first, size, used = [], 0, 0, 0
    new_block = np.append(False, np.diff(blocks) != 0)
    for i, (new, wrote, read) in enumerate(zip(new_block.tolist(), output.tolist(), raw.tolist(), strict=True)):
        full = size >= SHARD or used >= RAW
        # Within a block only where that cannot be helped: its rows are then read twice.
        if i > first and ((full and new) or size >= 2 * SHARD or used >= 2 * RAW):
            shards.append((first, i))
            first, size, used = i, 0, 0
        size, used = size + wrote, used + read
    return [*shards, (first, len(blocks))]


def as_labels(array: np.ndarray, task: str | None, classes: Classes | None = None) -> tuple[np.ndarray, Classes | None]:
    """Labels as they stand in a file, as `(series,)` numbers of classes, with these, or `(series, outputs)` numbers.

    Args:
        array: one per series, or a row of several.
        task: "classification" or "regression"; None decides by the same rule as `neuralrde.read`.
        classes: those of another store, whose numbers are to mean the same here.

    >>> as_labels(np.array(["ill", "well", "ill"]), None)
    (array([0, 1, 0], dtype=int32), ['ill', 'well'])
    >>> as_labels(np.array([0.5, 1.25]), None)[0].tolist()
    [[0.5], [1.25]]
    """
    array = np.char.strip(array) if array.dtype.kind == "U" else array * 1  # True is 1
    absent = array == "" if array.dtype.kind == "U" else np.isnan(array)
    absent = absent.reshape(len(array), -1).all(axis=1)
    if absent.any():
        raise SourceError(
            f"Got no target for series {int(absent.argmax())} of the data; expected one for each, because nothing can "
            "be learned without. Leave such series out, or name no target for a store to predict from."
        )
    if array.ndim > 1:
        if task == "classification":
            raise SourceError("Got several targets for a classification; expected one. Name one target.")
        if np.isinf(array).any():
            raise SourceError("Got an infinite target; expected finite numbers, because no loss is finite there.")
        return array.astype(np.float32), None
    try:
        target, names = as_target(array, task, None, array.shape)  # type: ignore
    except ValueError as error:
        raise SourceError(str(error)) from None
    if names is None:
        return target.astype(np.float32)[:, None], None
    names = list(names) if array.dtype.kind == "U" else [float(name) if "." in name else int(name) for name in names]
    if classes is not None:
        places = {str(name): number for number, name in enumerate(classes)}
        unknown = [name for name in names if str(name) not in places]
        if unknown:
            raise SourceError(
                f"Got the class {unknown[0]!r}; expected one of {few(classes, 10)}, the classes of the store that this "
                "one is to be like. Leave its series out."
            )
        target, names = np.array([places[str(name)] for name in names])[target], classes
    return target.astype(np.int32), list(names)


def is_done(folder: StoreFolder, number: int) -> bool:
    """Whether a shard is there, and as large as its record says."""
    if folder.size(record_name(number)) is None:
        return False
    try:
        record = folder.read_arrays(record_name(number))
        return folder.size(shard_name(number)) == int(record["size"])
    except (OSError, ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile):
        return False  # it is made again


def make_shard(
    source: RowSource,
    plan: Plan,
    number: int,
    lengths: np.ndarray,
    folder: StoreFolder,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Compute a shard and write it, then its record.

    Args:
        source: the rows.
        plan: what to compute.
        number: the shard's number.
        lengths: the points of each of its series.
        folder: where the store is.
        stop: asked between two parts; the shard is given up where it says so.
    """
    rows = _Reader(source, *plan.places[number])
    with folder.writing(shard_name(number)) as file:
        out = _Writer(file, plan.controls)
        for part in _parts(lengths, plan.most):
            if stop():
                raise InterruptedError
            if part.max() > plan.most:
                windows = _long(rows, plan, int(part[0]))
                out.add(next(windows), windows)
            else:
                _together(rows, plan, part, out)
        record = out.finish()
    folder.write(record_name(number), packed(record))


def _parts(lengths: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Lengths of series to prepare at once: padded, they have at most `most` points; a longer one is alone."""
    start, longest = 0, 0
    for i, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if i > start and longest * (i + 1 - start) > most:
            yield lengths[start:i]
            start, longest = i, length
    yield lengths[start:]


def _together(rows: "_Reader", plan: Plan, lengths: np.ndarray, out: "_Writer") -> None:
    """Prepare and write whole series."""
    values, times = rows.take(int(lengths.sum()))
    prepared = Transform.from_state(plan.transform)(Series._pack(values, times, lengths, plan.channels, None))
    windows = make("windows", plan.windows)
    cuts = windows.cuts(prepared)
    path, since = np.asarray(prepared.values, np.float64), windows.starts(prepared, cuts)
    first, logs = plan.driven.inputs(path, prepared.clock, cuts, since=since)
    for point, windows, count in zip(first, logs, window_counts(prepared, cuts).tolist(), strict=True):
        out.add(point, [windows[:count]])


def _long(rows: "_Reader", plan: Plan, length: int) -> Iterator[np.ndarray]:
    """Prepare one series that is cut in time: its first point, then its windows, some at a time.

    Windows that span two parts are joined by Chen's relation.
    """
    windows, transform = make("windows", plan.windows), Transform.from_state(plan.transform)
    how: Any = {"every": windows.every} if windows.every is not None else {"step": windows.step}
    streams = LogSignatureStreams(plan.driven, **how)
    state, carried = streams.start(1), transform.begin(1, len(plan.channels))
    for start in range(0, length, plan.most):
        values, times = rows.take(min(plan.most, length - start))
        clock = np.arange(start, start + len(values), dtype=np.float64) if times is None else times
        series = Series(frozen(values[None]), times=frozen(clock[None]), channels=plan.channels)
        carried, prepared = transform.step(carried, series)
        path = np.asarray(prepared.values, np.float64)
        if start == 0:
            yield path[0, 0]
        state, logs, counts = streams.push(state, path, prepared.clock, prepared.lengths)
        yield logs[0, : counts[0]]
    if streams.unfinished(state)[0]:
        yield streams.running(state)


class _Reader:
    """Rows of a source from a row of a block on."""

    def __init__(self, source: RowSource, block: int, row: int):
        self._pieces = _pieces(source, block, row)
        self._values, self._times = np.zeros(0), None

    def take(self, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Values and times of the next rows."""
        values, times = [], []
        while count:
            if not len(self._values):
                self._values, self._times = next(self._pieces)
            values.append(self._values[:count])
            self._values = self._values[count:]
            if self._times is not None:
                times.append(self._times[:count])
                self._times = self._times[count:]
            count -= len(values[-1])
        joined = lambda parts: parts[0] if len(parts) == 1 else np.concatenate(parts)
        return joined(values), joined(times) if times else None


def _pieces(source: RowSource, block: int, row: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    for i in range(block, len(source.blocks)):
        for rows in source.read(i, about_series=False, values=True):
            if row < len(rows.values):
                yield rows.values[row:], None if rows.times is None else rows.times[row:]
            row = max(0, row - len(rows.values))
    raise SourceError("The data ended before the last series: they have changed since the first look.")


@np.errstate(over="ignore")
def _as_float32(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, "<f4")


class _Writer:
    """Writes windows of series one after the other into an .npy file `(windows, controls)`, in float32."""

    def __init__(self, file: IO[bytes], controls: int):
        self.file, self.controls, self._digest = file, controls, blake2b(digest_size=16)
        self._series: list[tuple[np.ndarray, int, int]] = []
        """For each series the first point, the number of windows, and the checksum."""
        self._header(0)
        self._start = file.tell()

    def _header(self, windows: int) -> None:
        # NumPy leaves room for any number of rows, so that the header of more of them is as long.
        shape = {"descr": "<f4", "fortran_order": False, "shape": (windows, self.controls)}
        np.lib.format.write_array_header_1_0(self.file, shape)  # type: ignore

    def add(self, first: np.ndarray, parts: Iterable[np.ndarray]) -> None:
        """Write a series, whose windows may come in parts."""
        checksum, windows = 0, 0
        for logs in parts:
            data = _as_float32(logs).data
            checksum, windows = zlib.crc32(data, checksum), windows + len(logs)
            self._digest.update(data)
            self.file.write(data)
        self._series.append((_as_float32(first), windows, checksum))

    def finish(self) -> dict[str, np.ndarray]:
        """Complete the header; the record has what is known of each series, and size and checksum of the file."""
        first, windows, sums = zip(*self._series, strict=True)
        size = self.file.tell()
        self.file.seek(0)
        self._header(sum(windows))
        assert self.file.tell() == self._start
        return {
            "first": np.stack(first),
            "windows": np.array(windows, np.int64),
            "sums": np.array(sums, np.uint32),
            "start": np.array(self._start),
            "size": np.array(size),
            "digest": np.array(self._digest.hexdigest()),
        }
