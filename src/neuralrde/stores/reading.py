"""Shards that are open to be read, and what is said of those that cannot be."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .place import Place

# Files of shards that are open at once.
_OPEN = 128


class StoreError(ValueError):
    """A store that is not whole, or damaged: the sentence says which file."""


class ShardFiles:
    """Shards that are open, the least recently used of which is closed. Threads share them."""

    def __init__(self, place: Place, manifest: dict[str, Any], cache: Path):
        self.place, self.manifest, self.cache = place, manifest, cache
        self._open: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()

    def descriptor(self, number: int) -> int:
        """Of a shard; see `read`, which holds the lock."""
        if number not in self._open:
            shard = self.manifest["shards"][number]
            path = self.place.local(shard["file"], self.cache)
            try:
                self._open[number] = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                raise damaged(path, "it is not there") from None
            if os.fstat(self._open[number]).st_size != shard["size"]:
                raise damaged(path, "it has another size than when it was written")
            if len(self._open) > _OPEN:
                os.close(self._open.popitem(last=False)[1])
        self._open.move_to_end(number)
        return self._open[number]

    def read(self, places: Sequence[tuple[int, int, np.ndarray]]) -> None:
        """Fill arrays from places in shards: of each its number and the first byte.

        Reads, and not a memory map: pages of a map that have been touched would count as memory of the process, and a
        file that is cut short would end it.
        """
        with self._lock:
            for number, start, array in places:
                if hasattr(os, "posix_fadvise"):  # the disk can begin with all of them
                    os.posix_fadvise(self.descriptor(number), start, array.nbytes, os.POSIX_FADV_WILLNEED)
            for number, start, array in places:
                if array.nbytes and os.preadv(self.descriptor(number), [array], start) != array.nbytes:  # type: ignore
                    path = self.place.local(self.manifest["shards"][number]["file"], self.cache)
                    raise damaged(path, "it ends before its last series")

    def close(self) -> None:
        with self._lock:
            while self._open:
                os.close(self._open.popitem()[1])

    def __del__(self):
        self.close()

    def __reduce__(self):
        return ShardFiles, (self.place, self.manifest, self.cache)


def damaged(path: Any, what: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {what}. Remove the store and prepare it again, or copy this file from where it is whole."
    )
