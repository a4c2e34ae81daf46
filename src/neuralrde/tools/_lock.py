"""Locks on files, which the kernel releases however a process ends."""

from pathlib import Path

from filelock import FileLock, Timeout


def lock(file: Path) -> FileLock:
    """A lock, held from here until `release` or until this process ends; `Timeout` if another process holds it."""
    held = FileLock(file, mode=0o600)
    held.acquire(blocking=False)
    return held


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock."""
    try:
        if file.exists():
            lock(file).release()
    except Timeout:
        return True
    return False
