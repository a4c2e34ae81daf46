"""A sweep of 24 small runs on a Ray cluster of two nodes on this machine, one of which is killed midway.

`python -m benchmarks.stress.sweep_cluster FOLDER` prints what happened: every result arrives, none twice, and a
second start runs nothing again. tests/sweeps/test_cluster.py checks it.
"""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from neuralrde.datasets import order_of_events

RUNS = 24
CONFIG = """
data = "{data}"
divide = "random"

[table]
id = "patient"
time = "hour"
target = "ill"

[model]
name = "neural-rde"
state = 8
width = 16

[training]
epochs = {epochs}
patience = "none"

[grid]
depth = [1, 2]
step = [4, 8, 16]
seed = [0, 1, 2, 3]
"""


def write_table(path: Path, *, samples: int = 60) -> Path:
    """Series in a long table; which channel steps first is the class."""
    data = order_of_events(samples=samples, length=33, events=4, seed=1)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", "hour", "x", "y", "ill"])
        for i, sample in enumerate(data.series.values):
            writer.writerows([f"p{i}", k / 2, x, y, data.classes[data.target[i]]] for k, (x, y) in enumerate(sample))
    return path


def kill_node(node: Any) -> int:
    """Kill -9 a node: its raylet and all that the raylet has started. How many processes that was."""
    victims = [_raylet(node), *_descendants(_raylet(node))]
    for pid in victims:  # the raylet first, so that it starts no others
        os.kill(pid, signal.SIGKILL)
    return len(victims)


def _raylet(node: Any) -> int:
    [info] = node.all_processes["raylet"]
    return info.process.pid


def _descendants(pid: int) -> list[int]:
    rows = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines()
    parents = {int(child): int(parent) for child, parent in map(str.split, rows)}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """The results, as their files have them."""
    return [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("results/*.json"))]


def run(folder: Path, *, kill_after: int = 8, epochs: int = 200) -> dict[str, Any]:
    """The sweep with a node killed after so many results, and then a second start."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    data = write_table(folder / "hearts.csv")
    (folder / "sweep.toml").write_text(CONFIG.format(data=data, epochs=epochs))
    options = {"object_store_memory": 200 * 2**20, "num_cpus": 1}
    cluster = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    try:
        second = cluster.add_node(**options)
        command = [sys.executable, "-m", "neuralrde", "sweep", str(folder / "sweep.toml"), "--out", str(folder / "out")]
        command += ["--address", cluster.address, "--debug"]
        begun = time.monotonic()
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while len(lines_of(folder / "out")) < kill_after and driver.poll() is None:
            time.sleep(0.2)
        # Midway through a run of that node, which has written a checkpoint.
        while driver.poll() is None and not _is_training(second, folder / "out"):
            time.sleep(0.02)
        killed, before = kill_node(second), len(lines_of(folder / "out"))
        cluster.remove_node(second, allow_graceful=False)
        told, _ = driver.communicate(timeout=600)
        seconds = time.monotonic() - begun
        lines = lines_of(folder / "out")
        again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    finally:
        cluster.shutdown()
    return {
        "code": driver.returncode,
        "told": told,
        "killed": killed,
        "before": before,
        "seconds": round(seconds, 1),
        "lines": lines,
        "keys": len({line["key"] for line in lines}),
        "resumed": [line["resumed"] for line in lines],
        "again": again.stdout + again.stderr,
        "lines_again": lines_of(folder / "out"),
    }


def _is_training(node: Any, folder: Path) -> bool:
    """Whether a process of the node has the lock of a run's folder with a checkpoint in it open."""
    locks = {str(file.with_name(".lock").resolve()) for file in folder.glob("runs/*/checkpoint.nrde")}
    for process in _descendants(_raylet(node)):
        with contextlib.suppress(OSError):  # it has ended, or closed a file meanwhile
            if locks & {str(file.readlink()) for file in Path(f"/proc/{process}/fd").iterdir()}:
                return True
    return False


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder))
    lines = found.pop("lines")
    same = found.pop("lines_again") == lines
    print(found.pop("told"))
    print(json.dumps(found | {"lines": len(lines), "second start changed nothing": same}, indent=2))


if __name__ == "__main__":
    main()
