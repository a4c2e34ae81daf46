"""Ten million points through one stream: does memory stay flat, and how long does a point take?

Run `python benchmarks/stress/endless_stream.py`; an argument is another number of points.
"""

import json
import resource
import sys
import time

import numpy as np

from neuralrde import Config, NeuralRDE, NeuralRDERegressor, Series

PUSH = 500


def main(points: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 500, 2)).cumsum(axis=1).astype(np.float32)
    series = Series.from_array(X, times=np.arange(500) / 125)
    model = Config(NeuralRDE, readout="pools")
    estimator = NeuralRDERegressor(model=model, windows=25, epochs=1, verbose=False, random_state=0)
    stream = estimator.fit(series, X[:, -1, 0].copy()).stream()
    begun, told = time.perf_counter(), points // 10
    for first in range(0, points, PUSH):
        values = np.sin(np.arange(first, first + PUSH)[:, None] * [0.05, 0.011]) + rng.normal(size=(PUSH, 2))
        stream.push(values, np.arange(first, first + PUSH) / 125)
        if (first + PUSH) % told < PUSH:
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            size, seconds = len(json.dumps(stream.state())), time.perf_counter() - begun
            print(
                f"{stream.points:>12,} points  {resident:7.1f} MB at most  state {size:,} bytes  {seconds:6.1f} s  "
                f"prediction {stream.predict():.6f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
