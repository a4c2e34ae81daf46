"""Shared by all tests."""

import os
from pathlib import Path

import hypothesis
import pytest

# Examples compile JAX functions, which takes as long as it takes; and a failure must come back the next time.
hypothesis.settings.register_profile("neuralrde", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("neuralrde")

# Where the real data lie: as the variable says, or beside the repository. Read once, before a test sets the variable.
REAL = Path(os.environ.get("NEURALRDE_DATA") or Path(__file__).parents[1].parent / "shared" / "data")


@pytest.fixture
def real_data(monkeypatch) -> Path:
    if not REAL.is_dir():
        pytest.skip(f"no real data in {REAL}: set NEURALRDE_DATA to the folder that holds them")
    monkeypatch.setenv("NEURALRDE_DATA", str(REAL))
    return REAL


@pytest.fixture
def root() -> Path:
    return Path(__file__).parent.parent
