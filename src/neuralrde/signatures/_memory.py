"""Say how large a thing would be before it is allocated."""

import functools
import os
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows
    resource = None


def check_fits(size: float, what: str, instead: str) -> None:
    """Raise if `size` bytes are more than this process may have."""
    if size > (limit := memory()):
        size, limit = (f"{bytes / 2**30:,.1f}" if bytes < 2**60 else "far too many" for bytes in (size, limit))
        raise MemoryError(f"{what} need {size} GiB; this machine has {limit} GiB. {instead}")


def memory() -> int:
    """The bytes that this process may have: the machine's, or what its container or `ulimit -v` leaves of them."""
    return min(_machine(), _address_space())


@functools.cache
def _machine() -> int:
    """The machine's memory, or its container's."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (ValueError, OSError, AttributeError):
        limits = [2**63]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # no container, or one without a limit ("max")
            continue
    return min(limit for limit in limits if limit > 0)


def _address_space() -> int:
    if resource is None:
        return 2**63
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return 2**63 if limit == resource.RLIM_INFINITY else limit
