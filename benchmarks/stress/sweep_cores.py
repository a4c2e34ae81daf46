"""Small runs on two cores: side by side with one core each, or one after another with both. And joblib's workers.

`python -m benchmarks.stress.sweep_cores runs` times a sweep on Ray in both ways, once its workers have compiled
everything. `python -m benchmarks.stress.sweep_cores joblib` times `GridSearchCV` with one and two processes, each in a
fresh one, with and without a shared cache of compiled programs, and with workers that do not share the cores out.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..timing import table

CONFIG = """
data = "{data}"
[table]
id = "patient"
time = "hour"
target = "ill"
[model]
name = "neural-rde"
[windows]
depth = 2
step = {step}
[training]
epochs = {epochs}
batch_size = {batch}
patience = "none"
[grid]
seed = {seeds}
[sweep]
cores = {cores}
"""
# Windows are few or many, batches small or large: what can be shared out between cores differs.
SIZES = {"32 series in a batch, 8 windows": (32, 4, 60), "128 series in a batch, 33 windows": (128, 1, 12)}


def runs() -> None:
    from .sweep_cluster import write_table

    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data = write_table(folder / "hearts.csv", samples=400)
        for name, (batch, step, epochs) in SIZES.items():
            seconds = {}
            for cores in (1, 2):
                options = {"data": data, "batch": batch, "step": step, "epochs": epochs, "cores": cores}
                seconds[cores] = _sweep(folder / f"{cores}-{batch}", options)
            each = [f"{seconds[1]:.1f}", f"{seconds[2]:.1f}", f"{seconds[2] / seconds[1]:.2f}"]
            rows.append([name, *each])
            print(rows[-1], flush=True)
    print(table(["8 runs", "one core each, side by side, s", "two cores each, in turn, s", "gain"], rows))


def _sweep(folder: Path, options: dict) -> float:
    """Seconds for eight runs, after two that compile."""
    from neuralrde.tools.cli.sweep_tasks import read_sweep, run_one
    from neuralrde.tools.sweeps import RayPool

    folder.mkdir()
    taken = []
    pool = None
    for name, seeds in (("warm", [100, 101]), ("timed", list(range(8)))):
        (folder / f"{name}.toml").write_text(CONFIG.format(seeds=seeds, **options))
        sweep, shared, on_ray = read_sweep(folder / f"{name}.toml", folder / name)
        if pool is None:
            pool = RayPool(run_one, **shared | {"folder": folder / "runs"}, **on_ray).__enter__()
        begun = time.monotonic()
        sweep.run(pool)
        assert sweep.finished()
        taken.append(time.monotonic() - begun)
    pool.__exit__()
    return taken[-1]


SEARCH = """
import sys, time
import numpy as np
from sklearn.model_selection import GridSearchCV
import neuralrde as nrde
from neuralrde.datasets import order_of_events

data = order_of_events(samples=200, length=200, seed=0)
model = nrde.NeuralRDEClassifier(model="neural-rde", windows=nrde.Windows(step=8, depth=2), epochs=40, random_state=0)
grid = {"model__state": [16, 32], "optimizer__learning_rate": [0.003, 0.01]}
begun = time.monotonic()
search = GridSearchCV(model, grid, cv=3, n_jobs=int(sys.argv[1]), refit=False).fit(data.series.values, data.target)
print(time.monotonic() - begun, search.best_score_)
"""


def joblib() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        shared = {"NEURALRDE_PROGRAMS": cache}
        for name, jobs, environment in (
            ("n_jobs=1, both cores", 1, {}),
            ("n_jobs=2, one core each", 2, {}),
            ("n_jobs=2, both cores each", 2, {"NEURALRDE_CORES": "2"}),
            ("n_jobs=2, one core each, an empty shared cache", 2, shared),
            ("n_jobs=2, one core each, a filled shared cache", 2, shared),
        ):
            command = [sys.executable, "-c", SEARCH, str(jobs)]
            environment = {"NEURALRDE_PROGRAMS": "off"} | environment
            done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
            seconds, score = map(float, done.stdout.split())
            rows.append([name, f"{seconds:.1f}", f"{score:.4f}"])
            print(rows[-1], flush=True)
    print(table(["12 fits by `GridSearchCV`", "seconds", "best score"], rows))


if __name__ == "__main__":
    {"runs": runs, "joblib": joblib}[sys.argv[1]]()
