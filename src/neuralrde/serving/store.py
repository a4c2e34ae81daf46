"""Where streams are kept: SQLite, with one transaction for many streams.

A batch of pushes is one row of the log, which is little to write. From time to time a stream's state is written. When
the store is opened, what a log has that no state stands for becomes rows of points, found by stream. A stream comes
back from its last state and these. With a folder, nothing is acknowledged before its transaction is on the disk
(write-ahead log, `synchronous=FULL`); without one, states of streams that rest are kept in memory.
"""

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from .journal import packed, unpacked

_SCHEMA = """
CREATE TABLE IF NOT EXISTS streams (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL,
    seq INTEGER NOT NULL, state BLOB, UNIQUE (model, name));
CREATE TABLE IF NOT EXISTS points (
    id INTEGER NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (id, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (row INTEGER PRIMARY KEY, data BLOB NOT NULL);
"""
_FORMAT = 2
OPEN = "INSERT INTO streams (id, model, name, owner, seq, state) VALUES (?, ?, ?, ?, 0, NULL)"
LOG = "INSERT INTO log (row, data) VALUES (?, ?)"
TRIM_LOG = "DELETE FROM log WHERE row <= ?"
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

    def mend(self) -> bool:
        """Go on after an error, if that is possible; streams then come back as they were acknowledged."""
        return self._call(self._mended)

    def _mended(self) -> bool:
        try:
            _fold(self._database)
            self.error = None
        except sqlite3.Error as error:
            self.error = error
        return self.error is None

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
                with _transaction(self._database):
                    for sql, alike in groupby((one for changes, _ in group for one in changes), lambda one: one[0]):
                        self._database.executemany(sql, [parameters for _, parameters in alike])
                self._commits += 1
            except Exception as error:
                self.error = error
        for _, then in group:
            then(self.error)

    def _find(self, model: str, name: str) -> Kept | None:
        found = self._database.execute(
            "SELECT id, seq, state FROM streams WHERE model = ? AND name = ?", (model, name)
        ).fetchone()
        if found is None:
            return None
        rows = self._database.execute("SELECT seq, data FROM points WHERE id = ? ORDER BY seq", found[:1]).fetchall()
        pushes = [(push.values, push.times) for _, data in rows for push in unpacked(data)]
        return Kept(found[0], rows[-1][0] if rows else found[1], found[2], pushes)


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
                f"Got {place} in the format {version}; expected {_FORMAT}. Another version of neuralrde wrote it: use "
                "that, or another folder."
            )
        database.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {_FORMAT};COMMIT;")
        _fold(database)
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


def _fold(database: sqlite3.Connection) -> None:
    """What the log has and no state stands for, as rows by stream; the log starts anew."""
    with _transaction(database):
        written = dict(database.execute("SELECT id, seq FROM streams"))
        for [data] in database.execute("SELECT data FROM log ORDER BY row"):
            rows = [(p.id, p.seq, packed([p])) for p in unpacked(data) if p.seq > written.get(p.id, p.seq)]
            database.executemany("INSERT OR REPLACE INTO points (id, seq, data) VALUES (?, ?, ?)", rows)
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
