"""Where streams are kept: SQLite, with one transaction for many streams.

A push is one row of points, which is little to write. From time to time the stream's state is written, and the rows
that it stands for are deleted. A stream comes back from its last state and the rows since. With a folder, nothing is
acknowledged before its transaction is on the disk (write-ahead log, `synchronous=FULL`); without one, states of streams
that rest are kept in memory.
"""

import queue
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

_SCHEMA = """
CREATE TABLE IF NOT EXISTS streams (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL,
    seq INTEGER NOT NULL, state BLOB, UNIQUE (model, name));
CREATE TABLE IF NOT EXISTS points (
    id INTEGER NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (id, seq)) WITHOUT ROWID;
"""
_FORMAT = 1
OPEN = "INSERT INTO streams (id, model, name, owner, seq, state) VALUES (?, ?, ?, ?, 0, NULL)"
POINTS = "INSERT INTO points (id, seq, data) VALUES (?, ?, ?)"
STATE = "UPDATE streams SET seq = ?2, state = ?3 WHERE id = ?1"
TRIM = "DELETE FROM points WHERE id = ?1 AND seq <= ?2"
DROP = "DELETE FROM streams WHERE id = ?"
DROP_POINTS = "DELETE FROM points WHERE id = ?"
Change = tuple[str, tuple]


@dataclass(frozen=True)
class Kept:
    """A stream in the store."""

    id: int
    seq: int
    state: bytes | None
    """As JSON; None is the state before the first point."""
    pushes: list[tuple[np.ndarray, np.ndarray | None]]
    """Since that state."""


class Store:
    """Streams on the disk, or in memory. One thread writes: all that has come in meanwhile is one transaction.

    Args:
        folder: where the file `streams.sqlite` lies; None keeps everything in memory.

    >>> store = Store()
    >>> store.read("hearts", ["p7"])
    {}
    >>> store.write([(OPEN, (1, "hearts", "p7", "me"))])
    >>> store.read("hearts", ["p7"])["p7"]
    Kept(id=1, seq=0, state=None, pushes=[])
    >>> store.close()
    """

    def __init__(self, folder: Path | None = None):
        self.durable = folder is not None
        self.error: Exception | None = None
        """What went wrong with the last transaction; nothing is written until `mend`."""
        self._commits = 0
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
        self.submit(changes, lambda error: done.set_result(None) if error is None else done.set_exception(error))
        done.result()

    def read(self, model: str, names: Iterable[str]) -> dict[str, Kept]:
        """Those of the streams that are in the store, after all that was submitted."""
        return self._call(lambda: {name: kept for name in names if (kept := self._find(model, name)) is not None})

    def known(self) -> list[tuple[int, str, str, str]]:
        """Of each stream its number, model, name and owner."""
        return self._call(lambda: self._database.execute("SELECT id, model, name, owner FROM streams").fetchall())

    def mend(self) -> None:
        """Go on after an error."""
        self._call(lambda: setattr(self, "error", None))

    def close(self) -> None:
        """Write what is waiting, and close the file."""
        self._call(self._database.close)
        self._work.put(None)
        self._thread.join()

    @property
    def commits(self) -> int:
        """Transactions so far."""
        return self._commits

    def _call(self, function: Callable[[], Any]) -> Any:
        done: Future = Future()
        self._work.put((function, done))
        return done.result()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            group, after = [], None
            while item is not None:  # everything that waits, up to the next question
                if isinstance(item[1], Future):
                    after = item
                    break
                group.append(item)
                item = None if self._work.empty() else self._work.get()
                if item is None:
                    break
            if group:
                self._commit(group)
            if after is not None:
                function, done = after
                try:
                    done.set_result(function())
                except Exception as error:
                    done.set_exception(error)

    def _commit(self, group: list) -> None:
        if self.error is None:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                for sql, alike in groupby((one for changes, _ in group for one in changes), lambda one: one[0]):
                    self._database.executemany(sql, [parameters for _, parameters in alike])
                self._database.execute("COMMIT")
                self._commits += 1
            except Exception as error:
                self.error = error
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
        for _, then in group:
            then(self.error)

    def _find(self, model: str, name: str) -> Kept | None:
        found = self._database.execute(
            "SELECT id, seq, state FROM streams WHERE model = ? AND name = ?", (model, name)
        ).fetchone()
        if found is None:
            return None
        rows = self._database.execute("SELECT seq, data FROM points WHERE id = ? ORDER BY seq", found[:1]).fetchall()
        return Kept(found[0], rows[-1][0] if rows else found[1], found[2], [unpacked(data) for _, data in rows])


def _opened(folder: Path | None) -> sqlite3.Connection:
    if folder is None:
        place = ":memory:"
    else:
        folder.mkdir(parents=True, exist_ok=True)
        place = str(folder / "streams.sqlite")
    database = sqlite3.connect(place, check_same_thread=False, isolation_level=None, timeout=2)
    try:
        # No other process may write: two services on one folder would each believe their own streams.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _FORMAT):
            raise ValueError(
                f"Got {place} in the format {version}; expected {_FORMAT}. A newer neuralrde wrote it: use that, or "
                "another folder."
            )
        database.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {_FORMAT};COMMIT;")
    except sqlite3.Error as error:
        database.close()
        if "locked" in str(error):
            raise ValueError(
                f"Got the folder {folder}, which another service is using; expected one of its own. Stop that one, or "
                "name another folder."
            ) from None
        raise ValueError(
            f"Got {place}, which is no file of streams ({error}); expected one that the service made. Name another "
            "folder."
        ) from None
    return database


_HEAD = struct.Struct("<IIB")


def packed(values: np.ndarray, times: np.ndarray | None) -> bytes:
    """Points as bytes.

    >>> values, times = unpacked(packed(np.array([[1.0, np.nan]]), np.array([0.5])))
    >>> values.tolist(), times.tolist()
    ([[1.0, nan]], [0.5])
    """
    body = np.ascontiguousarray(values, "<f8").tobytes()
    tail = b"" if times is None else np.ascontiguousarray(times, "<f8").tobytes()
    return _HEAD.pack(*values.shape, times is not None) + body + tail


def unpacked(data: bytes) -> tuple[np.ndarray, np.ndarray | None]:
    """What `packed` was given."""
    count, channels, timed = _HEAD.unpack_from(data)
    values = np.frombuffer(data, "<f8", count * channels, _HEAD.size).reshape(count, channels)
    times = np.frombuffer(data, "<f8", count, _HEAD.size + 8 * count * channels) if timed else None
    return values, times
