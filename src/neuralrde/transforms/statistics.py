"""What transforms learn from a training set, in memory or in parts: sums that add up, and how long series last."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from ..errors import python_only, setting
from ..paths.series import Series


class Sums(NamedTuple):
    """Number, mean, sum of squared deviations, lowest and highest of each channel's observed values, in float64."""

    points: int
    count: Int[np.ndarray, "channels"]
    mean: Float[np.ndarray, "channels"]
    squares: Float[np.ndarray, "channels"]
    low: Float[np.ndarray, "channels"]
    high: Float[np.ndarray, "channels"]

    @staticmethod
    @np.errstate(over="ignore", invalid="ignore")  # whoever divides by them checks that they are finite
    def of(columns: Iterable[Real[np.ndarray, "points"]]) -> "Sums":
        """The sums of some channels.

        >>> Sums.of([np.array([1.0, np.nan, 3.0])]).mean.tolist()
        [2.0]
        """
        points, rows = 0, []
        for column in columns:
            points = len(column)
            # One channel at a time: contiguous, so that NumPy sums pairwise and loses almost nothing.
            seen = column[~np.isnan(column)].astype(np.float64, copy=False)
            mean = np.mean(seen) if len(seen) else 0.0
            extremes = seen.min(initial=np.inf), seen.max(initial=-np.inf)
            rows.append((len(seen), mean, np.sum(np.square(seen - mean)), *extremes))
        count, *sums = np.array(rows, np.float64).reshape(-1, 5).T
        return Sums(points, count.astype(np.int64), *sums)

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        """Those of both parts (Chan, Golub and LeVeque 1983)."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        difference = other.mean - self.mean
        return Sums(
            self.points + other.points,
            count,
            np.where(self.count == 0, other.mean, self.mean + difference * share),
            self.squares + other.squares + difference**2 * self.count * share,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def has_gaps(self) -> np.ndarray:
        """Whether each channel has a missing value."""
        return self.count < self.points


@dataclass(frozen=True)
class Statistics:
    """A training set as a transform's `fit_statistics` sees it.

    Args:
        channels: the names of its channels.
        sums: computes the sums over all of it; most transforms do not ask.
        duration: of the longest series; without times, its number of increments.
        timed: whether its series have times.
    """

    channels: tuple[str, ...]
    sums: Callable[[], Sums]
    duration: float
    timed: bool

    @staticmethod
    def of(series: Series) -> "Statistics":
        """Statistics of series in memory: neither missing values nor padding count."""
        valid, clock = series.valid, series.clock
        sums = lambda: Sums.of(series.values[..., channel][valid] for channel in range(len(series.channels)))
        duration = float((clock[:, -1] - clock[:, 0]).max())
        return Statistics(series.channels, sums, duration, series.times is not None)

    def observed_sums(self) -> Sums:
        """The sums; an error if a channel was never observed."""
        sums = self.sums()
        if not sums.count.all():
            raise ValueError(
                f"Got the channel {self.channels[int(sums.count.argmin())]!r} without any observation in the training "
                "set; expected at least one, because there is nothing to learn its mean from. Leave the channel out "
                f"(of a table, with {setting('columns', [...])})"
                f"{python_only(', or fill it with a number of your own, `FillForward(default=0.0)`')}."
            )
        return sums
