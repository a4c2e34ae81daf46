"""Shards that are open to be read, and what is said of files that cannot be."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from .place import Place

# Files of shards that are open at once.
_OPEN = 128


class StoreError(ValueError):
    """A store that is not whole, or damaged: the sentence says which file."""


def shard_name(number: int) -> str:
    """Computed, never read: what a store says must not choose which files are read and written."""
    return f"shards/{number:05d}.npy"


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
            try:
                self._open[number] = os.open(self.place.local(shard_name(number), self.cache), os.O_RDONLY)
            except FileNotFoundError:
                raise self.damaged(number, "it is not there") from None
            if os.fstat(self._open[number]).st_size != shard["size"]:
                os.close(self._open.pop(number))
                raise self.damaged(number, "it has another size than when it was written")
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
                    raise self.damaged(number, "it ends before its last series")

    def verify(self, number: int) -> None:
        """Read a whole shard and compare its checksum."""
        shard, digest = self.manifest["shards"][number], blake2b(digest_size=16)
        start = shard["start"]
        with self._lock:
            while data := os.pread(self.descriptor(number), 2**22, start):
                digest.update(data)
                start += len(data)
        if digest.hexdigest() != shard["digest"]:
            raise self.damaged(number, OTHER)

    def damaged(self, number: int, what: str) -> StoreError:
        """What is said of a shard; a copy of it is removed, so that the next to ask gets it from where it is whole."""
        if self.place.remote:
            (self.cache / shard_name(number)).unlink(missing_ok=True)
        return damaged(self.place, shard_name(number), what)

    def close(self) -> None:
        with self._lock:
            while self._open:
                os.close(self._open.popitem()[1])

    def __del__(self):
        self.close()

    def __reduce__(self):
        return ShardFiles, (self.place, self.manifest, self.cache)


OTHER = "its checksum is another than when it was written"


def damaged(place: Place, name: str, what: str) -> StoreError:
    return StoreError(
        f"{place.root}/{name} is damaged: {what}. Remove the store and prepare it again, or copy this file from where "
        "it is whole."
    )
