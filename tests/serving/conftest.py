"""Two small models, trained once, and a server of both."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the service is an extra: pip install 'neuralrde[serve]'")

from neuralrde import Config, NeuralRDE, NeuralRDEClassifier, NeuralRDERegressor

from .servers import Server, start

SMALL: dict[str, Any] = {
    "model": Config(NeuralRDE, state=8, width=8),
    "windows": 16,
    "closed_form": False,
    "members": 1,
    "epochs": 2,
    "random_state": 0,
    "verbose": False,
}


@dataclass
class Trained:
    """Estimators, and their files."""

    folder: Path
    rate: NeuralRDERegressor
    kind: NeuralRDEClassifier

    @property
    def files(self) -> tuple[Path, Path]:
        return self.folder / "rate.nrde", self.folder / "kind.nrde"


def walks(count: int, length: int, *, seed: int = 0) -> np.ndarray:
    """Random walks of two channels."""
    return np.cumsum(np.random.default_rng(seed).normal(size=(count, length, 2)), axis=1) / 10


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Trained:
    folder, X = tmp_path_factory.mktemp("models"), walks(220, 129)
    rate = NeuralRDERegressor(**SMALL).fit(X, X[:, -1, 0])  # enough series that 30 calibrate its intervals
    kind = NeuralRDEClassifier(**SMALL).fit(X[:60], np.where(X[:60, -1, 0] > 0, "up", "down"))
    assert rate.scores_ is not None
    found = Trained(folder, rate, kind)
    for model, file in zip((rate, kind), found.files, strict=True):
        model.save(file)
    return found


@pytest.fixture(scope="session")
def server(trained, tmp_path_factory):
    """A server of both models that tests share; those that change limits or kill start their own."""
    found: Server = start(tmp_path_factory.mktemp("server"), *trained.files, "--batch", 32)
    yield found
    if found.process.poll() is None:
        found.end()
