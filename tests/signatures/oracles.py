"""Log-signatures by other people's code, window by window."""

import iisignature
import numpy as np
import pysiglib


def windows_of(path: np.ndarray, step: int):
    for start in range(0, max(len(path) - 1, 1), step):
        yield slice(start, start + step + 1)


def by_iisignature(path: np.ndarray, depth: int, step: int, basis: str) -> np.ndarray:
    """Brackets ("S") and expanded ("X") coordinates; it knows no paths of one channel."""
    method = {"brackets": "S", "expanded": "X"}[basis]
    prepared = iisignature.prepare(path.shape[-1], depth, method)
    return np.stack([iisignature.logsig(path[window], prepared, method) for window in windows_of(path, step)])


def by_pysiglib(path: np.ndarray, depth: int, step: int, basis: str) -> np.ndarray:
    method = {"expanded": 0, "words": 1, "brackets": 2}[basis]
    pysiglib.prepare_log_sig(path.shape[-1], depth, method)
    windows = [path[window].copy() for window in windows_of(path, step)]  # it warns of views
    return np.stack([pysiglib.log_sig(window, depth, method=method) for window in windows])
