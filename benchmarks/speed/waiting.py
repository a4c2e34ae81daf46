"""`python -m benchmarks waiting`: what a user waits for beside the computation, and the closed form of many series.

Every start is in a fresh process. Imports are timed in turn with those of the libraries below us.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ..timing import race, table

STARTS = {
    "jax, equinox, diffrax": ["-c", "import jax, equinox, diffrax"],
    "neuralrde": ["-c", "import neuralrde"],
    "neuralrde with estimators": ["-c", "import neuralrde; neuralrde.NeuralRDEClassifier"],
    "neuralrde --help": ["-m", "neuralrde", "--help"],
    "a wrong flag": ["-m", "neuralrde", "fit", "--nothing"],
    "inspect of a CSV": ["-m", "neuralrde", "inspect", "{folder}/walks.csv", "--id", "id", "--time", "t"],
}
FIRST_FIT = """
import time, numpy as np, neuralrde as nrde
X, y = np.random.default_rng(0).normal(size=(60, 100, 3)).cumsum(axis=1), np.arange(60) % 2
begin = time.perf_counter()
nrde.NeuralRDEClassifier(epochs=1, verbose=False).fit(X, y)
print(time.perf_counter() - begin)
"""
LENGTHS = 60
MANY = ((7_200, 46, 24), (8_926, 96, 2), (100_000, 46, 24))  # series, points, classes


def python(*arguments: str, **variables: str) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False).stdout


def main() -> None:
    import neuralrde as nrde

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"{number},{t},{value:.3f}" for number in range(20) for t, value in enumerate(rng.normal(size=50))]
        Path(folder, "walks.csv").write_text("\n".join(["id,t,x", *rows]))
        commands = {name: [part.format(folder=folder) for part in command] for name, command in STARTS.items()}
        runners = {name: lambda command=command: python(*command) for name, command in commands.items()}
        starts = race(runners, seconds=10.0, most=5)
        fits = [float(python("-c", FIRST_FIT, NEURALRDE_PROGRAMS=f"{folder}/programs")) for _ in range(3)]
    print("# Starting, in seconds\n")
    print(table(["process", "s"], [[name, f"{seconds:.2f}"] for name, seconds in starts.items()]))
    print(
        f"\nOne epoch of the neural default: {fits[0]:.1f} s in the first process, {min(fits[1:]):.1f} s in later ones."
    )

    X, y = rng.normal(size=(60, 200, 3)).cumsum(axis=1), np.arange(60) % 2
    model = nrde.NeuralRDEClassifier(epochs=2, closed_form=False, verbose=False).fit(X, y)
    seconds = []
    for length in rng.choice(np.arange(20, 2000), LENGTHS, replace=False):
        x = rng.normal(size=(length, 3)).cumsum(axis=0)
        begin = time.perf_counter()
        model.predict([x])
        seconds.append(1e3 * (time.perf_counter() - begin))
    slow = sum(value > 100 for value in seconds)
    print(f"\n# `predict([x])` of {LENGTHS} lengths never seen\n")
    print(f"median {np.median(seconds):.1f} ms, {slow} above 100 ms (the longest {max(seconds):.0f} ms)")

    print("\n# The closed form of many series\n")
    found = []
    for series, points, classes in MANY:
        y = rng.integers(classes, size=series)
        X = (rng.normal(size=(series, points)) + 0.1 * y[:, None]).cumsum(axis=1).astype(np.float32)
        begin = time.perf_counter()
        nrde.LogSignatureClassifier().fit(X, y)
        found.append([f"{series:,} x {points}, {classes} classes", f"{time.perf_counter() - begin:.1f}"])
        print(found[-1], file=sys.stderr, flush=True)
    print(table(["series x points", "fit, s"], found))
