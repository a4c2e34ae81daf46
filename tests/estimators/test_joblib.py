"""`GridSearchCV(n_jobs=2)`: two processes, each with its share of the cores, and the scores of one process."""

import os

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.model_selection import GridSearchCV

from neuralrde import NeuralRDEClassifier, Windows
from neuralrde._cores import cores
from neuralrde.datasets import order_of_events


def place() -> tuple[int, int, int, str]:
    """In a worker: which process it is, its cores, its JAX devices, and what joblib says."""
    from neuralrde.devices import try_all_cores

    return os.getpid(), cores(), try_all_cores(), os.environ.get("OMP_NUM_THREADS", "")


@pytest.mark.long
def test_workers_share_the_cores_out(monkeypatch):
    for name in ("NEURALRDE_CORES", "OMP_NUM_THREADS", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    found = set(Parallel(n_jobs=2)(delayed(place)() for _ in range(4)))
    assert os.getpid() not in {pid for pid, *_ in found}
    for _, own, devices, said in found:
        assert own == devices == max(1, min(cores(), int(said)))
        assert own <= max(1, cores() // 2)


@pytest.mark.slow  # two processes that import and compile everything
def test_a_search_in_two_processes_finds_what_one_finds(monkeypatch):
    for name in ("NEURALRDE_CORES", "OMP_NUM_THREADS", "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    # Sums are rounded differently on another number of devices: one here too.
    monkeypatch.setenv("NEURALRDE_CORES", "1")
    data = order_of_events(samples=60, length=32, seed=0)
    model = NeuralRDEClassifier(model="neural-rde", windows=Windows(step=8, depth=2), epochs=5, random_state=0)
    grid = {"model__state": [4, 8], "optimizer__learning_rate": [0.003, 0.03]}
    one, two = (
        GridSearchCV(model, grid, cv=2, n_jobs=jobs, refit=False).fit(data.series.values, data.target)
        for jobs in (1, 2)
    )
    names = [name for name in one.cv_results_ if "test_score" in name and "rank" not in name]
    assert len(names) == 4
    for name in names:
        np.testing.assert_array_equal(one.cv_results_[name], two.cv_results_[name])
