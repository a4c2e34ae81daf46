"""Whatever a file says, it is read, or refused with a sentence: no other error, no crash, no hang, no wrong number."""

import os
import random
from pathlib import Path

import pytest

from .run import FAILURES, fuzz
from .targets import Input, Target, Wrong
from .worker import outcome


def check(results, enough):
    assert results.inputs >= enough
    assert not results.failures, f"\n{results.table()}\n{results.list_of_failures()}"


def test_a_few_inputs_of_every_kind():
    check(fuzz(2000, seed=1), 2000)


@pytest.mark.slow
def test_many_inputs_within_a_budget():
    """100,000 of them, or as many as half an hour allows: at least 20,000 on two cores."""
    check(fuzz(100_000, seed=0, workers=os.cpu_count() or 1, seconds=1800), 20_000)


def ends(run, tmp_path: Path) -> str:
    target = Target(lambda rng: Input("a", {"": b""}), run, list)
    return outcome(target, target.make(random.Random(0)), tmp_path)[0]


def test_every_bad_end_is_noticed(tmp_path, monkeypatch):
    """The fuzzer must be able to fail."""
    from neuralrde.datasets import read

    monkeypatch.setattr("tests.fuzz.worker.GROWTH", 50 * 2**20)
    assert ends(lambda path, given: None, tmp_path) == "accepted"
    assert ends(lambda path, given: read(path), tmp_path) == "refused"
    assert ends(lambda path, given: [][1], tmp_path) == "raw"
    assert ends(lambda path, given: int("evil"), tmp_path) == "raw"

    def wrong(path, given):
        raise Wrong("infinity")

    assert ends(wrong, tmp_path) == "wrong"
    assert ends(lambda path, given: bytearray(os.urandom(2**20)) * 4000, tmp_path) in ("memory", "raw")
    assert {"raw", "wrong", "memory", "hang", "crash"} == set(FAILURES)
