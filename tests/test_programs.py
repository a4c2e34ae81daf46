"""Compiled programs are forgotten before a process runs out of memory maps."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from neuralrde import devices
from neuralrde.models import NeuralRDE
from neuralrde.training import Examples, Settings, SquaredError, fit

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc: not Linux")


class Counted:
    """A program that knows how often it was compiled."""

    def __init__(self):
        self.times = 0
        self.program = jax.jit(self.traced)
        self.program(1.0)

    def traced(self, x):
        self.times += 1
        return x + 1

    def is_kept(self) -> bool:
        before = self.times
        assert self.program(1.0) == 2.0
        return self.times == before


def test_programs_are_forgotten_when_there_are_many():
    counted = Counted()
    assert not devices.drop_programs()
    assert counted.is_kept()
    assert devices.drop_programs(most=10)
    assert not counted.is_kept()


def test_a_training_begins_with_that(monkeypatch, tmp_path):
    maps = devices._MAPS.read_bytes().count(b"\n")
    (tmp_path / "limit").write_text(f"{maps * 3 // 2}\n")  # of which they are more than half
    monkeypatch.setattr(devices, "_LIMIT", tmp_path / "limit")
    counted, rng = Counted(), np.random.default_rng(0)
    model = NeuralRDE(channels=1, outputs=1, depth=1, state=2, width=2, key=jax.random.key(0))
    examples = Examples((np.zeros((4, 1), np.float32), rng.normal(size=(4, 3, 1)).astype(np.float32)), np.zeros((4, 1)))
    assert fit(model, examples, loss=SquaredError(), settings=Settings(epochs=1)).epoch == 1
    assert not counted.is_kept()


def test_elsewhere_nothing_is_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "_MAPS", tmp_path / "none")
    assert not devices.drop_programs(most=0)


TRAINING = """
import sys
import jax
import numpy as np

hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
from neuralrde import NeuralRDEClassifier, Windows

X = np.random.default_rng(0).normal(size=(6, 30, 2))
NeuralRDEClassifier(model="neural-rde", windows=Windows(step=5, depth=2), epochs=1, verbose=False).fit(X, [0, 1] * 3)
print(len(hits), jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.long
def test_another_process_compiles_nothing_again(tmp_path):
    def trained(programs: str) -> tuple[int, str]:
        command, variables = [sys.executable, "-c", TRAINING], os.environ | {"NEURALRDE_PROGRAMS": programs}
        found = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.split()
        return int(found[0]), found[1]

    hits, folder = trained(str(tmp_path / "programs"))
    assert hits == 0
    assert Path(folder).parent == tmp_path / "programs"
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    steps = [file for file in Path(folder).iterdir() if file.name.startswith("jit__step")]
    assert steps
    assert trained(str(tmp_path / "programs"))[0] >= 1
    assert trained("off") == (0, "None")
