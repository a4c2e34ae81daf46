"""`neuralrde fit --processes 2`: from data to run folder, and what its parent says when a worker is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neuralrde.cli import main
from neuralrde.cli.workers import free_port

from ..cli.conftest import COLUMNS, SMALL, hearts  # noqa: F401 (a fixture)

pytestmark = pytest.mark.long

# A neural model of one member compiles quickly.
QUICK = ["--model", "neural-rde", "--step", "8", *SMALL, "--batch-size", "16", "--no-plots", "--progress", "json"]


def command(*arguments, **variables) -> subprocess.Popen:
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment |= {"NEURALRDE_LOST_AFTER": "5", "JAX_NUM_CPU_DEVICES": "1"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [sys.executable, "-m", "neuralrde", "fit", *map(str, arguments)]
    return subprocess.Popen(words, env=environment | variables, **options)


def worker_of(parent: subprocess.Popen, number: int) -> int:
    """The process id of a worker, by its place in its environment."""
    for child in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text("utf-8").split():
        variables = Path(f"/proc/{child}/environ").read_bytes().decode().split("\0")
        place = next((one for one in variables if one.startswith("NEURALRDE_WORKER=")), None)
        if place is not None and json.loads(place.partition("=")[2])["number"] == number:
            return int(child)
    raise AssertionError(f"there is no worker {number}")


def wait_for_epoch(parent: subprocess.Popen, epoch: int) -> None:
    for line in parent.stderr or ():
        if line.startswith("{") and json.loads(line).get("epoch") == epoch:
            return
    raise AssertionError("it ended before that")


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="workers are found in /proc")


@needs_proc
def test_a_killed_worker_is_said_and_the_run_goes_on_with_resume(hearts, tmp_path):  # noqa: F811
    _killed_and_resumed(hearts, tmp_path, 1)


@pytest.mark.slow
@needs_proc
def test_process_0_is_killed(hearts, tmp_path):  # noqa: F811
    _killed_and_resumed(hearts, tmp_path, 0)


def _killed_and_resumed(data, tmp_path, number):
    out = tmp_path / "run"
    run = command(data, *COLUMNS, *QUICK, "--epochs", 20, "--out", out, "--processes", 2)
    wait_for_epoch(run, 2)
    os.kill(worker_of(run, number), signal.SIGKILL)
    begun = time.monotonic()
    _, errors = run.communicate(timeout=60)
    assert time.monotonic() - begun < 60
    assert run.returncode == 75, errors[-3000:]
    last = errors.strip().splitlines()[-1]
    assert f"Process {number} of 2 was lost: SIGKILL ended it" in last
    assert f"`neuralrde fit --resume --out {out} --processes 2`" in last
    assert not (out / "model.nrde").exists()

    again = command("--resume", "--out", out, "--processes", 2, "--json", "--no-plots")
    printed, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors[-3000:]
    assert json.loads(printed)["epochs"] == len((out / "history.jsonl").read_text("utf-8").splitlines()) == 20
    assert (out / "model.nrde").exists()
    assert (out / "predictions.csv").exists()


@pytest.mark.slow
@needs_proc
def test_a_signal_to_the_parent_ends_all_in_order(hearts, tmp_path):  # noqa: F811
    out = tmp_path / "run"
    run = command(data := hearts, *COLUMNS, *QUICK, "--epochs", 5000, "--out", out, "--processes", 2)
    assert data.exists()
    wait_for_epoch(run, 2)
    run.terminate()
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 143
    assert f"Terminated. Go on with `neuralrde fit --resume --out {out} --processes 2`." in errors
    assert (out / "checkpoint.nrde").exists()


@pytest.mark.slow
def test_as_slurm_starts_it_and_the_default_model(hearts, tmp_path):  # noqa: F811
    """SLURM's variables, without SLURM: two commands on "two nodes", the default ensemble, and the closed form."""
    job = next(job for job in range(os.getpid(), os.getpid() + 100) if _is_free(job % 2**12 + 65536 - 2**12))
    shared = {"SLURM_JOB_ID": str(job), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    model = ["--step", "8", "--epochs", "2", *SMALL, "--no-plots"]
    runs = [
        command(
            hearts, *COLUMNS, *model, "--out", tmp_path / "run", "--processes", "auto", **shared, SLURM_PROCID=number
        )
        for number in "01"
    ]
    told = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    assert "Run folder" in told[0][0]
    assert told[1][0] == ""
    alone = command(hearts, *COLUMNS, *model, "--out", tmp_path / "alone", "--json")
    expected = json.loads(alone.communicate(timeout=300)[0])["parts"]["test"]
    found = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))["parts"]["test"]
    # Two epochs, rounded differently.
    assert found["log_loss"] == pytest.approx(expected["log_loss"], rel=1e-2)


@pytest.mark.slow
def test_an_error_of_one_process_is_shown(hearts, tmp_path):  # noqa: F811
    """On "two hosts", of which the second has no such file: it says so, and the first ends too."""
    place = ["--processes", 2, "--coordinator", f"127.0.0.1:{free_port()}", *COLUMNS, *QUICK, "--epochs", 5]
    first = command(hearts, *place, "--process-id", 0, "--out", tmp_path / "run")
    second = command(tmp_path / "none.csv", *place, "--process-id", 1)
    _, errors = second.communicate(timeout=60)
    assert second.returncode in (1, 2)
    assert "none.csv" in errors
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 75
    assert "Another of the 2 processes was lost" in errors


def _is_free(port: int) -> bool:
    import socket

    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def test_a_store_is_trained_from_by_two_processes_as_by_one(hearts, tmp_path, capsys):  # noqa: F811
    store, options = tmp_path / "store", ["--model", "neural-rde", *SMALL[2:], "--batch-size", "16", "--epochs", "3"]
    assert main(["prepare", str(hearts), str(store), *COLUMNS, "--step", "8", "--model", "neural-rde"]) == 0
    options += ["--json", "--no-plots", "--out"]
    run = command(store, *options, tmp_path / "two", "--processes", 2)
    capsys.readouterr()
    assert main(["fit", str(store), *options, str(tmp_path / "one")]) == 0
    one = json.loads(capsys.readouterr().out)["parts"]
    printed, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors[-3000:]
    two = json.loads(printed)["parts"]
    # The same sums, in another order: what they are judged by agrees to a few digits.
    for part, values in one.items():
        assert values["log_loss"] == pytest.approx(two[part]["log_loss"], rel=1e-3)
