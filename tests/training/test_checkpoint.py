"""A training that was interrupted, in whatever way, ends as one that was not."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from neuralrde.training import FileRefused, Listener, fit, load_checkpoint, save_checkpoint
from neuralrde.training.archive import arrays_of, read_archive, write_archive

from .examples import SETTINGS, arguments, model, task


class InterruptAt(Listener):
    def __init__(self, steps):
        self.left = steps

    def step(self, *, examples):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def same(a, b):
    a, b = arrays_of(a), arrays_of(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)  # bit for bit


@pytest.fixture(scope="module")
def whole():
    args, options = arguments()
    return fit(*args, **options, settings=SETTINGS)


@pytest.mark.parametrize("steps", [1, 4, 11])
def test_resume_after_an_interrupt(tmp_path, whole, steps):
    args, options = arguments()
    options |= {"settings": SETTINGS, "checkpoint": tmp_path / "run", "resume": True}
    with pytest.raises(KeyboardInterrupt):
        fit(*args, **options, listeners=[InterruptAt(steps)])
    resumed = fit(*args, **options)
    for part in ("model", "optimiser", "best"):
        same(getattr(resumed, part), getattr(whole, part))
    drop = lambda history: [{k: v for k, v in record.items() if k != "seconds"} for record in history]
    assert drop(resumed.history) == drop(whole.history)


def test_a_pause_in_memory_is_no_different(whole):
    args, options = arguments()
    paused = fit(*args, **options, settings=SETTINGS, until=2)
    assert paused.epoch == 2
    same(fit(*args, **options, settings=SETTINGS, state=paused).model, whole.model)


def train_in_a_process(name, path, kill_after=None):
    """The epochs that were done when it began, and whether it was killed -9, after so many steps and seconds."""
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "1"}
    command = [sys.executable, "-m", "tests.training.run", name, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    begun = int(process.stdout.readline().split()[1])
    if kill_after is not None:
        steps, seconds = kill_after
        for _ in range(steps):
            process.stdout.readline()
        time.sleep(seconds)
        process.kill()
    said = process.communicate()[0]
    assert kill_after is not None or "done" in said
    return begun, process.returncode == -signal.SIGKILL


def killed_and_undisturbed_end_alike(folder, name, moments):
    """`moments`: steps and seconds after which to kill."""
    runs = [train_in_a_process(name, folder / "killed", moment) for moment in moments]
    begun, _ = train_in_a_process(name, folder / "killed")
    assert begun > 0  # it did go on from where it was left
    train_in_a_process(name, folder / "whole")
    got, expected = (read_archive(folder / run, "checkpoint", format=1)[1] for run in ("killed", "whole"))
    assert got.keys() == expected.keys()
    for array in got:
        np.testing.assert_array_equal(got[array], expected[array], err_msg=array)
    return sum(killed for _, killed in runs)


def test_kill_9(tmp_path):
    # 40 epochs of 3 steps: both come before the end. A checkpoint is written after every epoch.
    assert killed_and_undisturbed_end_alike(tmp_path, "line", [(37, 0.01), (20, 0.0)]) == 2


@pytest.mark.slow
def test_kill_9_at_ten_random_moments(tmp_path):
    # While compiling, in mid-epoch, between epochs, while writing. Each training goes on from where the last was
    # killed; together they come to fewer steps than the 120 there are.
    draw = random.Random(0)
    moments = [(0, draw.uniform(0.0, 3.0)) for _ in range(2)]
    moments += [(draw.randrange(1, 20), draw.uniform(0.0, 0.06)) for _ in range(8)]
    assert killed_and_undisturbed_end_alike(tmp_path, "neural_rde", moments) == 10


def test_damaged_checkpoints_are_refused(tmp_path, whole):
    path = tmp_path / "run"
    save_checkpoint(path, whole, fingerprint="a")
    content = path.read_bytes()
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(FileRefused, match="truncated"):
            load_checkpoint(path, whole, fingerprint="a")
    for place in (len(content) - 3, content.index(b"best_loss") + 14):
        altered = bytearray(content)
        altered[place] ^= 1
        path.write_bytes(altered)
        with pytest.raises(FileRefused, match="altered"):
            load_checkpoint(path, whole, fingerprint="a")
    path.write_bytes(content)
    same(load_checkpoint(path, whole, fingerprint="a").best, whole.best)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    args, options = arguments()
    options |= {"checkpoint": tmp_path / "run", "resume": True}
    fit(*args, **options, settings=SETTINGS, until=1)
    for other in ({"settings": replace(SETTINGS, rate=1e-3)}, {"settings": SETTINGS, "validation": task(12)}):
        with pytest.raises(FileRefused, match="another training"):
            fit(*args, **options | other)
    # Saving more often changes nothing that matters.
    fit(*args, **options, settings=replace(SETTINGS, save_every=1.0), until=1)


def test_files_of_another_kind_or_version_are_refused(tmp_path):
    path = tmp_path / "file"
    write_archive(path, "model", format=1, header={}, arrays={})
    with pytest.raises(FileRefused, match="holds a model; expected a checkpoint"):
        read_archive(path, "checkpoint", format=1)
    with pytest.raises(FileRefused, match="format 1"):
        read_archive(path, "model", format=2)
    path.write_text("not one of ours")
    with pytest.raises(FileRefused, match="cannot be read"):
        read_archive(path, "model", format=1)
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "absent", "model", format=1)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_archive(path, "model", format=1, header={"a": 1}, arrays={})
    before = path.read_bytes()

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_archive(path, "model", format=1, header={"a": 2}, arrays={})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["file"]


def test_the_model_in_a_checkpoint_must_fit(tmp_path, whole):
    save_checkpoint(tmp_path / "run", whole, fingerprint="a")
    other = replace(whole, model=model(width=9))
    with pytest.raises(FileRefused, match="of shape"):
        load_checkpoint(tmp_path / "run", other, fingerprint="a")
