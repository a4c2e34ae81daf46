"""One shard: its series read, prepared and cut into windows, and their log-signatures written, in bounded memory."""

import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import IO, Any

import numpy as np

from ...paths import Series, window_counts
from ...paths.series import frozen
from ...signatures.streams import LogSignatureStreams
from ...transforms import Transform
from .files import Location, SourceError, packed, record_name, shard_name
from .plan import Plan, windows_from_json
from .rows import RowSource


def is_done(location: Location, number: int) -> bool:
    """Whether a shard is there, and as large as its record says."""
    if location.size(record_name(number)) is None:
        return False
    try:
        record = location.read_arrays(record_name(number))
        return location.size(shard_name(number)) == int(record["size"])
    except (OSError, ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile):
        return False  # it is made again


def make_shard(
    source: RowSource,
    plan: Plan,
    number: int,
    lengths: np.ndarray,
    location: Location,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Compute a shard and write it, then its record.

    Args:
        source: the rows.
        plan: what to compute.
        number: the shard's number.
        lengths: the points of each of its series.
        location: where the store is.
        stop: asked between two parts; the shard is given up where it says so.
    """
    rows = _Reader(source, *plan.places[number])
    with location.writing(shard_name(number)) as file:
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
    location.write(record_name(number), packed(record))


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
    cuts = windows_from_json(plan.windows).cuts(prepared)
    first, logs = plan.driven.inputs(np.asarray(prepared.values, np.float64), prepared.clock, cuts)
    for point, windows, count in zip(first, logs, window_counts(prepared, cuts).tolist(), strict=True):
        out.add(point, [windows[:count]])


def _long(rows: "_Reader", plan: Plan, length: int) -> Iterator[np.ndarray]:
    """Prepare one series that is cut in time: its first point, then its windows, some at a time.

    Windows that span two parts are joined by Chen's relation.
    """
    windows, transform = windows_from_json(plan.windows), Transform.from_state(plan.transform)
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
