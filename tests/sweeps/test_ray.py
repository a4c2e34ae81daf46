"""Sweeps on Ray, which starts on this machine: workers that die, data that are shared, cores that are counted."""

import os
import signal
import subprocess
import sys
import time

import pytest

from neuralrde.tools.sweeps import RayPool, Sweep, Task, content_key

from .work import begun, results_in, squares

pytest.importorskip("ray", reason="sweeps on Ray need the extra ray")

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("ray")]


def task(x, **more):
    settings = {"x": x, **more}
    return Task(content_key(settings), {"data": "d", "x": x, "seed": 0}, settings, "d")


def test_tasks_run_side_by_side_and_survive_their_workers(tmp_path, root, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), *sys.path]))  # workers import tests.sweeps.work
    sweep = Sweep(tmp_path, [task(1), task(2, die=1), task(3, error="no"), task(4, die=9)])
    with RayPool(squares, data={"d": [2, 3]}, folder=sweep.runs, cores=1, retries=1) as pool:
        assert pool._ray.get_runtime_context().get_node_id()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # Ray's own handler would end this program
        sweep.run(pool)
        lines = {line["point"]["x"]: line for line in results_in(sweep.folder)}
        assert {x: line["status"] for x, line in lines.items()} == {1: "done", 2: "done", 3: "failed", 4: "failed"}
        assert (lines[1]["value"], lines[2]["value"]) == (5.0, 20.0)  # (2 + 3) x^2
        assert lines[1]["cores"] == 1
        assert "died 2 times" in lines[4]["error"]
        times = begun(sweep.runs)
        assert {x: times[line["key"]] for x, line in lines.items()} == {1: 1, 2: 2, 3: 1, 4: 2}


def test_without_ray_an_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"no Ray to run it on\. Write `pip install 'neuralrde\[ray\]'`, or --no-ray"):
        RayPool(squares, data={}, folder=tmp_path)


@pytest.mark.slow  # two starts of Ray, and JAX in each
def test_an_interrupted_sweep_goes_on_from_its_checkpoints(tmp_path):
    from benchmarks.stress.sweep_cluster import CONFIG, write_table

    text = CONFIG.format(data=write_table(tmp_path / "hearts.csv"), epochs=3000).replace("[4, 8, 16]", "[8]")
    (tmp_path / "sweep.toml").write_text(
        text.replace("depth = [1, 2]", "depth = [1]").replace("[0, 1, 2, 3]", "[0, 1]")
    )
    command = [sys.executable, "-m", "neuralrde", "sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "out")]
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is ignored where tests run in the background
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "preexec_fn": heard}
    driver = subprocess.Popen(command, **options)
    while len(list(tmp_path.glob("out/runs/*/checkpoint.nrde"))) < 2 and driver.poll() is None:
        time.sleep(0.1)
    time.sleep(2)
    driver.send_signal(signal.SIGINT)
    told, _ = driver.communicate(timeout=120)
    assert driver.returncode == 130, told
    assert "the same command goes on with the other 2 runs" in told
    assert results_in(tmp_path / "out") == []
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    lines = results_in(tmp_path / "out")
    assert len(lines) == 2
    # Not only from the checkpoint after the first epoch: the interrupt wrote another.
    assert all(line["resumed"] > 1 for line in lines), lines
