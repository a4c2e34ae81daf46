"""Small data that need no files."""

import pytest

from neuralrde.datasets import Dataset, fractional_brownian_motion


@pytest.fixture(scope="session")
def small() -> Dataset:
    """60 series of 65 points: at step 16 four windows and no tail, at step 13 a tail."""
    return fractional_brownian_motion(samples=60, length=65)
