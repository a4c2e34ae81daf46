"""Say how large a thing would be before it is allocated."""

import contextlib
import os
import sys
from pathlib import Path

# Always there, and asked for so often that looking would take longer than the work.
SMALL = 2**24


def check_fits(size: float, what: str, instead: str) -> None:
    """Raise a MemoryError if `size` bytes are more than are free, because the system may kill who asks for them.

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
