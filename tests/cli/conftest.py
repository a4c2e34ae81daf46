"""A small table of series, and one run on it that all tests share."""

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from neuralrde.datasets import order_of_events
from neuralrde.tools.cli import main

COLUMNS = ["--id", "patient", "--time", "hour", "--target", "ill"]
# One small model. The default, four of several scales, compiles four times as long: test_messages.py runs it once.
SMALL = ["--model", "neural-rde", "--set", "model.state=8", "--set", "model.width=16"]
QUICK = ["--step", "8", "--epochs", "6", *SMALL, "--batch-size", "16"]


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(capsys):
    """Run the command line in this process, as the entry point does."""

    def run(*arguments) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        # The help is in colours under FORCE_COLOR=1, as many CI systems have it.
        return Outcome(code, *(re.sub(r"\x1b\[[\d;]*m", "", text) for text in capsys.readouterr()))

    return run


@pytest.fixture(scope="session")
def hearts(tmp_path_factory) -> Path:
    """Sixty series in a long table; which channel steps first is the class. Some values are missing."""
    data = order_of_events(samples=60, length=33, events=4, seed=1)
    path = tmp_path_factory.mktemp("data") / "hearts.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", "hour", "x", "y", "ill"])
        for i, sample in enumerate(data.series.values):
            for k, (x, y) in enumerate(sample[: 33 - i % 3]):
                writer.writerow([f"p{i}", k / 2, "" if (i + k) % 17 == 5 else x, y, data.classes[data.target[i]]])
    return path


@pytest.fixture(scope="session")
def trained(hearts, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "hearts"
    assert main(["fit", str(hearts), *COLUMNS, *QUICK, "--out", str(folder)]) == 0
    return folder
