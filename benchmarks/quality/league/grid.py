"""Series on one regular grid, for classifiers that take nothing else."""

import numpy as np

from neuralrde import Series


def on_grid(series: Series) -> np.ndarray:
    """`(samples, channels, points)`, interpolated linearly between known values and held before and after them.

    The grid has one point per unit of time, from the first point of any series to the last. A channel without a single
    value is 0.

    >>> on_grid(Series.from_arrays([[1.0, 3.0], [5.0, np.nan, 7.0, 9.0]], times=[[0, 2], [0, 1, 2, 3]])).tolist()
    [[[1.0, 2.0, 3.0, 3.0]], [[5.0, 6.0, 7.0, 9.0]]]
    """
    clock = series.clock
    first, last = clock[:, 0].min(), clock.max()
    grid = first + np.arange(round(last - first) + 1)
    found = np.zeros((len(series), len(series.channels), len(grid)), np.float32)
    for row, (values, times, length) in enumerate(zip(series.values, clock, series.lengths, strict=True)):
        for channel, column in enumerate(values[:length].T):
            known = ~np.isnan(column)
            if known.any():
                found[row, channel] = np.interp(grid, times[:length][known], column[known])
    return found
