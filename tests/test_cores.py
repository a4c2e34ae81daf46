"""Counting cores."""

import math
import os

import joblib

from neuralrde import _cores
from neuralrde._version import versions
from neuralrde.signatures import _library


def test_a_containers_quota_counts(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)), raising=False)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    _cores._quota.cache_clear()
    assert _cores.cores() == 2
    _cores._quota.cache_clear()


def test_one_count_for_all(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)), raising=False)
    monkeypatch.setattr(_cores, "_quota", lambda: 3)
    assert _cores.cores() == 3
    assert _library.cores() == 3
    assert versions()["cores"] == "3"
    monkeypatch.setattr(_cores, "_quota", lambda: math.inf)
    assert _cores.cores() == 32
