"""Where the real data lie: as the variable says, or beside the repository."""

import os
from pathlib import Path

import numpy as np
import pytest

from neuralrde.datasets import Dataset
from neuralrde.paths import Series


@pytest.fixture(scope="session")
def scp1() -> Dataset:
    folder = Path(os.environ.get("NEURALRDE_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
    file = folder / "uea_SelfRegulationSCP1" / "SelfRegulationSCP1.npz"
    if not file.exists():
        pytest.skip(f"no real data in {folder}: set NEURALRDE_DATA to the folder that holds them")
    content = np.load(file, allow_pickle=False)
    return Dataset(Series.from_array(content["X"]), content["y"], name="SelfRegulationSCP1")
