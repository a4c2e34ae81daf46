"""Log-signatures of channels that are observed one by one, each observation an increment of its own channel.

Channels that were measured at different times have no common clock. Filling them in makes a long path of mostly copies.
The event-wise path (Walker, Bloch, Yang, Morley and Lyons, Online Log-NCDE, arXiv 2605.30213) takes them as they are:
between observations time moves alone, and at an observation its channel moves alone, from its last value to the new
one; channels of one time move in their order. So the path runs along the axes, and its log-signature at depth 2 is made
of sums over observations: with X_i the increment of channel i so far in a window,

    word i      the increment of channel i
    word ij     sum of X_i dX_j over the observations of j, less half the product of both increments

Time is a letter before all channels. There are few words with time, and a pair of channels is worth a word where both
are observed often.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..paths import Series

Pairs = Int[np.ndarray, "pairs 2"]


def frequent_pairs(series: Series, number: int) -> Pairs:
    """The pairs of channels that most series have observed at least twice each, without a look at any label.

    >>> nan = np.nan
    >>> series = Series([[[1.0, nan, 2.0], [2.0, 1.0, nan], [nan, nan, 3.0]]])
    >>> frequent_pairs(series, 1).tolist()
    [[0, 2]]
    """
    often = ((~np.isnan(series.values) & series.valid[..., None]).sum(axis=1) > 1).astype(np.float64)
    first, second = np.triu_indices(often.shape[1], 1)
    both = (often.T @ often)[first, second]
    chosen = np.sort(np.argsort(-both, kind="stable")[:number])
    return np.stack([first[chosen], second[chosen]], axis=1)


def event_log_signatures(
    series: Series,
    edges: Float[np.ndarray, "samples edges"],
    pairs: Pairs,
    *,
    start: Float[np.ndarray, "channels"] | None = None,
) -> Float[np.ndarray, "samples windows words"]:
    """Log-signatures at depth 2 of event-wise paths: of time, every channel, time with every channel, and the pairs.

    The cost is proportional to the observations, and for each pair to those of its channels.

    >>> series = Series([[[1.0, np.nan], [np.nan, 3.0], [2.0, np.nan]]], times=[[0.0, 1.0, 2.0]])
    >>> pairs, start = np.array([[0, 1]]), np.zeros(2)
    >>> event_log_signatures(series, np.array([[0.0, 2.0]]), pairs, start=start)[0, 0].tolist()
    [2.0, 2.0, 3.0, 0.0, 0.0, 0.0]

    Args:
        series: NaN is what was not observed.
        edges: times where windows begin and end; an observation at an edge belongs to the window that ends there.
        pairs: of channels, the lower one first.
        start: the values from which channels move; None lets each begin at its first observation.
    """
    (samples, _, channels), windows = series.values.shape, edges.shape[1] - 1
    sample, point, channel = np.nonzero(~np.isnan(series.values) & series.valid[..., None])  # in order of events
    time, value = series.clock[sample, point], series.values[sample, point, channel].astype(np.float64)
    window = (time[:, None] > edges[sample, 1:-1]).sum(axis=1)
    group = sample * windows + window

    # How far each observation moves its channel.
    order = np.argsort(sample * channels + channel, kind="stable")
    again = np.diff((sample * channels + channel)[order], prepend=-1) == 0
    before = np.append(0.0, value[order][:-1]) if len(order) else value
    step = np.empty_like(value)
    first = value[order] if start is None else start[channel[order]]
    step[order] = value[order] - np.where(again, before, first)

    cell, size = group * channels + channel, samples * windows * channels
    shape, duration = (samples, windows, channels), np.diff(edges, axis=1)[..., None]
    moved = np.bincount(cell, step, size).reshape(shape)
    late = np.bincount(cell, step * (time - edges[sample, window]), size).reshape(shape)
    found = np.concatenate([duration, moved, late - duration * moved / 2, np.empty((*shape[:2], len(pairs)))], axis=2)

    events = [np.flatnonzero(channel == number) for number in range(channels)]
    sums = [np.append(0.0, np.cumsum(step[own])) for own in events]
    begun = np.searchsorted(group, np.arange(samples * windows))  # the first event of each window
    at_begin = [sums[own][np.searchsorted(events[own], begun)] for own in range(channels)]
    for word, (i, j) in enumerate(pairs.tolist(), 1 + 2 * channels):
        own = events[j]
        so_far = sums[i][np.searchsorted(events[i], own)] - at_begin[i][group[own]]
        of_pair = np.bincount(group[own], so_far * step[own], samples * windows).reshape(samples, windows)
        found[..., word] = of_pair - moved[..., i] * moved[..., j] / 2
    return found


@dataclass
class EventLogSignature:
    """The same words of one window of a series that is still arriving: a few numbers, however many observations.

    >>> stream = EventLogSignature(channels=2, pairs=np.array([[0, 1]]), begin=0.0, start=np.zeros(2))
    >>> for time, values in ((0.0, [1.0, np.nan]), (1.0, [np.nan, 3.0]), (2.0, [2.0, np.nan])):
    ...     stream.push(values, time)
    >>> stream.log_signature(2.0).tolist()
    [2.0, 2.0, 3.0, 0.0, 0.0, 0.0]
    """

    channels: int
    pairs: Pairs
    begin: float
    """Where the window begins."""
    start: Any = None
    moved: np.ndarray = field(init=False)
    late: np.ndarray = field(init=False)
    of_pairs: np.ndarray = field(init=False)

    def __post_init__(self):
        start = np.full(self.channels, np.nan) if self.start is None else np.asarray(self.start, np.float64)
        self.start, self.moved, self.late = start.copy(), np.zeros(self.channels), np.zeros(self.channels)
        self.of_pairs = np.zeros(len(self.pairs))

    def push(self, values: Any, time: float) -> None:
        """Take in what was observed at a time; NaN was not."""
        for channel in np.flatnonzero(~np.isnan(values := np.asarray(values, np.float64))):
            step = 0.0 if np.isnan(self.start[channel]) else values[channel] - self.start[channel]
            own = self.pairs[:, 1] == channel
            self.of_pairs[own] += self.moved[self.pairs[own, 0]] * step
            self.late[channel] += (time - self.begin) * step
            self.moved[channel] += step
            self.start[channel] = values[channel]

    def next_window(self, begin: float) -> None:
        """End the window, and begin another where it ends; channels keep their values."""
        self.begin = begin
        self.moved[:], self.late[:], self.of_pairs[:] = 0.0, 0.0, 0.0

    def log_signature(self, now: float) -> Float[np.ndarray, "words"]:
        """The window so far, up to a time."""
        duration, (i, j) = now - self.begin, self.pairs.T
        areas = self.of_pairs - self.moved[i] * self.moved[j] / 2
        return np.concatenate([[duration], self.moved, self.late - duration * self.moved / 2, areas])
