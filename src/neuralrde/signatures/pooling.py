"""How many windows of a series lie above thresholds, or win contests, for many linear maps of their log-signatures."""

import ctypes

import numpy as np
from jaxtyping import Float, Int

from .._cores import cores
from . import _kernel

GROUP = 8  # maps of a contest
_LANES = 16  # of the kernel's widest vectors: it works on so many maps at once
_MOST_THRESHOLDS = 8
# Without the kernel: numbers that are made at once, for memory.
_PIECE = 4_000_000


def count_above(
    log_signatures: Float[np.ndarray, "samples windows words"],
    maps: Float[np.ndarray, "words maps"],
    thresholds: Float[np.ndarray, "thresholds maps"],
    *,
    windows: Int[np.ndarray, "samples"] | None = None,
) -> Int[np.ndarray, "samples thresholds maps"]:
    """For each map of the log-signatures and each of its thresholds, the number of windows above it.

    Counts can be added: those of a series are the sum of those of its parts, so a stream can keep them.

    Args:
        windows: each sample's own number of windows, the first ones; None counts all.

    >>> logs = np.array([[[1.0], [2.0], [3.0]]], np.float32)
    >>> count_above(logs, np.array([[1.0, -1.0]], np.float32), np.array([[1.5, -1.5]], np.float32)).tolist()
    [[[2, 1]]]
    """
    if not 1 <= len(thresholds) <= _MOST_THRESHOLDS:
        raise ValueError(f"Got {len(thresholds)} thresholds per map; expected 1 to {_MOST_THRESHOLDS}.")
    own = _own(log_signatures, windows)
    if _kernel.available():
        return _count(log_signatures, maps, thresholds, own)
    thresholds = np.asarray(thresholds, np.float32)
    return _by_pieces(log_signatures, maps, own, lambda values: values[:, :, None] > thresholds)


def count_winners(
    log_signatures: Float[np.ndarray, "samples windows words"],
    maps: Float[np.ndarray, "words maps"],
    *,
    windows: Int[np.ndarray, "samples"] | None = None,
) -> Int[np.ndarray, "samples 2 maps"]:
    """For each map, the number of windows in which it is the largest of its group of eight, and the smallest.

    Where maps are equal, all of them win. (Dempster, Schmidt and Webb 2023, HYDRA, let convolutions compete so.)

    Args:
        windows: each sample's own number of windows, the first ones; None counts all.

    >>> logs = np.array([[[1.0], [-1.0], [2.0]]], np.float32)
    >>> count_winners(logs, np.arange(8, dtype=np.float32)[None]).tolist()
    [[[1, 0, 0, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 0, 0, 1]]]
    """
    if maps.shape[1] % GROUP:
        raise ValueError(f"Got {maps.shape[1]} maps; expected groups of {GROUP}, because maps compete in groups.")
    own = _own(log_signatures, windows)
    if _kernel.available():
        return _count(log_signatures, maps, None, own)

    def winners(values: np.ndarray) -> np.ndarray:
        groups = values.reshape(*values.shape[:2], -1, GROUP)
        found = [groups == groups.max(axis=-1, keepdims=True), groups == groups.min(axis=-1, keepdims=True)]
        return np.stack([one.reshape(values.shape) for one in found], axis=2)

    return _by_pieces(log_signatures, maps, own, winners)


def _own(logs: np.ndarray, windows: np.ndarray | None) -> Int[np.ndarray, "samples"]:
    own = np.full(len(logs), logs.shape[1]) if windows is None else np.asarray(windows)
    if (own < 0).any() or (own > logs.shape[1]).any():
        raise ValueError(f"Got windows from {own.min()} to {own.max()}; expected 0 to {logs.shape[1]}, as there are.")
    return np.ascontiguousarray(own, np.int64)


def _count(logs: np.ndarray, maps: np.ndarray, thresholds: np.ndarray | None, own: np.ndarray) -> np.ndarray:
    """By the kernel, which takes whole vectors of maps."""
    samples, windows, words = logs.shape
    width, rows = -(-maps.shape[1] // _LANES) * _LANES, 2 if thresholds is None else len(thresholds)
    padded = np.zeros((words, width), np.float32)
    padded[:, : maps.shape[1]] = maps
    at = np.zeros((rows, width), np.float32)
    if thresholds is not None:
        at[:, : maps.shape[1]] = thresholds
    logs = np.ascontiguousarray(logs, np.float32)
    counts = np.empty((samples, rows, width), np.int32)
    if counts.size:
        pointer = lambda array: ctypes.c_void_p(array.ctypes.data)
        arrays = (logs, own, padded, None if thresholds is None else at, counts)
        pointers = [None if array is None else pointer(array) for array in arrays]
        sizes = map(ctypes.c_int64, (samples, windows, words, width, rows, cores()))
        if _kernel.library().neuralrde_count(*pointers, *sizes):  # type: ignore
            raise MemoryError("Not enough memory left to count windows.")
    return counts[..., : maps.shape[1]]


def _by_pieces(logs: np.ndarray, maps: np.ndarray, own: np.ndarray, compare) -> np.ndarray:
    """By NumPy, where there is no kernel."""
    counts = []
    rows = max(1, _PIECE // max(1, logs.shape[1] * maps.shape[1] * _MOST_THRESHOLDS))
    for start in range(0, len(logs), rows):
        values = np.asarray(logs[start : start + rows], np.float32) @ np.asarray(maps, np.float32)
        valid = np.arange(logs.shape[1]) < own[start : start + rows, None]
        counts.append((compare(values) & valid[:, :, None, None]).sum(axis=1, dtype=np.int32))
    return np.concatenate(counts)
