"""The compiled kernel in `kernel/`, C++ with SIMD over windows and threads over groups of them, called through ctypes.

It needs NumPy alone: `_kernel.py` tells JAX of it, `neuralrde.torch` PyTorch. The library is built when the package is
installed, and uses the widest vectors of the processor that it finds itself on; where it was not built, `available()`
is false.
"""

import ctypes
import functools
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .._cores import cores
from ..paths.checks import SMALL, check_fits, free_memory
from ._spans import Spans, WindowSpan
from .lyndon import log_signature_channels

MOST_DEPTH = 16  # of the C++ side
INTERFACE = 8  # of the library; one that was built from older sources would read other arguments than it is given


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None where it was not built or does not load."""
    if os.environ.get("NEURALRDE_KERNEL") == "off":
        return None
    folder, ending = Path(__file__).parent, "dll" if sys.platform == "win32" else "so"
    # A checkout that was built before 0.2 has a name with the version of Python in it.
    for path in (folder / f"_kernel_library.{ending}", *sorted(folder.glob(f"_kernel_library.*.{ending}"))):
        if path.exists():
            try:
                loaded = ctypes.CDLL(str(path))
                if loaded.neuralrde_interface() != INTERFACE:
                    return None
                loaded.neuralrde_workspace.restype = ctypes.c_double
                _declare(loaded, "workspace", numbers=4)
                for bits in (32, 64):
                    _declare(loaded, f"forward{bits}", arrays=3, numbers=10)
                    _declare(loaded, f"backward{bits}", arrays=4, numbers=10)
                    _declare(loaded, f"join{bits}", arrays=5, numbers=9)
            except (OSError, AttributeError):  # built for another machine, cut short, or from older sources
                return None
            return loaded
    return None


def _declare(loaded: ctypes.CDLL, name: str, *, arrays: int = 0, numbers: int) -> None:
    """What a function takes, so that plain integers serve as pointers and as 64-bit numbers."""
    getattr(loaded, f"neuralrde_{name}").argtypes = [ctypes.c_void_p] * arrays + [ctypes.c_int64] * numbers


def available(depth: int = 1) -> bool:
    """Whether the compiled kernel can be used."""
    return depth <= MOST_DEPTH and library() is not None


@functools.lru_cache(maxsize=256)
def workspace(channels: int, depth: int, backward: bool) -> float:
    """Bytes of each thread's workspace."""
    kernel: Any = library()
    return kernel.neuralrde_workspace(channels, depth, log_signature_channels(channels, depth), backward)


def fitting_threads(channels: int, depth: int, arrays: int, *, backward: bool = False) -> int:
    """How many threads there is memory for, beside `arrays` bytes of arguments and results; an error if for none."""
    space, threads = workspace(channels, depth, backward), cores()
    if arrays + threads * space <= SMALL:
        return threads
    if (free := free_memory() - arrays) >= space:
        return int(min(threads, free // max(space, 1)))
    what = f"the gradient of depth-{depth} log-signatures" if backward else f"depth-{depth} log-signatures"
    check_fits(
        arrays + space,
        f"With {log_signature_channels(channels, depth):,} channels each, {what} of a path of {channels} channels "
        "and one thread's workspace",
        "Take a smaller depth or fewer channels.",
    )
    return 1


def words_of_numpy(path: np.ndarray, spans: Spans, depth: int) -> tuple[np.ndarray, bool]:
    """Log-signatures in the words basis, and whether they are all finite."""
    *batch, length, channels = path.shape
    path, table = np.ascontiguousarray(path), np.ascontiguousarray(spans.table, np.int64)
    samples, rows = (math.prod(shape) for shape in (batch, table.shape[:-1]))
    shape = (*batch, spans.windows, log_signature_channels(channels, depth))
    threads = fitting_threads(channels, depth, path.itemsize * math.prod(shape))
    out = np.empty(shape, path.dtype)
    if out.size == 0:
        return out, True
    call = getattr(library(), f"neuralrde_forward{8 * path.itemsize}")
    windows = (rows, table.shape[-1], spans.windows, spans.dilation)
    sizes = (samples, length, channels, *windows, out.shape[-1], depth, threads)
    status = call(path.ctypes.data, table.ctypes.data, out.ctypes.data, *sizes)
    check_status(status, channels, depth)
    return out, status == 0


def check_status(status: int, channels: int, depth: int) -> None:
    if status == 2:
        raise MemoryError(
            f"Not enough memory left to follow a path of {channels} channels at depth {depth}. Take a smaller depth, "
            "fewer channels, or the series in parts."
        )


def joins(wanted: list[WindowSpan]) -> bool:
    """Whether the library can join pieces of these depths, and so many kinds of runs at once."""
    return max(one.depth for one in wanted) <= 3 and len(wanted) < 60


def runs_of_numpy(pieces: np.ndarray, wanted: list[WindowSpan], channels: int) -> tuple[np.ndarray, bool]:
    """`join_pieces` up to depth 3, and whether they are all finite."""
    *batch, count, words = pieces.shape
    last, rows = wanted[0].last, math.prod(wanted[0].last.shape[:-1])
    pieces, last = np.ascontiguousarray(pieces), np.ascontiguousarray(last, np.int64)
    counts, depths = np.stack([one.count for one in wanted]).astype(np.int64), np.array([one.depth for one in wanted])
    total = sum(log_signature_channels(channels, one.depth) for one in wanted)
    out = np.empty((*batch, last.shape[-1], total), pieces.dtype)
    if out.size == 0:
        return out, True
    call = getattr(library(), f"neuralrde_join{8 * pieces.itemsize}")
    sizes = (math.prod(batch), count, last.shape[-1], channels, words, total, rows, len(wanted), cores())
    status = call(*(array.ctypes.data for array in (pieces, out, last, counts, depths)), *sizes)
    check_status(status, channels, int(depths.max()))
    return out, status == 0
