"""Say how large a thing would be before it is allocated."""

import os


def check_fits(size: float, what: str, instead: str) -> None:
    """Raise if `size` bytes are more than this machine has."""
    if size > (limit := _memory()):
        raise MemoryError(f"{what} need {size / 2**30:,.1f} GiB; this machine has {limit / 2**30:,.1f} GiB. {instead}")


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 2**63
