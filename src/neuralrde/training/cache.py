"""Log-signatures are computed once: a cache by content, depth, cuts, scales and basis."""

import threading
from collections import OrderedDict
from hashlib import blake2b

import numpy as np
from jaxtyping import Float, Int

from ..paths import cuts_by_count
from ..paths.windows import depths_of
from ..signatures import Basis, log_signatures


class LogSignatureCache:
    """Is called like `log_signatures` and computes nothing twice. Threads may share a cache.

    The key is a hash of the path's bytes and of all that decides the result, so that a changed path is never
    mistaken for the old one.

    >>> cache, path = LogSignatureCache(), np.random.default_rng(0).normal(size=(4, 100, 3))
    >>> cache(path, 2, step=10) is cache(path.copy(), 2, step=10)
    True

    Args:
        size: bytes to keep in memory; the least recently used are forgotten first, and what is larger is not kept.
    """

    def __init__(self, *, size: int = 2**30):
        self.size = size
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
        what = f"{path.dtype.str} {path.shape} {depths_of(depth, scales)} {scales} {basis}"
        digest = blake2b(what.encode(), digest_size=16)
        digest.update(np.ascontiguousarray(path).data)
        if cuts is not None:
            digest.update(f"{cuts.shape}".encode())
            digest.update(np.ascontiguousarray(cuts, dtype=np.int64).data)
        key = digest.hexdigest()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        # Not under the lock: others need not wait for what they have not asked for.
        found = np.asarray(log_signatures(path, depth, cuts=cuts, scales=scales, basis=basis))
        found.flags.writeable = False
        if found.nbytes > self.size:
            return found
        with self._lock:
            if key in self._kept:  # another thread was quicker
                return self._kept[key]
            self._kept[key] = found
            self._bytes += found.nbytes
            while self._bytes > self.size:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return found
