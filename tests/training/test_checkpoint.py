"""A training that was interrupted, in whatever way, ends as one that was not."""

import contextlib
import errno
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neuralrde.training import (
    AdamW,
    Examples,
    FileRefused,
    Listener,
    SquaredError,
    Terminated,
    TrainingState,
    TrainingWarning,
    fit,
    load_checkpoint,
    save_checkpoint,
)
from neuralrde.training.archive import arrays_of, read_archive, with_arrays, write_archive
from neuralrde.training.interrupt import interrupts_between_steps

from .examples import SETTINGS, arguments, model, task
from .run import train


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
    for part in ("model", "optimizer", "best"):
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
    train(name, folder / "whole")  # in this process, which has one device as those have
    got, expected = (read_archive(folder / run, "checkpoint", format=2)[1] for run in ("killed", "whole"))
    assert got.keys() == expected.keys()
    for array in got:
        np.testing.assert_array_equal(got[array], expected[array], err_msg=array)
    return sum(killed for _, killed in runs)


@pytest.mark.long
def test_kill_9(tmp_path):
    # 40 epochs of 3 steps: it comes before the end. A checkpoint is written after every epoch.
    assert killed_and_undisturbed_end_alike(tmp_path, "line", [(37, 0.01)]) == 1


@pytest.mark.slow
def test_kill_9_at_ten_random_moments(tmp_path):
    # While compiling, in mid-epoch, between epochs, while writing. Each training goes on from where the last was
    # killed; together they come to fewer steps than the 120 there are.
    draw = random.Random(0)
    moments = [(0, draw.uniform(0.0, 0.3)) for _ in range(2)]
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
        with pytest.raises(FileRefused, match="damaged"):
            load_checkpoint(path, whole, fingerprint="a")
    path.write_bytes(content)
    same(load_checkpoint(path, whole, fingerprint="a").best, whole.best)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    args, options = arguments()
    options |= {"checkpoint": tmp_path / "run", "resume": True}
    fit(*args, **options, settings=SETTINGS, until=1)
    for other in (
        {"settings": replace(SETTINGS, optimizer=AdamW(learning_rate=1e-3))},
        {"settings": SETTINGS, "validation": task(12)},
    ):
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


def test_the_same_content_makes_the_same_bytes(tmp_path):
    """Safetensors orders metadata by a hash that is drawn anew for each file: sixteen would hardly ever agree."""
    for number in range(16):
        write_archive(tmp_path / str(number), "model", format=1, header={"name": "ü"}, arrays={"ä": np.arange(3.0)})
    assert len({(tmp_path / str(number)).read_bytes() for number in range(16)}) == 1
    header, arrays = read_archive(tmp_path / "0", "model", format=1)
    assert header["name"] == "ü"
    assert arrays["ä"].tolist() == [0.0, 1.0, 2.0]


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


HEADER = {
    "best_loss": 1.0,
    "best_epoch": 0,
    "epoch": 0,
    "rate_factor": 1.0,
    "failures": 0,
    "seconds": 0.0,
    "history": [],
}
RECORD = {"epoch": 1, "loss": 1.0, "monitored": 1.0, "seconds": 1.0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"epoch": ...},
        {"epoch": "1"},
        {"epoch": 1.5},
        {"epoch": -1},
        {"epoch": True},
        {"epoch": 7},  # epochs without records
        {"epoch": 10**4000},
        {"best_epoch": 1},
        {"best_loss": None},
        {"best_loss": float("nan")},
        {"rate_factor": 0.0},
        {"seconds": 10**400},
        {"failures": []},
        {"history": ...},
        {"history": {}},
        {"epoch": 1, "history": ["one"]},
        {"epoch": 1, "history": [{}]},
        {"epoch": 1, "history": [RECORD | {"monitored": "low"}]},
    ],
    ids=lambda wrong: repr(wrong)[:60],
)
def test_numbers_that_no_training_has_are_refused(tmp_path, wrong):
    start = TrainingState.start(model(), optax.identity())
    arrays = {name: array for tree in ("model", "best") for name, array in arrays_of(start.model, tree).items()}
    header = {"fingerprint": "a"} | HEADER
    write_archive(tmp_path / "right", "checkpoint", format=2, header=header, arrays=arrays)
    assert load_checkpoint(tmp_path / "right", start, fingerprint="a").epoch == 0
    header = {name: value for name, value in (header | wrong).items() if value is not ...}
    write_archive(tmp_path / "wrong", "checkpoint", format=2, header=header, arrays=arrays)
    with pytest.raises(FileRefused, match="damaged"):
        load_checkpoint(tmp_path / "wrong", start, fingerprint="a")


@pytest.mark.parametrize("version", ["1abc", "9" * 5000, "", "\u00b2.0", None, 1, ["1"], "1.0\n" * 3])
def test_versions_that_are_none_are_refused(tmp_path, version):
    write_archive(tmp_path / "file", "model", format=1, header={"version": version}, arrays={})
    with pytest.raises(FileRefused, match="damaged"):
        read_archive(tmp_path / "file", "model", format=1)


def test_a_later_version_is_refused(tmp_path):
    write_archive(tmp_path / "file", "model", format=1, header={"version": "7.0.1"}, arrays={})
    with pytest.raises(FileRefused, match=r"written by neuralrde 7\.0\.1"):
        read_archive(tmp_path / "file", "model", format=1)


def test_bfloat16(tmp_path):
    """No type of NumPy's own: written and read, and refused where another is expected."""
    path, small = tmp_path / "file", {"a": np.asarray(jnp.ones(3, jnp.bfloat16))}
    write_archive(path, "model", format=1, header={}, arrays=small)
    arrays = read_archive(path, "model", format=1)[1]
    np.testing.assert_array_equal(arrays["a"], small["a"])
    with pytest.raises(FileRefused, match="bfloat16"):
        with_arrays({"a": np.ones(3, np.float32)}, {"['a']": arrays["a"]})


def test_a_header_that_promises_more_than_the_file_has_allocates_nothing(tmp_path):
    path = tmp_path / "file"
    lies = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    for content in (struct.pack("<Q", 2**62), struct.pack("<Q", 99_000_000), struct.pack("<Q", len(lies)) + lies):
        path.write_bytes(content + b"    ")
        with pytest.raises(FileRefused, match="cannot be read"):
            read_archive(path, "model", format=1)


def test_eight_threads_write_one_file(tmp_path):
    def write(number):
        write_archive(tmp_path / "file", "model", format=1, header={"number": number}, arrays={"a": np.ones(1000)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(80)))
    assert read_archive(tmp_path / "file", "model", format=1)[0]["number"] in range(80)
    assert os.listdir(tmp_path) == ["file"]


def line():
    """A training that compiles in no time."""
    examples = Examples((np.ones((4, 1), np.float32),), np.zeros((4, 1), np.float32))
    model = eqx.nn.Linear(1, 1, key=jax.random.key(0))
    return (model, examples), {"loss": SquaredError(), "settings": replace(SETTINGS, epochs=3)}


class Saved(Listener):
    """Whether there was a checkpoint, before every epoch's end."""

    def __init__(self, path):
        self.path, self.seen = path, []

    def epoch(self, record):
        self.seen.append(self.path.exists())


def test_the_first_checkpoint_comes_after_the_first_epoch(tmp_path):
    args, options = line()
    saved = Saved(tmp_path / "run")
    fit(*args, **options, checkpoint=tmp_path / "run", listeners=[saved])
    assert saved.seen == [False, True, True]


def test_a_checkpoint_that_cannot_be_written_is_said_and_training_goes_on(tmp_path, monkeypatch):
    args, options = line()
    path = tmp_path / "run"
    expected = fit(*args, **options)
    fit(*args, **options, checkpoint=path, until=1)
    before = path.read_bytes()

    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.warns(TrainingWarning, match=r"run' could not be written.*No space left") as warned:
        state = fit(*args, **options, checkpoint=path, resume=True)
    assert len(warned) == 2  # after the first epoch, and at the end
    assert state.epoch == 3
    same(state.best, expected.best)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_sigterm_saves_and_ends(tmp_path):
    class Stop(Listener):
        steps = 0

        def step(self, *, examples):
            self.steps += 1
            if self.steps == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    args, options = line()
    path, stop = tmp_path / "run", Stop()
    with pytest.raises(Terminated):
        fit(*args, **options, checkpoint=path, listeners=[stop])
    assert stop.steps == 2
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    same(fit(*args, **options, checkpoint=path, resume=True).best, fit(*args, **options).best)


@contextlib.contextmanager
def handling(number, handler):
    before = signal.signal(number, handler)
    try:
        yield
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_program_that_handles_sigterm_keeps_doing_so():
    heard, usual = [], signal.default_int_handler
    with (
        handling(signal.SIGINT, usual),
        handling(signal.SIGTERM, lambda number, frame: heard.append(number)),
        interrupts_between_steps() as stop_here,
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        stop_here()
        assert heard == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGINT) is not usual  # Ctrl-C is still ours


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_program_in_the_background_keeps_ignoring_ctrl_c():
    """`nohup` and shells' background: a Ctrl-C that is meant for another program must not end this one."""
    with handling(signal.SIGINT, signal.SIG_IGN), interrupts_between_steps() as stop_here:
        os.kill(os.getpid(), signal.SIGINT)
        stop_here()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL  # `kill` is still ours
