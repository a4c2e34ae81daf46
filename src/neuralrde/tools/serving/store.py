"""Where streams are kept: SQLite, with one transaction for many streams.

A batch of pushes is one row of the log, which is little to write. From time to time a stream's state is written. When
the store is opened, what a log has that no state stands for becomes rows of points, found by stream. A stream comes
back from its last state and these. With a folder, nothing is acknowledged before its transaction is on the disk
(write-ahead log, `synchronous=FULL`); without one, states of streams that rest are kept in memory.

SQLite has no checksums, so every state and every push has one of ours. A stream that is damaged is refused by its name,
and the others live. The structure of the file is checked when it is opened.
"""

import contextlib
import os
import queue
import sqlite3
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar
from zlib import crc32

import msgspec
import numpy as np

# Batches after which a stream's state is written, about; coming back means to push at most twice as many again.
STATE_EVERY = 128


T = TypeVar("T")


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
    parts = []
    for push in pushes:
        arrays = [push.values] if push.times is None else [push.values, push.times]
        head = _HEAD.pack(push.id, push.seq, *push.values.shape, push.times is not None)
        parts.append(head + b"".join([np.ascontiguousarray(array, "<f8").tobytes() for array in arrays]))
    rows = [(push.id, push.seq, len(part), crc32(part)) for push, part in zip(pushes, parts, strict=True)]
    index = np.array(rows, _INDEX).tobytes()
    return index + crc32(index).to_bytes(_CRC, "little"), b"".join(parts)


def records(index: bytes, copy: bytes, data: bytes) -> Iterator[tuple[int, int, bytes, int]]:
    """The number of each push's stream, which one it is, its record and the record's checksum."""
    sound = (one[:-_CRC] for one in (index, copy) if crc32(one[:-_CRC]).to_bytes(_CRC, "little") == one[-_CRC:])
    if (entries := next(sound, None)) is None:
        raise Damaged("a row of the log is damaged in both of its indexes, so that nobody knows whose points it held")
    place = 0
    for id, seq, size, crc in np.frombuffer(entries, _INDEX).tolist():
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
    >>> [unwritten.pushed([("model", name)]) for name in "aab"]
    [1, 2, 3]
    >>> unwritten.written(("model", "a"))
    >>> unwritten.passed  # rows up to here may go
    2
    """

    def __init__(self):
        self.row = 0
        """The last row's number."""
        self._since: OrderedDict[tuple[str, str], int] = OrderedDict()

    def pushed(self, names: Iterable[tuple[str, str]]) -> int:
        """A batch of pushes: the number of its row."""
        self.row += 1
        for name in names:
            self._since.setdefault(name, self.row)
        return self.row

    def written(self, name: tuple[str, str]) -> None:
        """The stream's state is written, or it has ended."""
        self._since.pop(name, None)

    def due(self) -> list[tuple[str, str]]:
        """Streams whose states should be written now: the oldest, and never many at once."""
        names, most = [], 1 + 2 * len(self._since) // STATE_EVERY
        for name, row in self._since.items():
            if len(names) == most or row > self.row - STATE_EVERY:
                break
            names.append(name)
        return names

    @property
    def passed(self) -> int:
        """The last row that nobody needs."""
        return next(iter(self._since.values()), self.row + 1) - 1


_SCHEMA = """
CREATE TABLE IF NOT EXISTS streams (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL,
    seq INTEGER NOT NULL, state BLOB, crc INTEGER NOT NULL, UNIQUE (model, name));
CREATE TABLE IF NOT EXISTS points (
    id INTEGER NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (id, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (row INTEGER PRIMARY KEY, part BLOB NOT NULL, copy BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS ended (
    model TEXT NOT NULL, name TEXT NOT NULL, answer BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (model, name));
"""
_FORMAT = 3
_BROKEN = (sqlite3.Error, UnicodeError, Damaged)  # SQLite's messages may quote what is broken
OPEN = """INSERT INTO streams (id, model, name, owner, seq, state, crc)
    VALUES (?1, ?2, ?3, ?4, 0, NULL, crc(?1, ?2, ?3, ?4, 0, NULL))"""
LOG = "INSERT INTO log (row, part, copy, data) VALUES (?1, ?2, ?2, ?3)"
TRIM_LOG = "DELETE FROM log WHERE row <= ?"
STATE = "UPDATE streams SET seq = ?2, state = ?3, crc = crc(id, model, name, owner, ?2, ?3) WHERE id = ?1"
TRIM = "DELETE FROM points WHERE id = ?1 AND seq <= ?2"
DROP = "DELETE FROM streams WHERE id = ?"
DROP_POINTS = "DELETE FROM points WHERE id = ?"
ENDED = "INSERT OR REPLACE INTO ended (model, name, answer, crc) VALUES (?1, ?2, ?3, crc(?1, ?2, ?3))"
FORGET = "DELETE FROM ended WHERE model = ? AND name = ?"
Change = tuple[str, tuple]


class Kept(NamedTuple):
    """A stream in the store."""

    id: int
    seq: int
    state: bytes | None
    """The state as JSON; None is the state before the first point."""
    pushes: list[tuple[np.ndarray, np.ndarray | None]]
    """The pushes since that state."""


class Store:
    """Streams on the disk, or in memory. One thread writes: all that has come in meanwhile is one transaction.

    Args:
        folder: where the file `streams.sqlite` lies; None keeps everything in memory.

    >>> store = Store()
    >>> store.write([(OPEN, (1, "hearts", "p7", "me"))])
    >>> store.read("hearts", ["p7", "p8"])
    {'p7': Kept(id=1, seq=0, state=None, pushes=[])}
    >>> store.close()
    """

    def __init__(self, folder: Path | None = None):
        self.durable = folder is not None
        self.error: Exception | None = None
        """What went wrong with the last transaction; nothing is written until `mend`."""
        self.commits = 0
        """Transactions so far."""
        self._work: queue.SimpleQueue = queue.SimpleQueue()
        self._database = _opened(folder)
        self._thread = threading.Thread(target=self._run, name="neuralrde store", daemon=True)
        self._thread.start()

    def submit(self, changes: Sequence[Change], then: Callable[[Exception | None], None]) -> None:
        """Write soon; `then` is called in the store's thread when it is on the disk, or with what went wrong."""
        self._work.put((changes, then))

    def write(self, changes: Sequence[Change]) -> None:
        """Write, and wait until it is done."""
        done: Future = Future()
        self.submit(changes, done.set_result)
        if (error := done.result()) is not None:
            raise error

    def read(self, model: str, names: Iterable[str]) -> dict[str, Kept | Damaged]:
        """The streams that are in the store, after all that was submitted; or what is wrong with them."""
        return self._call(lambda: {name: kept for name in names if (kept := self._find(model, name)) is not None})

    def known(self) -> list[tuple[int, str, str, str]]:
        """The number, model, name and owner of each stream."""
        return self._call(lambda: self._database.execute("SELECT id, model, name, owner FROM streams").fetchall())

    def ended(self) -> list[tuple[str, str, bytes]]:
        """The last answers to streams that have ended, oldest first: model, name and answer."""
        sql = "SELECT model, name, answer FROM ended WHERE crc = crc(model, name, answer) ORDER BY rowid"
        return self._call(lambda: self._database.execute(sql).fetchall())

    def mend(self) -> bool:
        """Go on after an error, if that is possible; streams then come back as they were acknowledged."""

        def mended() -> bool:
            try:
                _fold(self._database)
                self.error = None
            except _BROKEN as error:
                self.error = error
            return self.error is None

        return self._call(mended)

    def close(self) -> None:
        """Write what is waiting, and close the file."""
        self._call(self._database.close)
        self._work.put(None)
        self._thread.join()

    def _call(self, function: Callable[[], T]) -> T:
        """What the function returns in the store's thread, after all that was submitted."""
        done: Future = Future()
        self._work.put((function, done))
        return done.result()

    def _run(self) -> None:
        while True:
            items = [self._work.get()]
            while not self._work.empty():
                items.append(self._work.get())
            # What is to be written up to the next question is one transaction.
            for asks, some in groupby(items, lambda item: item is None or isinstance(item[1], Future)):
                if not asks:
                    self._commit(list(some))
                    continue
                for item in some:
                    if item is None:
                        return
                    function, done = item
                    try:
                        done.set_result(function())
                    except Exception as error:
                        done.set_exception(error)

    def _commit(self, group: list) -> None:
        if self.error is None:
            try:
                with _transaction(self._database):
                    for sql, alike in groupby((change for changes, _ in group for change in changes), itemgetter(0)):
                        self._database.executemany(sql, [parameters for _, parameters in alike])
                self.commits += 1
            except Exception as error:
                self.error = error
        for _, then in group:
            then(self.error)

    def _find(self, model: str, name: str) -> Kept | Damaged | None:
        try:
            sql = "SELECT id, seq, state, crc = crc(id, model, name, owner, seq, state) FROM streams "
            row = self._database.execute(sql + "WHERE model = ? AND name = ?", (model, name)).fetchone()
            if row is None:
                return None
            id, seq, state, sound = row
            if not sound:
                raise Damaged("its state has another checksum than when it was written")
            rows = self._database.execute("SELECT seq, data, crc FROM points WHERE id = ? ORDER BY seq", (id,))
            rows = rows.fetchall()
            if self.error is not None:  # what was acknowledged before is still in the log
                log = self._database.execute("SELECT part, copy, data FROM log ORDER BY row")
                rows += [push[1:] for row in log for push in records(*row) if push[0] == id and push[1] > seq]
            pushes = []
            for number, (row, data, crc) in enumerate(rows, seq + 1):
                push = unpacked(data, crc)
                if (push.id, push.seq, row) != (id, number, number):
                    raise Damaged(f"push {number} is missing")
                pushes.append((push.values, push.times))
            return Kept(id, seq + len(rows), state, pushes)
        except _BROKEN as error:
            return Damaged(error)


def _opened(folder: Path | None) -> sqlite3.Connection:
    place = ":memory:"
    if folder is not None:
        # The streams may be patients'. SQLite gives its other files the mode of this one.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = str(folder / "streams.sqlite")
        os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))
        for file in folder.glob("streams.sqlite*"):
            file.chmod(0o600)
    database = sqlite3.connect(place, check_same_thread=False, isolation_level=None, timeout=2)
    database.text_factory = lambda text: text.decode(errors="replace")  # a checksum tells a damaged one
    database.create_function("crc", -1, lambda *parts: crc32(msgspec.msgpack.encode(parts)), deterministic=True)
    try:
        # No other process may write: two services on one folder would each believe their own streams.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        [version] = database.execute("PRAGMA user_version").fetchone()
        if version in (0, _FORMAT):
            database.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {_FORMAT};COMMIT;")
            if (verdict := database.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise Damaged(verdict)
            _fold(database)
            return database
        refusal = (
            f"Got {place} in the format {version}; expected {_FORMAT}. Another version of neuralrde wrote it: use "
            "that, or another folder."
        )
    except _BROKEN as error:
        refusal = (
            f"Got {place}, which is no file of streams or is damaged ({error}); expected one as the service left it. "
            "Restore it from a backup, or name another folder."
        )
        if "locked" in str(error):
            refusal = (
                f"Got the folder {folder}, which another service is using; expected one of its own. Stop that one, or "
                "name another folder."
            )
    database.close()
    raise ValueError(refusal)


def _fold(database: sqlite3.Connection) -> None:
    """What the log has and no state stands for, as rows by stream; the log starts anew."""
    with _transaction(database):
        written = dict(database.execute("SELECT id, seq FROM streams"))
        for row in database.execute("SELECT part, copy, data FROM log ORDER BY row"):
            news = [push for push in records(*row) if push[1] > written.get(push[0], push[1])]
            database.executemany("INSERT OR REPLACE INTO points (id, seq, data, crc) VALUES (?, ?, ?, ?)", news)
        database.execute("DELETE FROM log")


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
