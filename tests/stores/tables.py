"""Series with gaps and of different lengths, as arrays and as long tables."""

import numpy as np
import pandas as pd

CHANNELS = ["u", "v", "w"]


def ragged(count=23, *, seed=0, shortest=5, longest=90, gaps=True):
    """Arrays (length, 3), times, and labels. The first channel of some series begins with a gap."""
    rng = np.random.default_rng(seed)
    arrays, times = [], []
    for i in range(count):
        length = int(rng.integers(shortest, longest + 1))
        array = rng.normal(size=(length, 3)).cumsum(axis=0) * [1.0, 20.0, 0.1] + [0.0, 500.0, -3.0]
        if gaps:
            array[rng.random((length, 3)) < [0.2, 0.0, 0.05]] = np.nan
            if i % 3 == 0:
                array[: min(4, length - 1), 0] = np.nan
        arrays.append(array)
        times.append(np.cumsum(rng.uniform(0.2, 1.0, size=length)))
    return arrays, times, [("ill", "well")[i % 2] for i in range(count)]


def table(arrays, times, labels):
    """A row per point, sorted by id and time."""
    frames = []
    for i, (array, clock) in enumerate(zip(arrays, times, strict=True)):
        frame = pd.DataFrame(array, columns=CHANNELS)
        frame.insert(0, "time", clock)
        frame.insert(0, "id", f"p{i:04d}")
        frame["label"] = labels[i]
        frame["group"] = f"g{i // 3}"
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
