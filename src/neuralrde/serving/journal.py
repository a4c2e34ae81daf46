"""The log of pushes: one row per batch of streams, appended; and how much of it is still needed.

A push must be on the disk before it is acknowledged, and it is soon replaced by the state that it led to. So a batch is
written as one row at the end of a log, whatever number of streams it has. From time to time a stream's state is
written. Rows before the first push that no state stands for are deleted.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

# Batches after which a stream's state is written, about; coming back means to push at most twice as many again.
STATE_EVERY = 128


class Damaged(ValueError):
    """What was read is not what was written."""


class Logged(NamedTuple):
    """One push: the stream's number, which of its pushes it is, and its points."""

    id: int
    seq: int
    values: np.ndarray
    times: np.ndarray | None


_HEAD = struct.Struct("<qqii?")
_INDEX = np.dtype([("id", "<i8"), ("seq", "<i8"), ("size", "<i8"), ("crc", "<u4")])
_CRC = 4


def packed(pushes: Sequence[Logged]) -> tuple[bytes, bytes]:
    """Pushes as bytes: an index, which is kept twice, and a record of each."""
    records = [
        b"".join((
            _HEAD.pack(push.id, push.seq, *push.values.shape, push.times is not None),
            np.ascontiguousarray(push.values, "<f8").tobytes(),
            b"" if push.times is None else np.ascontiguousarray(push.times, "<f8").tobytes(),
        ))
        for push in pushes
    ]  # fmt: skip
    rows = [(push.id, push.seq, len(one), crc32(one)) for push, one in zip(pushes, records, strict=True)]
    index = np.array(rows, _INDEX).tobytes()
    return index + crc32(index).to_bytes(_CRC, "little"), b"".join(records)


def records(index: bytes, copy: bytes, data: bytes) -> Iterator[tuple[int, int, bytes, int]]:
    """Of each push its stream's number, which one it is, its record and the record's checksum."""
    for one in (index, copy):
        if len(one) >= _CRC and crc32(one[:-_CRC]) == int.from_bytes(one[-_CRC:], "little"):
            break
    else:
        raise Damaged("a row of the log is damaged in both of its indexes, so that nobody knows whose points it held")
    place = 0
    for id, seq, size, crc in np.frombuffer(one[:-_CRC], _INDEX).tolist():
        yield id, seq, data[place : place + size], crc
        place += size


def unpacked(record: bytes, crc: int) -> Logged:
    """The push of a record.

    >>> index, data = packed([Logged(7, 1, np.array([[1.0, np.nan]]), np.array([0.5]))])
    >>> [(_, _, record, crc)] = records(index, index, data)
    >>> push = unpacked(record, crc)
    >>> push.id, push.values.tolist(), push.times.tolist()
    (7, [[1.0, nan]], [0.5])
    """
    if crc32(record) != crc:
        raise Damaged("points have another checksum than when they were written")
    id, seq, count, channels, timed = _HEAD.unpack_from(record)
    values = np.frombuffer(record, "<f8", count * channels, _HEAD.size).reshape(count, channels)
    return Logged(id, seq, values, np.frombuffer(record, "<f8", count, _HEAD.size + values.nbytes) if timed else None)


class Unwritten:
    """Streams with pushes that no written state stands for, and in which row of the log the first of these is.

    >>> unwritten = Unwritten()
    >>> [unwritten.pushed([name]) for name in "aab"]
    [1, 2, 3]
    >>> unwritten.written("a")
    >>> unwritten.passed  # rows up to here may go
    2
    """

    def __init__(self):
        self.row = 0
        """The last row's number."""
        self._since: OrderedDict[Any, int] = OrderedDict()

    def pushed(self, names: Iterable[Any]) -> int:
        """A batch of pushes: the number of its row."""
        self.row += 1
        for name in names:
            self._since.setdefault(name, self.row)
        return self.row

    def written(self, name: Any) -> None:
        """The stream's state is written, or it has ended."""
        self._since.pop(name, None)

    def due(self) -> list[Any]:
        """Streams whose states should be written now: the oldest, and never many at once."""
        found, most = [], 1 + 2 * len(self._since) // STATE_EVERY
        for name, row in self._since.items():
            if len(found) == most or row > self.row - STATE_EVERY:
                break
            found.append(name)
        return found

    @property
    def passed(self) -> int:
        """The last row that nobody needs."""
        return next(iter(self._since.values()), self.row + 1) - 1
