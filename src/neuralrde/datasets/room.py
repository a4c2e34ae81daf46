"""Say how large a data set would be before it is allocated."""

import os

from .errors import ReadError


def check_room(size: float, file: object, what: str, instead: str = "") -> None:
    """Refuse to read `file` if `size` bytes are more than this machine has."""
    if size > (limit := _memory()):
        gib = f"{size / 2**30:,.1f} GiB; this machine has {limit / 2**30:,.1f} GiB."
        raise ReadError(file, f"{what} would need {gib} {instead}".rstrip())


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 2**63
