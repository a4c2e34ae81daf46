"""Checks of parameters and of memory, before a mistake can become a wrong number or an endless wait."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from ..errors import ParameterError


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a real number; True and False are none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_whole(
    name: str, value: Any, *, low: int = 1, high: float = 2**20, also: tuple = (), because: str = ""
) -> None:
    """Raise unless it is a whole number in a range, or one of a few other things."""
    if isinstance(value, str | None) and value in also:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        others = "".join(f", or {other!r}" for other in also)
        span = f"of at least {low}" if high == np.inf else f"from {low} to {high}"
        raise ParameterError(name, value, f"a whole number {span}{others}", because)


def check_number(
    name: str,
    value: Any,
    *,
    low: float = 0.0,
    high: float = np.inf,
    above: bool = False,
    finite: bool = False,
    also: tuple = (),
    because: str = "",
) -> None:
    """Raise unless it is a number in a range; with `above`, larger than `low`, and not `low` itself."""
    if value is None and None in also:
        return
    inside = is_number(value) and low <= value <= high and not (above and value == low)
    if not inside or (finite and value in (np.inf, -np.inf)):
        others = "".join(f", or {other!r}" for other in also)
        span = "a finite number" if finite else "a number"
        if high != np.inf:
            span += f" from {low:g} to {high:g}"
        elif low != -np.inf:
            span += f" above {low:g}" if above else f" of at least {low:g}"
        raise ParameterError(name, value, f"{span}{others}", because)


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool):
        raise ParameterError(name, value, "True or False")


# Always there, and asked for so often that looking would take longer than the work.
SMALL = 2**24


def check_fits(size: float, what: str, instead: str) -> None:
    """Raise a MemoryError if `size` bytes are more than are free, because the system may kill the process that asks.

    Args:
        size: how many bytes would be taken.
        what: the subject of the sentence, in the plural.
        instead: a sentence that says what to do.
    """
    if size > SMALL and size > (free := free_memory()):
        raise MemoryError(
            f"{what} need {size / 2**30:,.1f} GiB; this machine has {free / 2**30:,.1f} GiB free. {instead}"
        )


def free_memory() -> int:
    """How many bytes this process may still take: of the machine, its container and its own limit."""
    limits = [2**63]
    with contextlib.suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ValueError, OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(ValueError, OSError):  # no such file, or the word "max"
            limits.append(int(Path(file).read_text()))
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            with contextlib.suppress(ValueError, OSError):
                taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
                limits.append(max(0, limit - taken))
    return min(limits)
