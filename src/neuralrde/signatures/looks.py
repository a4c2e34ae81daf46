"""Random looks at series: log-signatures of many windows of thinned-out mixtures of channels, and counts of them.

`estimators/random_features.py` says what looks are for, draws them, and learns their numbers. Here they are taken: by
the kernel, which follows one look at one series while both are in the cache, or by NumPy where there is no kernel.
"""

import ctypes
from typing import Any

import equinox as eqx
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
LOG_WORDS = tuple(log_signature_channels(2 + i, depth) - 1 for i, depth in enumerate(DEPTHS))
# Numbers that a look sees of a window, by kind and by channels kept: its log-signature and, except of changes, the
# values at which it starts.
WORDS = tuple(
    tuple(words + (0 if kind == CHANGES else kept) for kept, words in enumerate(LOG_WORDS, 1))
    for kind in (SCALED, EACH, CHANGES)
)
MOST_WORDS = max(map(max, WORDS))

Seen = tuple[Float[np.ndarray, "samples channels length"], ...]


class Looks(eqx.Module):
    """Random looks at series, and what they count."""

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
    windows: int = eqx.field(static=True)
    """At most so many per series and look, evenly apart."""

    @staticmethod
    def empty(draws: int, channels: int, *, maps: int, thresholds: int, contests: int, windows: int) -> "Looks":
        """Of these sizes, before anything is drawn."""
        zeros = lambda *sizes: np.zeros((draws, *sizes), np.float32)
        return Looks(
            plan=np.zeros((draws, 5), np.int32),
            mixtures=zeros(channels, 2),
            scales=zeros(MOST_WORDS) + 1,
            maps=zeros(MOST_WORDS, maps),
            thresholds=zeros(thresholds, MOST_WORDS + maps),
            rivals=zeros(MOST_WORDS, GROUP * contests),
            windows=windows,
        )

    @property
    def words(self) -> list[int]:
        """Numbers that each look sees of a window."""
        return [WORDS[kind][kept - 1] for kind, kept in np.asarray(self.plan)[:, [KIND, KEPT]]]

    @property
    def counts(self) -> list[int]:
        """Features of each look."""
        maps, thresholds = self.maps.shape[2], self.thresholds.shape[1]
        return [thresholds * (words + maps) + 2 * self.rivals.shape[2] for words in self.words]


def log_signatures_of_looks(
    looks: Looks, seen: Seen, lengths: Int[np.ndarray, " samples"], most: int
) -> list[Float[np.ndarray, "_windows _words"]]:
    """Look by look, what it sees of each window of all series, of at most so many windows per series."""
    kernel = _Kernel(looks, seen, lengths) if _kernel.available() else None
    found = []
    for draw, words in enumerate(looks.words):
        own = _own_windows(lengths, int(looks.plan[draw, SPAN]), most)
        if kernel is None:
            logs = _by_numpy(looks, draw, seen, lengths, most)
        else:
            logs = np.zeros((len(lengths), int(own.max()), words), np.float32)
            kernel.write_words(draw, logs)
        found.append(logs[np.arange(logs.shape[1]) < own[:, None]])
    return found


def shares(looks: Looks, seen: Seen, lengths: Int[np.ndarray, " samples"]) -> Float[np.ndarray, "samples features"]:
    """Look by look, shares of windows in which a number is above a threshold, and roots of shares that a rival wins.

    Each look's features are those of the first threshold, of the next, ..., of the largest and of the smallest rivals.
    Where rivals are equal, all of them win. Most rivals seldom win: the root of their shares varies about as much as
    the other shares do. (Dempster, Schmidt and Webb 2023, HYDRA, let convolutions compete so.)
    """
    out = np.zeros((len(lengths), sum(looks.counts)), np.float32)
    if _kernel.available():
        _Kernel(looks, seen, lengths).write_shares(out)
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


class _Kernel:
    """The kernel's function for these looks at these series."""

    def __init__(self, looks: Looks, seen: Seen, lengths: Int[np.ndarray, " samples"]):
        self.looks, (samples, channels, length) = looks, seen[0].shape
        self.series = [*map(_floats, seen), np.ascontiguousarray(lengths, np.int64)]
        self.plan, self.mixtures = np.ascontiguousarray(looks.plan, np.int32), _floats(looks.mixtures)
        self.sizes, self.threads = (samples, length, channels), cores()

    def write_words(self, draw: int, out: Float[np.ndarray, "samples windows words"]) -> None:
        """What one look sees of each window."""
        one = slice(draw, draw + 1)
        self._call(self.plan[one], self.mixtures[one], [None] * 4, np.zeros(1, np.int64), out, out.shape[1])

    def write_shares(self, out: Float[np.ndarray, "samples features"]) -> None:
        looks, by_scale = self.looks, np.asarray(self.looks.scales)[..., None]
        maps, rivals = (_floats(by_scale * one) for one in (looks.maps, looks.rivals))
        firsts = np.cumsum([0, *looks.counts[:-1]], dtype=np.int64)
        learned = [_floats(looks.scales), maps, _floats(looks.thresholds), rivals]
        self._call(self.plan, self.mixtures, learned, firsts, out, looks.windows)

    def _call(
        self, plan: np.ndarray, mixtures: np.ndarray, learned: list, firsts: np.ndarray, out: np.ndarray, most: int
    ):
        looks = self.looks
        if not out.size:
            return
        sizes = (*self.sizes, len(plan), most, looks.maps.shape[2], looks.thresholds.shape[1], looks.rivals.shape[2])
        sizes += (out.shape[-1], self.threads)
        arrays = [*self.series, plan, mixtures, *learned, firsts, out]
        pointers = [None if array is None else ctypes.c_void_p(array.ctypes.data) for array in arrays]
        if _kernel.library().neuralrde_look(*pointers, *map(ctypes.c_int64, sizes)):  # type: ignore
            raise MemoryError("Not enough memory left for random features.")


def _floats(array: Any) -> np.ndarray:
    return np.ascontiguousarray(array, np.float32)


def _by_numpy(
    looks: Looks, draw: int, seen: Seen, lengths: Int[np.ndarray, " samples"], most: int
) -> Float[np.ndarray, "samples windows words"]:
    """What one look sees of each window, without the kernel."""
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
