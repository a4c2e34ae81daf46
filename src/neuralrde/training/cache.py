"""Log-signatures are computed once: a cache by content, depth, cuts, scales and basis, in memory and on disk."""

import os
import threading
import warnings
from collections import OrderedDict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._write import private_folder
from ..paths import cuts_by_count
from ..paths.windows import depths_of
from ..signatures import Basis, log_signatures
from .archive import FileRefused, read_archive, write_archive

_FORMAT = 2


class LogSignatureCache:
    """Is called like `log_signatures` and computes nothing twice. Threads may share a cache.

    The key is a hash of the path's bytes and of all that decides the result, so that a changed path is never
    mistaken for the old one.

    >>> cache, path = LogSignatureCache(), np.random.default_rng(0).normal(size=(4, 100, 3))
    >>> cache(path, 2, step=10) is cache(path.copy(), 2, step=10)
    True

    Args:
        size: bytes to keep in memory; the least recently used are forgotten first, and what is larger is not kept.
        folder: where to keep them on disk too, from run to run; None keeps nothing there.
    """

    def __init__(self, *, size: int = 2**30, folder: str | os.PathLike | None = None):
        self.size = size
        self.folder = None if folder is None else Path(folder)
        self._kept: OrderedDict[str, np.ndarray] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __call__(
        self,
        path: Float[np.ndarray, "*batch length channels"],
        depth: int | tuple[int, ...],
        *,
        step: int | None = None,
        cuts: Int[np.ndarray, "*samples cuts"] | None = None,
        scales: tuple[int, ...] = (1,),
        basis: Basis = "words",
    ) -> Float[np.ndarray, "*batch windows log_signature"]:
        """The log-signatures, read-only."""
        if cuts is None and step is not None:
            cuts = cuts_by_count(path.shape[-2], step)
        key = _key(path, depth, cuts, scales, basis)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        # Not under the lock: others need not wait for what they have not asked for.
        windows = 1 if cuts is None else np.shape(cuts)[-1] - 1
        found = self._from_disk(key, (*path.shape[:-2], windows))
        if found is None:
            found = np.asarray(log_signatures(path, depth, cuts=cuts, scales=scales, basis=basis))
            self._to_disk(key, found)
        found.flags.writeable = False
        return self._keep(key, found)

    def _keep(self, key: str, array: np.ndarray) -> np.ndarray:
        if array.nbytes > self.size:
            return array
        with self._lock:
            if key in self._kept:  # another thread was quicker
                return self._kept[key]
            self._kept[key] = array
            self._bytes += array.nbytes
            while self._bytes > self.size:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return array

    def _from_disk(self, key: str, shape: tuple[int, ...]) -> np.ndarray | None:
        if self.folder is None:
            return None
        try:
            header, arrays = read_archive(self.folder / key, "log-signatures", format=_FORMAT)
            found = arrays["log_signatures"]
        except (OSError, FileRefused, KeyError):  # a damaged file is computed and written again
            return None
        return found if header.get("key") == key and found.shape[:-1] == shape else None

    def _to_disk(self, key: str, array: np.ndarray) -> None:
        if self.folder is None:
            return
        try:
            private_folder(self.folder)
            arrays = {"log_signatures": array}
            write_archive(self.folder / key, "log-signatures", format=_FORMAT, header={"key": key}, arrays=arrays)
        except OSError as error:  # what was computed is not lost
            warnings.warn(f"Log-signatures could not be kept in {str(self.folder)!r} ({error}).", stacklevel=4)


def _key(path: np.ndarray, depth: Any, cuts: np.ndarray | None, scales: tuple[int, ...], basis: str) -> str:
    what = f"{path.dtype.str} {path.shape} {depths_of(depth, scales)} {scales} {basis}"
    digest = blake2b(what.encode(), digest_size=16)
    digest.update(np.ascontiguousarray(path).data)
    if cuts is not None:
        digest.update(f"{cuts.shape}".encode())
        digest.update(np.ascontiguousarray(cuts, dtype=np.int64).data)
    return digest.hexdigest()
