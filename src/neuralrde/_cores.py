"""How many cores this process may use: one count for the kernel's threads, JAX's devices and files of results."""

import functools
import math
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# How many cores a process may use at most, where several share a machine: a sweep sets it for its workers.
CORES = "NEURALRDE_CORES"


def cores() -> int:
    """The cores that this process may use: those of its affinity, at most the quota of its container.

    A container with 2 CPUs on a machine with 32 cores sees all 32 of them; only the quota says 2. A process that shares
    the machine with others of its kind takes its share, see `share`.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(allowed, _quota(), share(os.environ, multiprocessing.current_process().name))))


def share(environment: Mapping[str, str], process: str) -> float:
    """The share of a process that others run beside: `NEURALRDE_CORES`, or what joblib gives its workers.

    joblib (`GridSearchCV(n_jobs=...)`) limits the threads of its workers by `OMP_NUM_THREADS`. Elsewhere that is often
    set for reasons of its own, and does not count.

    >>> share({"NEURALRDE_CORES": "3"}, "MainProcess"), share({"OMP_NUM_THREADS": "1"}, "LokyProcess-2")
    (3.0, 1.0)
    >>> share({"OMP_NUM_THREADS": "1"}, "MainProcess")
    inf
    """
    text = environment.get(CORES, "")
    if not text and process.startswith("LokyProcess"):
        text = environment.get("OMP_NUM_THREADS", "")
    return float(text) if text.isdecimal() and int(text) > 0 else math.inf


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Inside, this process takes no more cores than that; below 1, as many as outside."""
    before = os.environ.get(CORES)
    if count > 0:
        os.environ[CORES] = str(min(count, cores()))
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(CORES, None)
        else:
            os.environ[CORES] = before


@functools.cache
def _quota() -> int:
    """What joblib finds: the quota of the control group that is mounted, as in a container."""
    import joblib

    return joblib.cpu_count()
