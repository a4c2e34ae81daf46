"""Where the real data lie: as the variable says, or beside the repository. And small data that need none."""

import os
from pathlib import Path

import pytest

from neuralrde.datasets import Dataset, fractional_brownian_motion

REAL = Path(os.environ.get("NEURALRDE_DATA") or Path(__file__).parents[2].parent / "shared" / "data")


@pytest.fixture
def real_data(monkeypatch) -> Path:
    if not REAL.is_dir():
        pytest.skip(f"no real data in {REAL}: set NEURALRDE_DATA to the folder that holds them")
    monkeypatch.setenv("NEURALRDE_DATA", str(REAL))
    return REAL


@pytest.fixture(scope="session")
def small() -> Dataset:
    """60 series of 65 points: at step 16 four windows and no tail, at step 13 a tail."""
    return fractional_brownian_motion(samples=60, length=65)
