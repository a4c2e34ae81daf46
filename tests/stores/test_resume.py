"""Whatever interrupts it, `prepare` goes on and ends with the same files; what is damaged is named."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

from neuralrde import Store, Windows, prepare
from neuralrde.tools.cli import main
from neuralrde.tools.stores import SourceError, StoreError

from .tables import ragged, table

pytestmark = pytest.mark.long

WINDOWS = Windows(step=7, depth=2)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr("neuralrde.tools.stores.plan.SHARD", 1000)


def digests(store):
    return {
        str(path.relative_to(store)): blake2b(path.read_bytes()).hexdigest()
        for path in Path(store).rglob("*")
        if path.is_file()
    }


@pytest.fixture
def data(tmp_path):
    table(*ragged(60)).to_parquet(tmp_path / "data.parquet", row_group_size=120, index=False)
    return tmp_path / "data.parquet"


# A process that has shards of a few series, and waits before each file that it writes: time enough to be killed.
SLOW = """
import sys, time
import neuralrde._write, neuralrde.tools.stores.files, neuralrde.tools.stores.plan
neuralrde.tools.stores.plan.SHARD = 1000
slow, whole = float(sys.argv[3]), neuralrde.tools.stores.files.writing
def writing(path, *arguments, **options):
    time.sleep(slow)
    return whole(path, *arguments, **options)
neuralrde.tools.stores.files.writing = writing
from neuralrde import Windows, prepare
print("ready", flush=True)
prepare(sys.argv[1], sys.argv[2], windows=Windows(step=7, depth=2), target="label", workers=1)
"""


def killed(data, store, kills):
    """Kill a real process again and again, some time after it has gone on; how many shards there were each time."""
    rng, shards = np.random.default_rng(0), []
    done = lambda: len(list(Path(store).glob("shards/*.npy")))
    for _ in range(kills):
        command = [sys.executable, "-c", SLOW, data, store, "0.05"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            goal = done() + int(rng.integers(2))
            while done() < goal and process.poll() is None:
                time.sleep(0.01)
            time.sleep(float(rng.uniform(0.0, 0.1)))
            os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it ended before it was killed: make it slower"
        shards.append(done())
    return shards


def check_killed(data, folder, kills):
    prepare(data, folder / "whole", windows=WINDOWS, target="label")
    shards = killed(data, folder / "killed", kills)
    prepare(data, folder / "killed", windows=WINDOWS, target="label")
    assert len(list(folder.glob("whole/shards/*.npy"))) > 10
    assert digests(folder / "whole") == digests(folder / "killed")
    return shards


@pytest.mark.slow  # each process needs seconds to import JAX
def test_killed_ten_times_it_ends_with_the_same_files(data, tmp_path, small_shards):
    shards = check_killed(data, tmp_path, 10)
    assert shards == sorted(shards), "work that was done was lost"
    assert len(set(shards)) > 3, "no kill came in the middle"


def test_killed_once_it_ends_with_the_same_files(data, tmp_path, small_shards):
    check_killed(data, tmp_path, 1)


@pytest.mark.parametrize("at", [1, 2, 5, 9])
def test_a_full_disk_is_said_and_gone_on_from(data, tmp_path, monkeypatch, small_shards, at):
    whole = prepare(data, tmp_path / "whole", windows=WINDOWS, workers=1)
    from neuralrde.tools.stores import files as place

    real, written = place.writing, []

    def full(path, *arguments, **options):
        written.append(path)
        if len(written) == at:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(place, "writing", full)
    with pytest.raises(OSError, match="No space left"):
        prepare(data, tmp_path / "store", windows=WINDOWS, workers=1)
    monkeypatch.setattr(place, "writing", real)
    with pytest.raises(StoreError, match=r"has not ended|is no store"):
        Store(tmp_path / "store")
    found = prepare(data, tmp_path / "store", windows=WINDOWS)
    assert digests(tmp_path / "store") == digests(tmp_path / "whole")
    assert found.fingerprint == whole.fingerprint


def test_what_is_done_is_not_done_again(data, tmp_path, monkeypatch, small_shards):
    prepare(data, tmp_path / "store", windows=WINDOWS)
    monkeypatch.setattr("neuralrde.tools.stores._prepare.make_shard", lambda *_: pytest.fail("computed again"))
    monkeypatch.setattr("neuralrde.tools.stores._prepare.scan_block", lambda *_, **__: pytest.fail("read again"))
    assert len(prepare(data, tmp_path / "store", windows=WINDOWS)) == 60
    with pytest.raises(SourceError, match="other data or with other options"):
        prepare(data, tmp_path / "store", windows=Windows(step=3))
    os.utime(data, (1, 1))
    with pytest.raises(SourceError, match="other data or with other options"):
        prepare(data, tmp_path / "store", windows=WINDOWS)


def test_any_number_of_workers_and_any_memory_write_the_same(data, tmp_path, small_shards):
    prepare(data, tmp_path / "one", windows=WINDOWS, workers=1)
    prepare(data, tmp_path / "four", windows=WINDOWS, workers=4, memory=0.25)
    assert digests(tmp_path / "one") == digests(tmp_path / "four")


def test_a_folder_with_something_else_is_left_alone(data, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(FileExistsError, match="something else"):
        prepare(data, tmp_path / "mine", windows=WINDOWS)


def test_a_damaged_shard_is_named_when_it_is_read(data, tmp_path, small_shards):
    prepare(data, tmp_path / "store", windows=WINDOWS)
    shard = tmp_path / "store" / "shards/00002.npy"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    opened = Store(tmp_path / "store")
    with pytest.raises(StoreError, match=shard.name):
        opened.take(slice(None))


def test_the_command_line(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    windows = ["--step", "7", "--depth", "2", "--model", "neural-rde"]
    assert main(["prepare", str(data), "s", "--target", "label", *windows, "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["series"] == 60
    small = ["--set", "model.state=4", "--set", "model.width=8"]
    options = ["--model", "neural-rde", *small, "--epochs", "2", "--no-plots", "--progress", "none", "--out", "run"]
    assert main(["fit", "s", *options]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert main(["prepare", str(data), "new", "--like", "s"]) == 0
    assert main(["predict", "run", "new", "--out", "found.csv"]) == 0
    assert len((tmp_path / "found.csv").read_text("utf-8").splitlines()) == 61
    assert main(["fit", "s", "--model", "closed-form"]) == 2
    assert "whole series" in capsys.readouterr().err
