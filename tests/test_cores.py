"""Counting cores, with control groups faked in a folder."""

import math
import os

import pytest

from neuralrde import _cores
from neuralrde._version import versions
from neuralrde.signatures import _kernel

V2 = {"proc/self/cgroup": "0::/"}
V1 = {"proc/self/cgroup": "9:name=systemd:/\n4:cpu,cpuacct:/box\n3:cpuset:/\n0::/"}
TREES = {
    "version 2": (V2 | {"sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
    "no quota": (V2 | {"sys/fs/cgroup/cpu.max": "max 100000\n"}, math.inf),
    "a half is rounded up": (V2 | {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
    "a parent's quota counts": (
        {
            "proc/self/cgroup": "0::/user.slice/run.scope",
            "sys/fs/cgroup/user.slice/cpu.max": "300000 100000",
            "sys/fs/cgroup/user.slice/run.scope/cpu.max": "800000 100000",
        },
        3,
    ),
    "mounted as root": ({"proc/self/cgroup": "0::/docker/4f2a", "sys/fs/cgroup/cpu.max": "400000 100000"}, 4),
    "version 1": (
        V1
        | {
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "500000",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
        },
        5,
    ),
    "version 1, mounted as cpu": (
        V1 | {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
        1,
    ),
    "version 1, no quota": (
        V1 | {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
        math.inf,
    ),
    "hybrid": (V1 | {"sys/fs/cgroup/unified/cpu.max": "700000 100000"}, 7),
    "another group's quota does not count": (
        V1 | {"sys/fs/cgroup/cpu/other/cpu.cfs_quota_us": "1", "sys/fs/cgroup/cpu/other/cpu.cfs_period_us": "1"},
        math.inf,
    ),
    "nonsense": ({"proc/self/cgroup": "what\n:::\n0::/", "sys/fs/cgroup/cpu.max": "a b c"}, math.inf),
    "another system": ({}, math.inf),
}


@pytest.mark.parametrize("name", TREES)
def test_quotas(tmp_path, name):
    files, expected = TREES[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert _cores.quota(tmp_path) == expected


def test_one_count_for_all(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)), raising=False)
    monkeypatch.setattr(_cores, "_quota", lambda: 3)
    assert _cores.cores() == 3
    assert _kernel._threads() == 3
    assert versions()["cores"] == "3"
    monkeypatch.setattr(_cores, "_quota", lambda: math.inf)
    assert _cores.cores() == 32
