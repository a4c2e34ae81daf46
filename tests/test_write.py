"""Files are whole or not there, whatever happens while they are written."""

import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from matplotlib.figure import Figure

from neuralrde._write import writing
from neuralrde.plots import save
from neuralrde.tools.cli.evaluation import PredictionTable, write_csv
from neuralrde.tools.cli.run_folder import RunFolder, write_json
from neuralrde.tools.sweeps import InProcess, Sweep, Task

KILLED = """
import os, signal, sys
from neuralrde._write import writing
with writing(sys.argv[1], "w") as file:
    file.write("new")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(TypeError), writing(path, "w") as file:
        file.writelines(["new", path.read_text("utf-8"), 3])
    assert path.read_text("utf-8") == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.long
def test_a_process_that_is_killed_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_text("utf-8") == "old"


def test_writers_do_not_mix(tmp_path):
    path = tmp_path / "file.txt"

    def write(letter):
        with writing(path, "w") as file:
            for _ in range(100):
                file.write(letter * 100)
                file.flush()
        return path.read_text("utf-8")

    letters = "abcdefgh" * 4
    with ThreadPoolExecutor(8) as threads:
        seen = list(threads.map(write, letters))
    assert {len(text) for text in seen} == {10_000}
    assert all(len(set(text)) == 1 for text in seen)
    assert os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_any_new_file(tmp_path, mask):
    tmp_path.chmod(0o755)
    before = os.umask(mask)
    try:
        with writing(tmp_path / "file.txt", "w") as file:
            file.write("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file.txt").stat().st_mode) == 0o644 & ~mask


def _run(folder):
    with RunFolder.new("hearts", folder, resume=False) as made:
        write_json(made.metrics, {})
        assert stat.S_IMODE((folder / ".lock").stat().st_mode) == 0o600
        save(Figure(), made.pictures / "windows.png")


def _sweep(folder):
    sweep = Sweep(folder, [Task("a", {})])
    sweep.run(InProcess(lambda *_: {}, data={}, folder=sweep.runs))


def _csv(folder):
    found = np.array(["p1"])
    table = PredictionTable(found, np.zeros(1, int), None, found, None, None, None, None)
    write_csv(table, folder / "found.csv")


@pytest.mark.parametrize("make", [_run, _sweep, _csv])
def test_what_holds_patients_data_is_its_owners_alone(tmp_path, make):
    """Folders that we make. In one that is there already, files are as open as it is: somebody shares it."""
    before = os.umask(0o022)
    try:
        make(tmp_path / "made")
    finally:
        os.umask(before)
    things = [tmp_path / "made", *(tmp_path / "made").rglob("*")]
    assert len(things) > 1
    for thing in things:
        assert stat.S_IMODE(thing.stat().st_mode) == (0o700 if thing.is_dir() else 0o600), thing


def test_the_new_name_is_synced_too(tmp_path, monkeypatch):
    """A power cut after the renaming must not undo it: the folder is synced, after the file."""
    synced, sync = [], os.fsync

    def note(descriptor):
        there = (tmp_path / "file.txt").exists()
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), there))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with writing(tmp_path / "file.txt", "w") as file:
        file.write("x")
    assert synced == [(False, False), (True, True)]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left.*file\.txt") as caught, writing(tmp_path / "file.txt") as file:
        file.write(b"x")
    assert caught.value.filename == str(tmp_path / "file.txt")
    assert not os.listdir(tmp_path)


def test_the_place_is_named_and_not_the_file_beside_it(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere" / "file.txt"):  # a folder, and a folder that is not there
        with pytest.raises(OSError) as caught, writing(path) as file:  # noqa: PT011 (filename is the check)
            file.write(b"x")
        assert caught.value.filename == str(path)
    assert not os.listdir(tmp_path)


def test_a_name_as_long_as_file_systems_allow(tmp_path):
    path = tmp_path / ("x" * 255)
    with writing(path, "w", newline="") as file:
        file.write("ü\r\n")
    assert path.read_bytes() == "ü\r\n".encode()
