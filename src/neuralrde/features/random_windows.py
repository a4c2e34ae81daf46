"""Random features of series: how often small windows of a series, at many scales, rise, bend or turn in certain ways.

Each of many draws takes one or two random mixtures of channels, thins them out by a random factor, and computes the
log-signatures of short windows of the rest, at many places. Random linear maps of a log-signature say how much a
window rises, bends or turns in a certain way. A feature is the share of windows for which such a number is above a
threshold, which is a random quantile of the training set, or for which a map is the largest or smallest of eight. Draws
reach from neighbouring points to the whole series.

Shares need no training and no equal lengths. Those of the thirds of a series also say where something happens, which
decides where series are aligned. That they are shares and not means is what makes simple linear models on them strong
(Dempster, Petitjean and Webb 2020, ROCKET, for thresholds; Dempster, Schmidt and Webb 2023, HYDRA, for competitions).

The kernel follows one draw over one series while both are in the cache. NumPy does the same where there is no kernel.
"""

import ctypes
import dataclasses
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from .._cores import cores
from ..frozen import once_per_model
from ..paths import Series
from ..paths.checks import check_whole
from ..signatures import _library, log_signature_channels, log_signatures

GROUP = 8  # maps of a competition
PARTS = 3  # of a series, each with shares of its own
# The largest sizes that a user may choose.
_MOST = {"draws": 2**16, "maps": 2**12, "thresholds": 8, "competitions": 2**9, "windows": 2**20}
# What a draw sees: series scaled as a whole, each series scaled by itself, or the changes from point to point.
SCALED, EACH, CHANGES = range(3)
# The columns of a plan.
KIND, DILATION, LAG, KEPT, SPAN = range(5)
# Depths of log-signatures of time and one channel, and of time and two: 7 and 13 numbers, less that of time alone.
DEPTHS = (4, 3)
LOG_WORDS = tuple(log_signature_channels(2 + i, depth) - 1 for i, depth in enumerate(DEPTHS))
# Numbers that a draw sees of a window, by kind and by channels kept: its log-signature and, except of changes, the
# values at which it starts.
WORDS = tuple(
    tuple(words + (0 if kind == CHANGES else kept) for kept, words in enumerate(LOG_WORDS, 1))
    for kind in (SCALED, EACH, CHANGES)
)
MOST_WORDS = max(map(max, WORDS))

# Increments in a window, after thinning out.
POINTS = 8
_CYCLE = (SCALED, EACH, CHANGES, SCALED, EACH)
# Every so many draws one spans whole series.
_WHOLE = 7
# A mixture is of at most so many channels.
_MOST_MIXED = 9
# Quantiles are those of some windows of the training set: of at most so many series, and so many windows in all.
_SEEN_SERIES, _SEEN_WINDOWS = 128, 4096
# Standard deviations whose fourth power, in log-signatures of depth 4, is a number in float32.
_LARGEST = 1e9
# Numbers of series that are worked on at once, for memory.
_PIECE = 10_000_000

Seen = tuple[Float[np.ndarray, "samples channels length"], ...]


@dataclasses.dataclass(frozen=True)
class FeatureSizes:
    """How many random features there are.

    Args:
        draws: how many random draws of windows there are; each has some 130 features.
        maps: random linear maps of each draw's log-signatures.
        thresholds: for each map, and each number of the log-signature itself.
        competitions: groups of eight other maps in each draw, which compete.
        windows: the largest number of windows per series and draw.
    """

    draws: int = 84
    maps: int = 24
    thresholds: int = 2
    competitions: int = 4
    windows: int = 2048

    def __post_init__(self):
        for name, high in _MOST.items():
            check_whole(name, getattr(self, name), high=high)


class RandomWindows(eqx.Module):
    """Random draws of windows, and what is counted in them."""

    plan: Int[Any, "draws 5"]
    """Kind, dilation, lag, channels kept (1 or 2) and span of windows, in points."""
    mixtures: Float[Any, "draws channels 2"]
    scales: Float[Any, "draws words"]
    maps: Float[Any, "draws words maps"]
    """Of scaled log-signatures."""
    thresholds: Float[Any, "draws thresholds all_maps"]
    """For each number of a log-signature itself, and then for each map."""
    competitors: Float[Any, "draws words competitors"]
    """Maps that compete, in groups of eight."""
    windows: int = eqx.field(static=True)
    """The largest number per series and draw, evenly apart."""

    @staticmethod
    def empty(channels: int, sizes: FeatureSizes) -> "RandomWindows":
        """Windows of these sizes, before anything is drawn."""
        zeros = lambda *shape: np.zeros((sizes.draws, *shape), np.float32)
        return RandomWindows(
            plan=np.zeros((sizes.draws, 5), np.int32),
            mixtures=zeros(channels, 2),
            scales=zeros(MOST_WORDS) + 1,
            maps=zeros(MOST_WORDS, sizes.maps),
            thresholds=zeros(sizes.thresholds, MOST_WORDS + sizes.maps),
            competitors=zeros(MOST_WORDS, GROUP * sizes.competitions),
            windows=sizes.windows,
        )

    @property
    def words(self) -> list[int]:
        """Numbers that each draw sees of a window."""
        return [WORDS[kind][kept - 1] for kind, kept in np.asarray(self.plan)[:, [KIND, KEPT]]]

    @property
    def counts(self) -> list[int]:
        """Features of each draw."""
        return _counts(self)


@once_per_model
def _counts(drawn: RandomWindows) -> list[int]:
    maps, thresholds = drawn.maps.shape[2], drawn.thresholds.shape[1]
    return [thresholds * (words + maps) + 2 * drawn.competitors.shape[2] for words in drawn.words]


class RandomFeatures(eqx.Module):
    """Draws of random features, fitted to a training set. Called with regular series, it returns their features.

    `fit` takes series that are regular and complete, as `Resample` makes them.

    >>> series = Series.from_array(np.random.default_rng(0).normal(size=(20, 50, 3)).cumsum(axis=1))
    >>> features = RandomFeatures.fit(series, FeatureSizes(draws=10))
    >>> features(series).shape == (20, features.count)
    True
    """

    drawn: RandomWindows
    mean: Float[Any, "channels"]
    spread: Float[Any, "channels"]
    spread_of_changes: Float[Any, "channels"]

    @staticmethod
    def fit(series: Series, sizes: FeatureSizes | None = None, *, seed: int = 0) -> "RandomFeatures":
        sizes = sizes or FeatureSizes()
        rng, channels = np.random.default_rng(seed), series.values.shape[2]
        valid = series.valid
        mean = series.values.mean(axis=(0, 1), where=valid[..., None], dtype=np.float64)
        spread = _positive(series.values.std(axis=(0, 1), where=valid[..., None], dtype=np.float64))
        changes = np.diff(series.values, axis=1)
        moved = np.sqrt((changes**2).sum(axis=(0, 1), where=valid[:, 1:, None]) / max(1, valid[:, 1:].sum()))
        some = series[np.sort(rng.choice(len(series), min(len(series), _SEEN_SERIES), replace=False))]
        drawn = RandomWindows.empty(channels, sizes)
        quantiles = _draw(drawn, rng, int(np.median(series.lengths)))
        floats = (one.astype(np.float32) for one in (mean, spread, _positive(moved)))
        features = RandomFeatures(drawn, *floats)
        most = max(1, _SEEN_WINDOWS // len(some))
        logs = window_log_signatures(drawn, features.seen(some), some.lengths, most)
        return dataclasses.replace(features, drawn=_learned(drawn, logs, quantiles))

    @property
    def count(self) -> int:
        """The number of features."""
        return sum(self.drawn.counts)

    def __call__(self, series: Series) -> Float[np.ndarray, "samples features"]:
        return self.shares(series, 1)[0]

    def shares(
        self, series: Series, parts: int = PARTS
    ) -> tuple[Float[np.ndarray, "samples features"], Float[np.ndarray, "samples parts_of_features"]]:
        """The features; and for each part of the series, those shares that need the first threshold only.

        A part in which no window starts has none: NaN.
        """
        check_drawn(self.drawn)
        rows = max(1, _PIECE // series.values[0].size)
        blocks = [series[slice(first, first + rows)] for first in range(0, len(series), rows)]
        found = [shares(self.drawn, self.seen(block), block.lengths, parts) for block in blocks]
        if len(found) == 1:
            return found[0]
        return np.concatenate([total for total, _ in found]), np.concatenate([of_parts for _, of_parts in found])

    def seen(self, series: Series) -> Seen:
        """What draws see, channel by channel: scaled, each by itself, changes."""
        values, real = np.swapaxes(series.values, 1, 2), series.valid[:, None, :]
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = ((values - self.mean[:, None]) / self.spread[:, None]).astype(np.float32)
        _check_size(scaled, series)
        # In float64, so that padding, which depends on the other series, does not change the last digit.
        mean = scaled.mean(axis=2, where=real, keepdims=True, dtype=np.float64)
        spread = scaled.std(axis=2, where=real, keepdims=True, dtype=np.float64)
        each = ((scaled - mean) / _positive(spread, 1e-6)).astype(np.float32)
        changes = np.diff(scaled, axis=2, prepend=scaled[..., :1]) * (self.spread / self.spread_of_changes)[:, None]
        return scaled, each, changes.astype(np.float32)


def _check_size(scaled: Float[np.ndarray, "samples channels length"], series: Series) -> None:
    """Raise rather than count windows whose log-signatures overflow, which look like any others."""
    if scaled.min() >= -_LARGEST and scaled.max() <= _LARGEST:
        return
    row, channel = np.argwhere(~(np.abs(scaled) <= _LARGEST).all(axis=2))[0]
    name = f"{row}" if series.ids is None else f"{row} ({series.ids[row]})"
    raise ValueError(
        f"Got series {name}, whose channel {series.channels[channel]!r} reaches "
        f"{np.abs(series.values[row, :, channel]).max():.3g}; expected at most {_LARGEST:g} standard deviations of the "
        "training set, because log-signatures are computed in float32. Look for values that are no measurements, and "
        "write NaN for them."
    )


def _draw(
    drawn: RandomWindows, rng: np.random.Generator, length: int
) -> list[Float[np.ndarray, "thresholds _all_maps"]]:
    """Draw everything that depends on no data, into `drawn`; and the quantiles that are to be thresholds."""
    channels, maps, competitors = drawn.mixtures.shape[1], drawn.maps.shape[2], drawn.competitors.shape[2]
    points = max(2, min(POINTS, length - 1))
    widest = np.log2(max(1.0, (length - 1) / points))
    quantiles = []
    for draw in range(len(drawn.plan)):
        # Scales are evenly spread on a logarithmic scale.
        dilation = max(1, (length - 1) // points) if draw % _WHOLE == 0 else int(2 ** rng.uniform(0, widest))
        kind, kept, lag = _CYCLE[draw % len(_CYCLE)], 1, 0
        if channels > 1:
            some = int(2 ** rng.uniform(0, np.log2(min(channels, _MOST_MIXED) + 1)))
            chosen, kept = rng.choice(channels, some, replace=False), int(rng.integers(1, 3))
            if some <= kept:
                kept, mixture = some, np.eye(some)
            else:
                mixture = rng.normal(size=(some, kept)) / np.sqrt(some)
            drawn.mixtures[draw, chosen, :kept] = mixture
        else:
            drawn.mixtures[draw, 0, 0] = 1.0
            lag = dilation * int(rng.integers(1, POINTS)) if draw % 3 == 0 else 0
            lag = lag if lag < length // 2 else 0
            kept = 2 if lag else 1
        drawn.plan[draw] = kind, dilation, lag, kept, points * dilation
        plain = LOG_WORDS[kept - 1]  # levels are not mixed with increments
        drawn.maps[draw, :plain] = rng.normal(size=(plain, maps)) * (rng.random((plain, maps)) < 0.5)
        drawn.competitors[draw, :plain] = rng.normal(size=(plain, competitors))
        quantiles.append(rng.uniform(0.02, 0.98, size=(drawn.thresholds.shape[1], WORDS[kind][kept - 1] + maps)))
    return quantiles


def _learned(
    drawn: RandomWindows,
    log_signatures: list[Float[np.ndarray, "_windows _words"]],
    quantiles: list[Float[np.ndarray, "thresholds _all_maps"]],
) -> RandomWindows:
    """With the sizes of log-signatures as scales, and as thresholds the quantiles of windows of the training set."""
    scales, thresholds = drawn.scales.copy(), drawn.thresholds.copy()
    for draw, (logs, quantile) in enumerate(zip(log_signatures, quantiles, strict=True)):
        words = logs.shape[1]
        scales[draw, :words] /= _positive(np.sqrt((logs**2).mean(axis=0, dtype=np.float64)))
        logs = logs * scales[draw, :words]
        values = np.sort(np.concatenate([logs, logs @ drawn.maps[draw, :words]], axis=1), axis=0)
        place = (quantile * (len(values) - 1)).astype(int)
        above = np.minimum(place + 1, len(values) - 1)
        columns = np.arange(values.shape[1])
        # Between two windows of the training set, where rounding decides nothing.
        thresholds[draw, :, : len(columns)] = (values[place, columns] + values[above, columns]) / 2
    return dataclasses.replace(drawn, scales=scales, thresholds=thresholds)


def _positive(spread: np.ndarray, least: float = 1e-8) -> np.ndarray:
    """Something to divide by: a channel that never changes has no spread."""
    return np.where(spread > least, spread, 1.0)


def window_log_signatures(
    drawn: RandomWindows, seen: Seen, lengths: Int[np.ndarray, " samples"], most: int
) -> list[Float[np.ndarray, "_windows _words"]]:
    """For each draw, the numbers of each window of all series, of at most `most` windows per series."""
    kernel = _Kernel(drawn, seen, lengths) if _library.available() else None
    found = []
    for draw, words in enumerate(drawn.words):
        own = _own_windows(lengths, int(drawn.plan[draw, SPAN]), most)
        if kernel is None:
            logs = _by_numpy(drawn, draw, seen, lengths, most)
        else:
            logs = np.zeros((len(lengths), int(own.max()), words), np.float32)
            kernel.write_words(draw, logs)
        found.append(logs[np.arange(logs.shape[1]) < own[:, None]])
    return found


def count_windows(
    drawn: RandomWindows, seen: Seen, lengths: Int[np.ndarray, " samples"], parts: int
) -> Float[np.ndarray, "samples parts features"]:
    """Count the windows in which a number is above a threshold, or a competitor wins, in equal parts of each series.

    Each draw's counts are those of the first threshold, of the next, ..., of the largest and of the smallest
    competitors. Where competitors are equal, all of them win.
    """
    out = np.zeros((len(lengths), parts, sum(drawn.counts)), np.float32)
    if _library.available():
        _Kernel(drawn, seen, lengths).write_counts(out)
        return out
    first = 0
    for draw, count in enumerate(drawn.counts):
        own = _own_windows(lengths, int(drawn.plan[draw, SPAN]), drawn.windows)
        logs = _by_numpy(drawn, draw, seen, lengths, drawn.windows)
        scaled, words = logs * drawn.scales[draw, : logs.shape[2]], logs.shape[2]
        values = np.concatenate([scaled, scaled @ drawn.maps[draw, :words]], axis=2)
        above = [values > row[: values.shape[2]] for row in drawn.thresholds[draw]]
        competitors = scaled @ drawn.competitors[draw, :words]
        groups = competitors.reshape(*competitors.shape[:2], -1, GROUP)
        ends = (groups == groups.max(axis=3, keepdims=True), groups == groups.min(axis=3, keepdims=True))
        happened = np.concatenate([*above, *(one.reshape(competitors.shape) for one in ends)], axis=2)
        window = np.arange(logs.shape[1])
        part = np.where(window < own[:, None], window * parts // own[:, None], parts)
        for number in range(parts):
            out[:, number, first : first + count] = (happened & (part == number)[..., None]).sum(axis=1)
        first += count
    return out


def shares(
    drawn: RandomWindows, seen: Seen, lengths: Int[np.ndarray, " samples"], parts: int = 1
) -> tuple[Float[np.ndarray, "samples features"], Float[np.ndarray, "samples parts_of_features"]]:
    """Shares of all windows, and of those of each part.

    Most competitors seldom win: the root of their shares varies about as much as the other shares do. (Dempster,
    Schmidt and Webb 2023, HYDRA, let convolutions compete so.)
    """
    counts = count_windows(drawn, seen, lengths, parts)
    total, of_parts, first = counts[:, 0] if parts == 1 else counts.sum(axis=1), [], 0
    for draw, (words, count) in enumerate(zip(drawn.words, drawn.counts, strict=True)):
        own = _own_windows(lengths, int(drawn.plan[draw, SPAN]), drawn.windows)
        each, above = words + drawn.maps.shape[2], count - 2 * drawn.competitors.shape[2]
        total[:, first : first + count] /= own[:, None].astype(np.float32)
        competitors = total[:, first + above : first + count]
        np.sqrt(competitors, out=competitors)
        if parts > 1:
            windows = np.diff(-(-np.arange(parts + 1) * own[:, None] // parts), axis=1)[..., None].astype(np.float32)
            known = np.where(windows > 0, windows, np.nan)
            of_parts.append(counts[:, :, first : first + each] / known)
        first += count
    return total, np.concatenate(of_parts, axis=2).reshape(len(total), -1) if of_parts else total[:, :0]


@once_per_model
def check_drawn(drawn: RandomWindows) -> None:
    check_plan(drawn.plan)


def check_plan(plan: Int[Any, "draws 5"]) -> None:
    """A plan may come from a file."""
    kind, dilation, lag, kept, span = np.asarray(plan).T
    good = np.isin(kind, (SCALED, EACH, CHANGES)) & np.isin(kept, (1, 2)) & (dilation > 0) & (lag >= 0)
    good &= (span > 0) & (span % np.maximum(dilation, 1) == 0) & ((lag == 0) | (kept == 2))
    if not (good & (np.maximum(span, lag) < 2**24)).all():
        raise ValueError("Got random features whose plan has numbers that `fit` cannot have drawn.")


def _own_windows(lengths: Int[np.ndarray, " samples"], span: int, most: int) -> Int[np.ndarray, " samples"]:
    return np.clip(lengths - span, 1, most)


def window_starts(lengths: Int[np.ndarray, " samples"], span: int, most: int) -> Int[np.ndarray, "samples windows"]:
    """The points at which the windows of each series start; the last is repeated where others have more."""
    own = _own_windows(lengths, span, most)
    window = np.minimum(np.arange(int(own.max())), own[:, None] - 1)
    return window * np.maximum(lengths - 1 - span, 0)[:, None] // np.maximum(own - 1, 1)[:, None]


class _Kernel:
    """The kernel's function for these draws and these series."""

    def __init__(self, drawn: RandomWindows, seen: Seen, lengths: Int[np.ndarray, " samples"]):
        self.drawn, (samples, channels, length) = drawn, seen[0].shape
        self.series = [*map(_floats, seen), np.ascontiguousarray(lengths, np.int64)]
        self.plan, self.mixtures = np.ascontiguousarray(drawn.plan, np.int32), _floats(drawn.mixtures)
        self.sizes, self.threads = (samples, length, channels), cores()

    def write_words(self, draw: int, out: Float[np.ndarray, "samples windows words"]) -> None:
        """Write the numbers of each window of one draw."""
        one = slice(draw, draw + 1)
        self._call(self.plan[one], self.mixtures[one], [None] * 4, np.zeros(1, np.int64), out, out.shape[1])

    def write_counts(self, out: Float[np.ndarray, "samples parts features"]) -> None:
        learned, firsts = _as_the_kernel_takes(self.drawn)
        self._call(self.plan, self.mixtures, learned, firsts, out, self.drawn.windows)

    def _call(
        self, plan: np.ndarray, mixtures: np.ndarray, learned: list, firsts: np.ndarray, out: np.ndarray, most: int
    ):
        drawn = self.drawn
        if not out.size:
            return
        sizes = (
            *self.sizes,
            len(plan),
            most,
            drawn.maps.shape[2],
            drawn.thresholds.shape[1],
            drawn.competitors.shape[2],
        )
        sizes += (out.shape[-1], out.shape[1], self.threads)
        arrays = [*self.series, plan, mixtures, *learned, firsts, out]
        pointers = [None if array is None else ctypes.c_void_p(array.ctypes.data) for array in arrays]
        if _library.library().neuralrde_look(*pointers, *map(ctypes.c_int64, sizes)):  # type: ignore
            raise MemoryError("Not enough memory left for random features.")


@once_per_model
def _as_the_kernel_takes(drawn: RandomWindows) -> tuple[list[np.ndarray], np.ndarray]:
    """What was learned, with maps of log-signatures that are not scaled, and where each draw's features begin."""
    by_scale = np.asarray(drawn.scales)[..., None]
    maps, competitors = (_floats(by_scale * one) for one in (drawn.maps, drawn.competitors))
    firsts = np.cumsum([0, *drawn.counts[:-1]], dtype=np.int64)
    return [_floats(drawn.scales), maps, _floats(drawn.thresholds), competitors], firsts


def _floats(array: Any) -> np.ndarray:
    return np.ascontiguousarray(array, np.float32)


def _by_numpy(
    drawn: RandomWindows, draw: int, seen: Seen, lengths: Int[np.ndarray, " samples"], most: int
) -> Float[np.ndarray, "samples windows words"]:
    """The numbers of each window of one draw, without the kernel."""
    kind, dilation, lag, kept, span = (int(number) for number in drawn.plan[draw])
    mixture = drawn.mixtures[draw, :, : 1 if lag else kept]
    path = np.swapaxes(seen[kind], 1, 2) @ mixture
    # A series that is shorter than a window stands still at its end.
    point = np.minimum(np.arange(max(path.shape[1], span + 1)), lengths[:, None] - 1)
    rows = np.arange(len(path))[:, None]
    parts = [path[rows, point]]
    if lag:
        parts.append(path[rows, np.maximum(point - lag, 0)])
    path = np.concatenate(parts, axis=2)
    starts = window_starts(lengths, span, most)
    clock = np.arange(path.shape[1], dtype=np.float32)[None, :, None] / span
    timed = np.concatenate([np.broadcast_to(clock, (*path.shape[:2], 1)), path], axis=2).astype(np.float32)
    logs = log_signatures(timed, DEPTHS[kept - 1], starts=starts, ends=starts + span, dilation=dilation)[..., 1:]
    return logs if kind == CHANGES else np.concatenate([logs, path[rows, starts]], axis=2)
