"""Shared by all tests."""

from pathlib import Path

import hypothesis
import pytest

# Examples compile JAX functions, which takes as long as it takes; and a failure must come back the next time.
hypothesis.settings.register_profile("neuralrde", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("neuralrde")


@pytest.fixture
def root() -> Path:
    return Path(__file__).parent.parent
