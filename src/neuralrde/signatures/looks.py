"""Random looks at series: log-signatures of many windows of thinned-out mixtures of channels, and counts of them.

`estimators/random_features.py` says what looks are for, draws them, and learns their numbers. Here they are taken: by
the kernel, which follows one look at one series while both are in the cache, or by NumPy where there is no kernel.
"""

import ctypes
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._cores import cores
from . import _kernel
from ._log_signature import log_signatures
from .lyndon import log_signature_channels

GROUP = 8  # maps of a contest
MOST_THRESHOLDS = 8
# What a look looks at: series scaled as a whole, each series scaled by itself, or the changes from point to point.
SCALED, EACH, CHANGES = range(3)
# The columns of a plan.
KIND, DILATION, LAG, KEPT, SPAN = range(5)
# Depths of log-signatures of time and one channel, and of time and two: 7 and 13 numbers, less that of time alone.
DEPTHS = (4, 3)
WORDS = tuple(log_signature_channels(2 + i, depth) - 1 for i, depth in enumerate(DEPTHS))
MOST_WORDS = max(WORDS) + len(WORDS)  # with the values at which the window starts

Seen = tuple[Float[np.ndarray, "samples channels length"], ...]


class Looks(NamedTuple):
    """Looks and what they count; `estimators.random_features.RandomFeatures` has the same arrays."""

    plan: Int[Any, "draws 5"]
    """Kind, dilation, lag, channels kept (1 or 2) and span of windows, in points."""
    mixtures: Float[Any, "draws channels 2"]
    scales: Float[Any, "draws words"]
    maps: Float[Any, "draws words maps"]
    """Of scaled log-signatures."""
    thresholds: Float[Any, "draws thresholds all_maps"]
    """For each number of a log-signature itself, and then for each map."""
    rivals: Float[Any, "draws words rivals"]
    """Maps that compete, in groups of eight."""
    windows: int
    """At most so many per series and look, evenly apart."""

    def words(self, draw: int) -> int:
        """Numbers that a look sees of a window: its log-signature without time and, except of changes, its start."""
        kind, kept = (int(self.plan[draw, column]) for column in (KIND, KEPT))
        return WORDS[kept - 1] + (0 if kind == CHANGES else kept)

    @property
    def counts(self) -> list[int]:
        """Features of each look."""
        maps, thresholds = self.maps.shape[2], self.thresholds.shape[1]
        return [thresholds * (self.words(d) + maps) + 2 * self.rivals.shape[2] for d in range(len(self.plan))]


def log_signatures_of_look(
    looks: Looks, draw: int, seen: Seen, lengths: Int[np.ndarray, " samples"], most: int
) -> tuple[Float[np.ndarray, "samples windows words"], Int[np.ndarray, " samples"]]:
    """What a look sees of each of at most so many windows, and each series' own number of windows."""
    own = _own_windows(lengths, int(looks.plan[draw, SPAN]), most)
    if not _kernel.available():
        return _by_numpy(looks, draw, seen, lengths, most), own
    out = np.zeros((len(lengths), int(own.max()), looks.words(draw)), np.float32)
    one = Looks(looks.plan[draw : draw + 1], looks.mixtures[draw : draw + 1], *looks[2:])
    _look(one, seen, lengths, out, out.shape[1], counting=False)
    return out, own


def shares(looks: Looks, seen: Seen, lengths: Int[np.ndarray, " samples"]) -> Float[np.ndarray, "samples features"]:
    """Look by look, shares of windows in which a number is above a threshold, and roots of shares that a rival wins.

    Each look's features are those of the first threshold, of the next, ..., of the largest and of the smallest rivals.
    Where rivals are equal, all of them win. Most rivals seldom win: the root of their shares varies about as much as
    the other shares do. (Dempster, Schmidt and Webb 2023, HYDRA, let convolutions compete so.)
    """
    out = np.zeros((len(lengths), sum(looks.counts)), np.float32)
    if _kernel.available():
        _look(looks, seen, lengths, out, looks.windows, counting=True)
        return out
    first = 0
    for draw, count in enumerate(looks.counts):
        own = _own_windows(lengths, int(looks.plan[draw, SPAN]), looks.windows)
        logs = _by_numpy(looks, draw, seen, lengths, looks.windows)
        real = (np.arange(logs.shape[1]) < own[:, None])[..., None]
        scaled, words = logs * looks.scales[draw, : logs.shape[2]], logs.shape[2]
        values = np.concatenate([scaled, scaled @ looks.maps[draw, :words]], axis=2)
        above = [((values > row[: values.shape[2]]) & real).sum(axis=1) for row in looks.thresholds[draw]]
        rivals = scaled @ looks.rivals[draw, :words]
        groups = rivals.reshape(*rivals.shape[:2], -1, GROUP)
        ends = (groups == groups.max(axis=3, keepdims=True), groups == groups.min(axis=3, keepdims=True))
        won = [(one.reshape(rivals.shape) & real).sum(axis=1) for one in ends]
        found = [np.concatenate(above, axis=1) / own[:, None], np.sqrt(np.concatenate(won, axis=1) / own[:, None])]
        out[:, first : first + count] = np.concatenate(found, axis=1)
        first += count
    return out


def check_plan(plan: Int[Any, "draws 5"]) -> None:
    """A plan may come from a file."""
    kind, dilation, lag, kept, span = np.asarray(plan).T
    good = np.isin(kind, (SCALED, EACH, CHANGES)) & np.isin(kept, (1, 2)) & (dilation > 0) & (lag >= 0)
    good &= (span > 0) & (span % np.maximum(dilation, 1) == 0) & ((lag == 0) | (kept == 2))
    if not (good & (np.maximum(span, lag) < 2**24)).all():
        raise ValueError("Got random features whose plan has numbers that `fit` cannot have drawn.")


def _own_windows(lengths: Int[np.ndarray, " samples"], span: int, most: int) -> Int[np.ndarray, " samples"]:
    return np.clip(lengths - span, 1, most)


def _look(looks: Looks, seen: Seen, lengths: np.ndarray, out: np.ndarray, most: int, *, counting: bool) -> None:
    """By the kernel."""
    if not out.size:
        return
    draws, samples = len(looks.plan), len(lengths)
    floats = lambda array: np.ascontiguousarray(array, np.float32)
    by_scale = np.asarray(looks.scales)[..., None]
    arrays = [*(floats(one) for one in seen), np.ascontiguousarray(lengths, np.int64)]
    arrays += [np.ascontiguousarray(looks.plan, np.int32), floats(looks.mixtures)]
    firsts = np.zeros(draws, np.int64)
    if counting:
        firsts[1:] = np.cumsum(looks.counts)[:-1]
        maps, rivals = (floats(by_scale * one) for one in (looks.maps, looks.rivals))
        arrays += [floats(looks.scales), maps, floats(looks.thresholds), rivals]
    else:
        arrays += [None] * 4
    arrays += [firsts, out]
    sizes = (samples, seen[0].shape[2], seen[0].shape[1], draws, most, looks.maps.shape[2])
    sizes += (looks.thresholds.shape[1], looks.rivals.shape[2], out.shape[-1], cores())
    pointers = [None if array is None else ctypes.c_void_p(array.ctypes.data) for array in arrays]
    if _kernel.library().neuralrde_look(*pointers, *map(ctypes.c_int64, sizes)):  # type: ignore
        raise MemoryError("Not enough memory left for random features.")


def _by_numpy(
    looks: Looks, draw: int, seen: Seen, lengths: Int[np.ndarray, " samples"], most: int
) -> Float[np.ndarray, "samples windows words"]:
    """`log_signatures_of_look` without the kernel."""
    kind, dilation, lag, kept, span = (int(number) for number in looks.plan[draw])
    mixture = looks.mixtures[draw, :, : 1 if lag else kept]
    path = np.swapaxes(seen[kind], 1, 2) @ mixture
    # A series that is shorter than a window stands still at its end.
    point = np.minimum(np.arange(max(path.shape[1], span + 1)), lengths[:, None] - 1)
    rows = np.arange(len(path))[:, None]
    parts = [path[rows, point]]
    if lag:
        parts.append(path[rows, np.maximum(point - lag, 0)])
    path = np.concatenate(parts, axis=2)
    own = _own_windows(lengths, span, most)
    window = np.minimum(np.arange(int(own.max())), own[:, None] - 1)
    starts = window * np.maximum(lengths - 1 - span, 0)[:, None] // np.maximum(own - 1, 1)[:, None]
    clock = np.arange(path.shape[1], dtype=np.float32)[None, :, None] / span
    timed = np.concatenate([np.broadcast_to(clock, (*path.shape[:2], 1)), path], axis=2).astype(np.float32)
    logs = log_signatures(timed, DEPTHS[kept - 1], starts=starts, ends=starts + span, dilation=dilation)[..., 1:]
    return logs if kind == CHANGES else np.concatenate([logs, path[rows, starts]], axis=2)
