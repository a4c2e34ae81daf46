"""Data sets to write and read again, and how the formats write them."""

import numpy as np
from hypothesis import strategies as st

from neuralrde.datasets import Dataset
from neuralrde.paths import Series

from .. import shapes


def make_dataset(seed, *, samples=4, length=6, channels=2, timed=True, task="classification", missing=0.2):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, length + 1, samples)
    values = rng.normal(size=(samples, length, channels)) * 10.0 ** rng.integers(-8, 9, channels)
    gaps = rng.random(values.shape) < missing
    # The last point is there: formats without times drop gaps at the end, see the readers.
    gaps[np.arange(samples), lengths - 1, 0] = False
    values[gaps] = np.nan
    series = Series(
        values[:, : lengths.max()],
        times=np.cumsum(rng.exponential(size=(samples, lengths.max())), axis=1) if timed else None,
        lengths=lengths,
    )
    if task == "regression":
        return Dataset(series, rng.normal(size=samples))
    return Dataset(series, rng.choice(["cat", "Dog", "nanny"], samples))


@st.composite
def datasets(draw, **fixed) -> Dataset:
    options = {
        "samples": st.integers(1, 5),
        "length": st.integers(1, 8),
        "channels": st.integers(1, 3),
        "timed": st.booleans(),
        "task": st.sampled_from(["classification", "regression"]),
        "missing": st.sampled_from([0.0, 0.4]),
    }
    drawn = {name: draw(option) for name, option in options.items() if name not in fixed}
    seed = draw(st.integers(0, 2**32 - 1))
    with shapes.unchecked():  # beartype looks at random items of lists, which Hypothesis does not want in here
        return make_dataset(seed, **drawn, **fixed)


def labels(data) -> list:
    return data.target.tolist() if data.classes is None else [data.classes[c] for c in data.target]


def spelled(value, missing="?") -> str:
    return missing if np.isnan(value) else repr(float(value))


def as_ts(data, missing="?") -> str:
    timed = data.series.times is not None
    kind = "@targetLabel true" if data.classes is None else f"@classLabel true {' '.join(data.classes)}"
    lines = ["# made by a test", "@problemName example", f"@timeStamps {str(timed).lower()}", kind, "@data"]
    for i, label in enumerate(labels(data)):
        channels = []
        for c in range(len(data.series.channels)):
            cells = []
            for j in range(data.series.lengths[i]):
                value = spelled(data.series.values[i, j, c], missing)
                cells.append(f"({float(data.series.times[i, j])!r},{value})" if timed else value)
            channels.append(",".join(cells))
        lines.append(":".join([*channels, str(label)]))
    return "\n".join(lines) + "\n"


def as_arff(data) -> str:
    longest = int(data.series.lengths.max())
    kind = "numeric" if data.classes is None else "{" + ",".join(data.classes) + "}"
    lines = ["% made by a test", "@relation example", "@attribute bag relational"]
    lines += [f"@attribute t{j} numeric" for j in range(longest)]
    lines += ["@end bag", f"@attribute target {kind}", "@data"]
    for i, label in enumerate(labels(data)):
        cells = [
            [spelled(data.series.values[i, j, c]) if j < data.series.lengths[i] else "?" for j in range(longest)]
            for c in range(len(data.series.channels))
        ]
        lines.append("'" + "\\n".join(map(",".join, cells)) + f"',{label}")
    return "\n".join(lines) + "\n"


def as_long(data, delimiter=",", missing="") -> str:
    timed = ["time"] if data.series.times is not None else []
    lines = [delimiter.join(["id", *timed, *data.series.channels, "target"])]
    for i, label in enumerate(labels(data)):
        for j in range(data.series.lengths[i]):
            time = [repr(float(data.series.times[i, j]))] if timed else []
            values = [spelled(value, missing) for value in data.series.values[i, j]]
            lines.append(delimiter.join([f"sample {i}", *time, *values, str(label)]))
    return "\n".join(lines) + "\n"


def assert_same(a: Dataset, b: Dataset, *, channels=True):
    np.testing.assert_array_equal(a.series.lengths, b.series.lengths)
    np.testing.assert_array_equal(a.series.values, b.series.values)
    assert (a.series.times is None) == (b.series.times is None)
    if a.series.times is not None:
        np.testing.assert_array_equal(a.series.times, b.series.times)
    if channels:
        assert a.series.channels == b.series.channels
    assert a.task == b.task
    assert a.target is None or labels(a) == labels(b)
