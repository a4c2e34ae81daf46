"""Whatever a file says, it is read, or refused with a sentence: no other error, no crash, no hang, no wrong number."""

import os
import random
import sys
from pathlib import Path

import pytest

from .run import FAILURES, fuzz
from .targets import Input, Target, Wrong, targets
from .worker import outcome

pytestmark = pytest.mark.long


def check(results, enough):
    assert results.inputs >= enough
    assert not results.failures, f"\n{results.table()}\n{results.list_of_failures()}"


def test_a_few_inputs_of_every_kind():
    # Regressors are files like classifiers, and take as long to fit: they are left to the test below.
    check(fuzz(2000, seed=1, only=[name for name in targets() if name != "regressor"]), 2000)


@pytest.mark.slow
def test_many_inputs_within_a_budget():
    """100,000 of them, or as many as half an hour allows: at least 20,000 on two cores."""
    check(fuzz(100_000, seed=0, workers=os.cpu_count() or 1, seconds=1800), 20_000)


def ends(run, tmp_path: Path) -> str:
    target = Target(lambda rng: Input("a", {"": b""}), run, list)
    return outcome(target, target.make(random.Random(0)), tmp_path)[0]


# Says what a worker says, but for the input 0 it crashes, and for the input 1 its time is over.
BREAKING = """
import json, os, signal, sys
tell = lambda **record: print(json.dumps(record), flush=True)
tell(ready=True)
for line in sys.stdin:
    tell(begin=int(line), target="settings")
    if int(line) < 2:
        os.kill(os.getpid(), [signal.SIGSEGV, signal.SIGPROF][int(line)])
    tell(number=int(line), target="settings", outcome="refused", why="")
"""


def test_every_bad_end_is_noticed(tmp_path, monkeypatch):
    """The fuzzer must be able to fail."""
    from neuralrde.datasets import read

    assert ends(lambda path, given: None, tmp_path) == "accepted"
    assert ends(lambda path, given: read(path), tmp_path) == "refused"
    assert ends(lambda path, given: [][1], tmp_path) == "raw"
    assert ends(lambda path, given: int("evil"), tmp_path) == "raw"

    def wrong(path, given):
        raise Wrong("infinity")

    assert ends(wrong, tmp_path) == "wrong"
    memory = iter([0, 2**30])
    monkeypatch.setattr("tests.fuzz.worker._largest_memory", lambda: next(memory))
    assert ends(lambda path, given: None, tmp_path) == "memory"


def test_crashes_and_hangs_are_told_apart(monkeypatch):
    """Inputs 0 and 1 end the worker, each in its own way; the next ones get another worker."""
    monkeypatch.setattr("tests.fuzz.run.WORKER", [sys.executable, "-c", BREAKING])
    counts = fuzz(4, seed=0, only=["settings"]).counts["settings"]
    assert counts == {"crash": 1, "hang": 1, "refused": 2}
    assert {"raw", "wrong", "memory", "hang", "crash"} == set(FAILURES)
