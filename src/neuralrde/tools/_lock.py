"""A lock on a folder, for as long as a process lives: the kernel releases it however the process ends."""

import contextlib
import os
import sys
from pathlib import Path


class Locked(Exception):
    """Another process holds the lock; its text says which."""


class Lock:
    """Held from here until `release`, or until this process ends.

    Without `flock` (on Windows) nothing is locked.
    """

    def __init__(self, file: Path):
        self.file = file
        while True:
            self._handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644 & file.parent.stat().st_mode)
            if not _try_lock(self._handle):
                holder = _reads(self._handle)
                os.close(self._handle)
                raise Locked(holder)
            if _is_at(self._handle, file):
                break
            os.close(self._handle)  # its last owner removed it after we had opened it
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"process {os.getpid()}".encode())

    def release(self) -> None:
        """Remove the file while it is still ours, then let go."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):  # Windows removes no open file
                self.file.unlink()
            os.close(self._handle)
            self._handle = -1

    @staticmethod
    def owner(file: Path) -> str | None:
        """Who holds a lock; None if nobody does."""
        try:
            handle = os.open(file, os.O_RDWR)
        except OSError:
            return None
        try:
            return None if _try_lock(handle) else _reads(handle)
        finally:
            os.close(handle)


def _reads(handle: int) -> str:
    return os.pread(handle, 100, 0).decode(errors="replace") or "another process"


def _is_at(handle: int, file: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(file))
    return False


if sys.platform == "win32":

    def _try_lock(handle: int) -> bool:
        return True

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system that has no locks: then there are none
            return True
        return True
