"""The log of pushes: one row per batch of streams, appended; and how much of it is still needed.

A push must be on the disk before it is acknowledged, and it is soon replaced by the state that it led to. So a batch is
written as one row at the end of a log, whatever number of streams it has. From time to time a stream's state is
written. Rows before the first push that no state stands for are deleted.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

# Batches after which a stream's state is written, about; coming back means to push at most twice as many again.
STATE_EVERY = 128


class Logged(NamedTuple):
    """One push: the stream's number, which of its pushes it is, and its points."""

    id: int
    seq: int
    values: np.ndarray
    times: np.ndarray | None


_HEAD = struct.Struct("<I")
_INDEX = np.dtype([("id", "<i8"), ("seq", "<i8"), ("count", "<i4"), ("channels", "<i4"), ("timed", "?")])


def packed(pushes: Sequence[Logged]) -> bytes:
    """Pushes as bytes.

    >>> [push] = unpacked(packed([Logged(7, 1, np.array([[1.0, np.nan]]), np.array([0.5]))]))
    >>> push.id, push.values.tolist(), push.times.tolist()
    (7, [[1.0, nan]], [0.5])
    """
    index = np.array([(p.id, p.seq, *p.values.shape, p.times is not None) for p in pushes], _INDEX)
    parts = [_HEAD.pack(len(pushes)), index.tobytes()]
    for push in pushes:
        parts.append(np.ascontiguousarray(push.values, "<f8").tobytes())
        if push.times is not None:
            parts.append(np.ascontiguousarray(push.times, "<f8").tobytes())
    return b"".join(parts)


def unpacked(data: bytes) -> Iterator[Logged]:
    """What `packed` was given."""
    [pushes] = _HEAD.unpack_from(data)
    index = np.frombuffer(data, _INDEX, pushes, _HEAD.size)
    place = _HEAD.size + index.nbytes
    for id, seq, count, channels, timed in index.tolist():
        values = np.frombuffer(data, "<f8", count * channels, place).reshape(count, channels)
        place += values.nbytes
        times = np.frombuffer(data, "<f8", count, place) if timed else None
        place += 8 * count * timed
        yield Logged(id, seq, values, times)


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
