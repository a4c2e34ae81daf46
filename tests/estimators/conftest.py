"""Real data for the estimators."""

import pytest

from neuralrde.datasets import Dataset, load


@pytest.fixture
def scp1(real_data) -> Dataset:
    return load("SelfRegulationSCP1")
