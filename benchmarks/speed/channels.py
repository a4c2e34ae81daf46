"""`python -m benchmarks channels`: many channels with the defaults, seconds and memory.

Random walks of two classes: in one of them the second channel follows the first a little. Every classifier is fitted in
a process of its own, whose peak of memory is read when it ends.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ..timing import table

SERIES = 200
SIZES = ((405, 61), (3_000, 64))  # points and channels
CLASSIFIERS = ("LogSignatureClassifier", "NeuralRDEClassifier")


def walks(points: int, channels: int, *, seed: int, series: int = SERIES) -> tuple[np.ndarray, np.ndarray]:
    """Series and classes. In class 1 a part of each step of channel 0 is repeated by channel 1 one point later.

    >>> X, y = walks(50, 3, seed=0, series=4)
    >>> X.shape, y.tolist()
    ((4, 50, 3), [0, 1, 0, 1])
    """
    rng, y = np.random.default_rng(seed), np.arange(series) % 2
    steps = rng.normal(size=(series, points, channels)).astype(np.float32)
    steps[y == 1, 1:, 1] += 0.5 * steps[y == 1, :-1, 0]
    return steps.cumsum(axis=1), y


def measured(classifier: str, points: int, channels: int, series: int = SERIES) -> dict[str, Any]:
    """Seconds and memory of this process, which should do nothing else."""
    import neuralrde as nrde

    (X, y), (new, classes) = (walks(points, channels, seed=seed, series=series) for seed in (0, 1))
    before, begin, busy = _peak(), time.monotonic(), time.process_time()
    model = getattr(nrde, classifier)(random_state=0)
    model.fit(X, y)
    fitted, memory, worked = time.monotonic(), _peak(), time.process_time()
    accuracy = model.score(new, classes)
    done = time.monotonic()
    return {
        "fit": fitted - begin,
        "cpu": worked - busy,
        "predict": done - fitted,
        "memory": memory,
        "before": before,
        "accuracy": float(accuracy),
    }


def _peak() -> float:
    """The largest resident size of this process so far, in MB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)


def apart(classifier: str, points: int, channels: int, series: int = SERIES) -> dict[str, Any]:
    """The same in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.speed.channels", classifier, str(points), str(channels), str(series)]
    found = subprocess.run(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(found.stdout)


def main() -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"# Many channels: {SERIES} random walks of two classes, defaults, {cores} cores")
    rows = []
    for points, channels in SIZES:
        data = 4 * SERIES * points * channels / 2**20
        for classifier in CLASSIFIERS:
            found = apart(classifier, points, channels)
            times = [f"{found[name]:.1f}" for name in ("fit", "cpu", "predict")]
            sizes = f"{data:.0f}", f"{found['before']:.0f}", f"{found['memory']:.0f}"
            size = f"{points:,} x {channels}"
            rows.append([size, f"`{classifier}()`", *times, *sizes, f"{100 * found['accuracy']:.0f} %"])
            print(rows[-1], file=sys.stderr, flush=True)
    names = ["points x channels", "", "fit (s)", "of a core (s)", "predict (s)"]
    names += ["series (MB)", "before fit (MB)", "peak (MB)", "accuracy"]
    print(table(names, rows))


if __name__ == "__main__":
    name, *sizes = sys.argv[1:]
    print(json.dumps(measured(name, *map(int, sizes))))
