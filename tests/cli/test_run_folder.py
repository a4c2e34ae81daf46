"""Where a run is written, and that two runs never share a folder."""

import json
import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from neuralrde.datasets.dataset import safe_name
from neuralrde.tools.cli.console import Refusal
from neuralrde.tools.cli.run_folder import RunFolder

from .conftest import COLUMNS, QUICK


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("hearts", "hearts"),
        ("../../outside", "outside"),
        ("/etc/passwd", "passwd"),
        ("..", "data"),
        (".", "data"),
        ("", "data"),
        ("a/..", "data"),
        (".hidden", "hidden"),
        ("C:\\windows\\x", "x"),
        ("Herz & Lunge 1.5", "Herz_Lunge_1.5"),
        ("-rf", "rf"),
        ("心", safe_name("心")),  # data, where the locale has no such letter
        ("x" * 300, "x" * 60),
    ],
)
def test_the_data_do_not_choose_the_folder(name, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RunFolder.new(name, None, resume=False) as found:
        assert found.path == Path("runs") / folder


def test_a_file_that_names_a_folder_elsewhere(run, tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    values = np.random.default_rng(0).normal(size=(30, 20, 1))
    np.savez(inside / "d.npz", X=values, y=np.arange(30) % 2, name="../../outside")
    assert run("fit", "d.npz", *QUICK, "--epochs", 1, "--no-plots").code == 0
    assert [folder.name for folder in (inside / "runs").iterdir()] == ["outside"]
    assert not (tmp_path / "outside").exists()


def test_the_next_name_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RunFolder.new("a", None, resume=False) as one, RunFolder.new("a", None, resume=False) as other:
        assert (one.path, other.path) == (Path("runs/a"), Path("runs/a-2"))


def test_a_second_run_in_a_folder_is_refused(tmp_path):
    refused = pytest.raises(Refusal, match="another run is being trained in it")
    with RunFolder.new("a", tmp_path / "run", resume=False), refused:
        RunFolder.new("a", tmp_path / "run", resume=False)
    with RunFolder.new("a", tmp_path / "run", resume=False) as again:
        assert again.path == tmp_path / "run"
    assert [file.name for file in (tmp_path / "run").iterdir()] == [".lock"]


ROUNDS, OUTS = 20, (None, Path("run"))


def compete(barrier, queue, folder):
    """In each round, try for a folder at the same time as the others, and hold it until all have tried."""
    for out in OUTS:
        for round in range(ROUNDS):
            os.chdir(folder / str(out) / str(round))
            barrier.wait()
            try:
                found = RunFolder.new("a", out, resume=False)
            except Refusal:
                found = None
            queue.put((out, round, None if found is None else str(found.path)))
            barrier.wait()
            if found is not None:
                found.release()


def test_of_processes_released_at_once_each_has_its_own_folder(tmp_path):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imported once, instead of by each process
    for out in OUTS:
        for round in range(ROUNDS):
            (tmp_path / str(out) / str(round)).mkdir(parents=True)
    barrier, queue = context.Barrier(3), context.Queue()
    processes = [context.Process(target=compete, args=(barrier, queue, tmp_path)) for _ in range(3)]
    for process in processes:
        process.start()
    found = [queue.get(timeout=300) for _ in range(len(OUTS) * ROUNDS * len(processes))]
    for process in processes:
        process.join(timeout=60)
    for out, expected in zip(OUTS, (["runs/a", "runs/a-2", "runs/a-3"], ["None", "None", "run"]), strict=True):
        for round in range(ROUNDS):
            assert sorted(str(name) for where, number, name in found if (where, number) == (out, round)) == expected


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "neuralrde", "fit", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


@pytest.mark.long
def test_two_trainings_in_one_folder(hearts, tmp_path, run):
    """The second is refused, and the first is what it would have been alone; a killed one holds nothing."""
    out = tmp_path / "two"
    forever = ["--epochs", 10**6, "--set", "patience=1000000", "--no-plots"]
    first = start(hearts, *COLUMNS, *QUICK, *forever, "--out", out, "--seed", 1)
    try:
        while not (out / "settings.toml").exists():
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        settings = (out / "settings.toml").read_text("utf-8")
        second = run("fit", hearts, *COLUMNS, *QUICK, "--out", out, "--seed", 2)
        assert second.code == 2
        assert "another run is being trained in it" in second.err
        assert (out / "settings.toml").read_text("utf-8") == settings
        # What asks for its model meanwhile is told why there is none.
        early = run("evaluate", out)
        assert early.code == 1
        assert "is still being trained" in early.err
    finally:
        first.kill()
        first.communicate()
    third = run("fit", hearts, *COLUMNS, *QUICK, "--epochs", 1, "--out", out, "--no-plots", "--json")
    assert third.code == 0, third.err


def test_a_stopped_training_has_no_model_yet(run, tmp_path):
    (tmp_path / "settings.toml").write_text('data = "x.csv"\n')
    (tmp_path / "checkpoint.nrde").write_bytes(b"")
    outcome = run("predict", tmp_path, "spirals")
    assert outcome.code == 1
    assert f"Go on with `neuralrde fit --resume --out {shlex.quote(str(tmp_path))}`" in outcome.err


def test_parts_are_kept_by_id(trained):
    split = json.loads((trained / "split.json").read_text("utf-8"))
    assert split["by"] == "id"
    ids = [*split["train"], *split["validation"], *split["test"]]
    assert sorted(ids) == sorted(f"p{k}" for k in range(60))


def test_data_that_have_changed_are_not_evaluated_as_if_they_had_not(run, hearts, tmp_path):
    data, out = tmp_path / "hearts.csv", tmp_path / "run"
    data.write_text(hearts.read_text("utf-8"))
    assert run("fit", data, *COLUMNS, *QUICK, "--epochs", 1, "--out", out, "--no-plots").code == 0
    data.write_text("\n".join(hearts.read_text("utf-8").splitlines()[:-1]) + "\n")
    for arguments in ([out], [out, data]):
        outcome = run("evaluate", *arguments)
        assert outcome.code == 1
        assert "has changed since the run was trained" in outcome.err
        assert "--all" in outcome.err
    assert run("evaluate", out, "--all", "--json").json["samples"] == 60


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    if os.geteuid() == 0:
        target = tmp_path / "missing" / "metrics.json"
    else:
        tmp_path.chmod(0o500)
        target = tmp_path / "metrics.json"
    from neuralrde.tools.cli.run_folder import write

    with pytest.raises(OSError, match=r"metrics\.json'$"):
        write(target, "{}")


@pytest.mark.long
def test_a_run_in_the_posix_locale(tmp_path):
    """Letters beyond ASCII in the names of data, columns and classes: printed with escapes, kept as they are."""
    values = np.random.default_rng(0).normal(size=(30, 20, 1))
    np.savez(tmp_path / "d.npz", X=values, y=np.array(["krank", "gesund ±"])[np.arange(30) % 2], name="Herz心")
    posix = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "neuralrde", "fit", "d.npz", "--model", "closed-form", "--folds", "2"]
    found = subprocess.run(command, cwd=tmp_path, env={**os.environ, **posix}, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "gesund \\xb1" in found.stdout
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == ["Herz"]
    metrics = json.loads((tmp_path / "runs" / "Herz" / "metrics.json").read_text("utf-8"))
    assert "gesund ±" in metrics["training_targets"]["counts"]
