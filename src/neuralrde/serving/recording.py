"""Series of a data file as pushes, each due at its time: what the page's replay and the load generator share."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets import Dataset


@dataclass(frozen=True)
class Push:
    """Points of one series."""

    due: float
    """Seconds after the start of the series at which its last point is there, at speed 1."""
    first: int
    """The number of its first point."""
    values: np.ndarray
    times: np.ndarray | None
    truth: Any


class Recording:
    """The series of a data set, to be sent as if they were being measured.

    Args:
        data: the series, with their targets if these are known.
        rate: points per second of series without times; times are in seconds.
        seconds: of data in one push, about.
        timed: whether pushes carry times; None if the data have them.

    >>> from neuralrde.paths import Series
    >>> recording = Recording(Dataset(Series.from_array(np.zeros((1, 10)))), rate=5, seconds=1)
    >>> [(push.first, len(push.values), push.due) for push in recording.pushes(0)]
    [(0, 5, 0.8), (5, 5, 1.8)]
    """

    def __init__(self, data: Dataset, *, rate: float = 125, seconds: float = 0.2, timed: bool | None = None):
        self.data, self.rate, self.seconds = data, rate, seconds
        self.timed = data.series.times is not None if timed is None else timed

    def __len__(self) -> int:
        return len(self.data.series)

    @property
    def points_per_second(self) -> float:
        """Of the first series, about."""
        clock = self.clock(0)
        return self.rate if len(clock) < 2 or clock[-1] <= 0 else float((len(clock) - 1) / clock[-1])

    def name(self, k: int) -> str:
        """What a person knows the series by."""
        ids = self.data.series.ids
        return f"{self.data.name}/{k if ids is None else ids[k]}"

    def clock(self, k: int) -> np.ndarray:
        """Seconds since the first point."""
        series, length = self.data.series, int(self.data.series.lengths[k])
        if series.times is None:
            return np.arange(length) / self.rate
        times = np.asarray(series.times[k][:length], np.float64)
        return times - times[0]

    def pushes(self, k: int) -> Iterator[Push]:
        """In order."""
        series, clock = self.data.series, self.clock(k)
        values = np.asarray(series.values[k][: len(clock)], np.float64)
        times = None if series.times is None or not self.timed else np.asarray(series.times[k], np.float64)
        part = np.floor(clock / self.seconds + 1e-9).astype(np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(clock)]
        for start, end in itertools.pairwise(cuts):
            given = None if times is None else times[start:end]
            yield Push(float(clock[end - 1]), start, values[start:end], given, self.truth(k, start, end))

    def truth(self, k: int, start: int, end: int) -> Any:
        """What is true at these points, the last that is known; None if nothing is."""
        target, classes = self.data.target, self.data.classes
        if target is None:
            return None
        found = np.asarray(target[k])
        if self.data.per_time:
            found = found[start:end]
            known = found >= 0 if classes is not None else ~np.isnan(found.reshape(len(found), -1)).any(axis=1)
            if not known.any():
                return None
            found = found[np.flatnonzero(known)[-1]]
        if classes is not None:
            return classes[int(found)] if found >= 0 else None
        first = float(np.ravel(found)[0])
        return None if np.isnan(first) else first
