"""How many cores this process may use: one count for the kernel's threads, JAX's devices and files of results."""

import functools
import math
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

# How many cores a process may use at most, where several share a machine: a sweep sets it for its workers.
CORES = "NEURALRDE_CORES"


def cores() -> int:
    """The cores that this process may use: those of its affinity, at most the quota of its control groups.

    A container with 2 CPUs on a machine with 32 cores sees all 32 of them; only the quota says 2. A process that shares
    the machine with others of its kind takes its share, see `share`.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(allowed, _quota(), share(os.environ, multiprocessing.current_process().name))))


def share(environment: Mapping[str, str], process: str) -> float:
    """The share of a process that others run beside: `NEURALRDE_CORES`, or what joblib gives its workers.

    joblib (`GridSearchCV(n_jobs=...)`) limits the threads of BLAS and OpenMP in the workers that it starts, so that
    all together use each core once. In these processes the limit is meant for us too. Elsewhere `OMP_NUM_THREADS` is
    often set for reasons of its own, and does not count.

    >>> share({"NEURALRDE_CORES": "3"}, "MainProcess"), share({"OMP_NUM_THREADS": "1"}, "LokyProcess-2")
    (3.0, 1.0)
    >>> share({"OMP_NUM_THREADS": "1"}, "MainProcess")
    inf
    """
    text = environment.get(CORES, "")
    if not text and process.startswith("LokyProcess"):
        text = environment.get("OMP_NUM_THREADS", "")
    return float(text) if text.isdecimal() and int(text) > 0 else math.inf


@functools.cache
def _quota() -> float:
    return quota(Path("/"))


def quota(root: Path) -> float:
    """The least quota of this process's control groups and their parents, rounded up to whole cores.

    Infinity where there is none. `root` is the root of the file system, for tests.

    Both versions of control groups are read: `cpu.max` and `cpu.cfs_quota_us`. Inside a container the group's own
    folder is often mounted as the root of all groups, so the root counts even where the group is not found below it.
    """
    limits = [math.inf]
    for folder in _group_folders(root):
        maximum, period = _words(folder / "cpu.max"), _words(folder / "cpu.cfs_period_us")
        words = maximum if len(maximum) == 2 else [*_words(folder / "cpu.cfs_quota_us"), *period]
        if len(words) == 2 and all(word.isdecimal() and int(word) > 0 for word in words):  # not "max", not -1
            limits.append(math.ceil(int(words[0]) / int(words[1])))
    return min(limits)


def _group_folders(root: Path) -> Iterator[Path]:
    """The folders of the group that shares out processor time, and of its parents."""
    groups = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):  # "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "none", "/")
        mounts = {"": ("", "unified")}.get(controllers, (controllers, "cpu") if "cpu" in controllers.split(",") else ())
        inside = PurePosixPath(path.lstrip("/"))
        for mount in mounts:
            yield from (groups / mount / folder for folder in (inside, *inside.parents))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):  # another system, or not ours to read
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()
