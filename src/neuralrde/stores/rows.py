"""A piece of a long table: rows of points, one series after the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

# Bytes of a piece, as float64. It stays in memory while it is looked at.
PIECE = 2**24


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a source.

    `begins` marks rows whose id differs from that of the row before; of the first row only who has seen the row before
    knows. What is said of series (`ids`, `target`, `groups`) is given for those rows alone, the first one included.
    """

    values: Float[np.ndarray, "rows channels"]
    times: Float[np.ndarray, "rows"] | None
    begins: Bool[np.ndarray, "rows"]
    ids: np.ndarray
    target: np.ndarray | None = None
    """`(series,)` text, or `(series, targets)` numbers."""
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.begins)


@runtime_checkable
class RowSource(Protocol):
    """A set of series that is read in blocks, in order, and any block alone. It can be pickled."""

    files: list[str]
    channels: tuple[str, ...]
    timed: bool
    target: tuple[str, ...]
    group: str | None

    @property
    def blocks(self) -> int:
        """How many there are."""
        ...

    def read(self, block: int, *, about_series: bool, values: bool) -> Iterator[Rows]:
        """The rows of a block in pieces of bounded size.

        Args:
            block: its number.
            about_series: whether ids, targets and groups are wanted, and are to be checked.
            values: whether the channels are wanted; without them `Rows.values` has no columns.
        """
        ...

    def described(self) -> dict[str, Any]:
        """What of it decides what is made of its files, as plain values."""
        ...


def piece_rows(channels: int) -> int:
    """Rows in a piece."""
    return max(1024, PIECE // (8 * max(1, channels)))


class SourceError(ValueError):
    """Data that cannot be prepared: the sentence says where and why."""
