"""What the service is compared with.

`python benchmarks/stress/one_thread_per_stream.py MODEL DATA --streams 50 --seconds 30`

One thread per stream in plain Python, each with its own `estimator.stream()`, in one process and without a network:
push what was measured, predict, wait for the next push. Latency counts from when a push was due, as in
`load.py`.
"""

import argparse
import json
import random
import threading
import time

import numpy as np

from neuralrde.datasets import read
from neuralrde.estimators import load

RATE, SIZE = 125, 25  # points per second, and in one push


def run(model: str, data: str, *, streams: int, seconds: float) -> dict:
    """Latencies in milliseconds, and how many pushes were answered in time."""
    estimator, series = load(model), read(data, task="regression").series
    followers = [estimator.stream() for _ in range(streams)]
    followers[0].push(series.values[0, :SIZE])  # compiles
    followers[0].predict()
    followers[0] = estimator.stream()
    start, latencies, lock = time.perf_counter() + 0.5, [], threading.Lock()

    def follow(k: int) -> None:
        own, values = [], series.values[k % len(series), : series.lengths[k % len(series)]]
        due = start + random.Random(k).random() * SIZE / RATE
        for first in range(0, len(values), SIZE):
            due += SIZE / RATE
            if due > start + seconds:
                break
            time.sleep(max(0.0, due - time.perf_counter()))
            followers[k].push(values[first : first + SIZE])
            followers[k].predict(interval=0.9)
            own.append(1000 * (time.perf_counter() - due))
        with lock:
            latencies.extend(own)

    threads = [threading.Thread(target=follow, args=[k]) for k in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    marks = {"p50": 50, "p99": 99, "p99_9": 99.9, "max": 100}
    found = {name: round(float(np.percentile(latencies, mark)), 1) for name, mark in marks.items()}
    return {"streams": streams, "pushes": len(latencies), "latency_ms": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    print(json.dumps(run(options.model, options.data, streams=options.streams, seconds=options.seconds)))


if __name__ == "__main__":
    main()
