"""Several processes of one command: `--processes` starts them, looks after them, and says what became of them.

The process that a person or a scheduler starts does not train. It starts the workers, this same command with their
place in the environment, because a worker may end in ways in which it can say nothing: killed for want of memory, or
aborted by JAX when another one is gone. With a launcher such as `srun` there is one worker below each process that it
starts.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._cores import cores
from .console import INTERRUPTED, LOST, TERMINATED, WRONG_USE, Refusal

# The arguments of this command, as `main` got them: workers are started with the same.
ARGUMENTS: ContextVar[Sequence[str]] = ContextVar("arguments")
_WORKER = "NEURALRDE_WORKER"
_LOST_AFTER = "NEURALRDE_LOST_AFTER"
# Seconds without a sign of life after which JAX counts a process as lost.
_PATIENCE = 20
# Seconds that the others have to notice by themselves that one is gone, and to write a last checkpoint.
_GRACE = 10.0
# The third signal is for those that do not listen.
_MOST_SIGNALS = 2
# The numbers of this process and of all, as launchers tell them.
_LAUNCHERS = {
    "SLURM": ("SLURM_PROCID", "SLURM_NTASKS"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "MPICH": ("PMI_RANK", "PMI_SIZE"),
}
# Where one of these is set, JAX finds process 0 by itself.
_FOUND_BY_JAX = ("SLURM_STEP_NODELIST", "OMPI_MCA_orte_hnp_uri", "JAX_COORDINATOR_ADDRESS")


@dataclass(frozen=True)
class Launch:
    """What this command is to start: which of how many workers, and where process 0 can be reached."""

    coordinator: str | None
    """None lets JAX find it, by what the launcher says."""
    count: int
    numbers: tuple[int, ...]
    flags: str
    """That it was asked for with."""


def launch_of(processes: str | None, coordinator: str | None, process_id: int | None) -> Launch | None:
    """What the flags ask for; None for a single process.

    >>> launch_of("2", "node1:9000", 1).flags
    '--processes 2 --coordinator node1:9000 --process-id I'
    >>> launch_of(None, None, None) is launch_of("1", None, None) is None
    True
    """
    if processes is None:
        if coordinator is None and process_id is None:
            return None
        raise Refusal("Got --coordinator or --process-id alone; expected --processes N with them.", WRONG_USE)
    if coordinator is not None and not coordinator.rpartition(":")[2].isdecimal():
        raise Refusal(f"Got --coordinator {coordinator}; expected HOST:PORT of process 0.", WRONG_USE)
    if processes == "auto":
        return _of_launcher(coordinator)
    if not processes.isdecimal() or not int(processes):
        raise Refusal(
            f"Got --processes {processes}; expected a number from 1, or auto for as many as SLURM or MPI has started.",
            WRONG_USE,
        )
    count = int(processes)
    if (coordinator is None) != (process_id is None):
        raise Refusal(
            "Got one of --coordinator and --process-id; expected both on several machines, because each process must "
            "know which one it is and where process 0 is; or neither, to start all processes here.",
            WRONG_USE,
        )
    if process_id is not None and not 0 <= process_id < count:
        raise Refusal(f"Got --process-id {process_id}; expected one from 0 to {count - 1}.", WRONG_USE)
    if count == 1:
        return None
    if process_id is None:
        return Launch(f"127.0.0.1:{free_port()}", count, tuple(range(count)), f"--processes {count}")
    flags = f"--processes {count} --coordinator {coordinator} --process-id I"
    return Launch(coordinator, count, (process_id,), flags)


def _of_launcher(coordinator: str | None) -> Launch | None:
    for name, (number, count) in _LAUNCHERS.items():
        if number not in os.environ or count not in os.environ:
            continue
        if coordinator is None and not any(variable in os.environ for variable in _FOUND_BY_JAX):
            raise Refusal(
                f"Got --processes auto under {name}, which does not say where process 0 is; expected --coordinator "
                "HOST:PORT too, a host that all can reach and a free port of it.",
                WRONG_USE,
            )
        where = "" if coordinator is None else f" --coordinator {coordinator}"
        found = Launch(coordinator, int(os.environ[count]), (int(os.environ[number]),), f"--processes auto{where}")
        return None if found.count == 1 else found
    raise Refusal(
        "Got --processes auto, but no launcher has started this process; expected srun or mpirun before the command. "
        "Give --processes N to start N processes on this machine.",
        WRONG_USE,
    )


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass(frozen=True)
class Worker:
    """The place of a worker among the processes, as its parent tells it."""

    coordinator: str | None
    count: int
    number: int
    parent: int
    flags: str = ""
    """That ask for as many processes again."""
    folder: str = ""
    """A file in which process 0 names the folder of its run."""

    @classmethod
    def here(cls) -> "Worker | None":
        """That of this process; None if it is no worker."""
        found = os.environ.get(_WORKER)
        return None if found is None else cls(**json.loads(found))

    def join(self) -> None:
        """Find the others, and follow the parent when it ends."""
        from ..processes import join_processes

        threading.Thread(target=self._follow, daemon=True).start()
        join_processes(self.coordinator, self.count, self.number, patience=_patience())

    def _follow(self) -> None:
        while os.getppid() == self.parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os._exit(TERMINATED)

    def tell(self, folder: Path) -> None:
        """Let the parent know where the run is, for its last sentence."""
        if self.folder and self.number == 0:
            Path(self.folder).write_text(str(folder))


def leave(code: int) -> int:
    """The exit code, as `main` returns it. A worker that fails does not wait for the others, which wait for it."""
    if _WORKER in os.environ and code not in (0, INTERRUPTED, TERMINATED):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    return code


def _patience() -> int:
    given = os.environ.get(_LOST_AFTER, str(_PATIENCE))
    if not given.isdecimal() or not int(given):
        raise Refusal(f"Got {_LOST_AFTER}={given}; expected whole seconds, at least 1.", WRONG_USE)
    return int(given)


@dataclass
class _Started:
    number: int
    process: subprocess.Popen
    said: Any
    """What it wrote to the standard error, if that is not shown at once."""
    ended: float | None = None
    by_us: bool = False

    @property
    def code(self) -> int:
        return self.process.returncode


def supervise(launch: Launch, arguments: Sequence[str]) -> int:
    """Start this machine's workers and wait for them; returns the exit code."""
    patience = _patience()
    with tempfile.TemporaryDirectory(prefix="neuralrde-") as folder:
        place = os.path.join(folder, "folder")
        workers = [_start(launch, number, arguments, folder, place) for number in launch.numbers]
        with _signals_passed_on(workers) as asked:
            _wait(workers, min(_GRACE, float(patience)))
        told = Path(place).read_text() if os.path.exists(place) else ""
        return _explained(workers, launch, told, asked.number)


def _start(launch: Launch, number: int, arguments: Sequence[str], folder: str, place: str) -> _Started:
    worker = Worker(launch.coordinator, launch.count, number, os.getpid(), launch.flags, place)
    environment = os.environ | {_WORKER: json.dumps(asdict(worker))}
    shown = number == launch.numbers[0]
    said = None if shown else open(os.path.join(folder, f"{number}.txt"), "w+")  # noqa: SIM115 (closed when shown)
    with _on_own_cores(launch, number, environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "neuralrde", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=None if shown else subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,  # Ctrl-C comes to this process alone, which passes it on once
        )
    return _Started(number, process, said)


@contextmanager
def _on_own_cores(launch: Launch, number: int, environment: dict[str, str]) -> Iterator[None]:
    """What is started inside has its share of this machine's cores, if it shares them with others of ours."""
    if len(launch.numbers) == 1 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = sorted(os.sched_getaffinity(0))
    share = allowed[number * len(allowed) // launch.count : (number + 1) * len(allowed) // launch.count]
    environment.setdefault("JAX_NUM_CPU_DEVICES", str(max(1, cores() // launch.count)))
    os.sched_setaffinity(0, share or [allowed[number % len(allowed)]])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@dataclass
class _Asked:
    number: int | None = None
    """The signal that came first, if one came."""
    times: int = 0


@contextmanager
def _signals_passed_on(workers: Sequence[_Started]) -> Iterator[_Asked]:
    asked = _Asked()

    def pass_on(number: int, frame: Any) -> None:
        asked.number, asked.times = asked.number or number, asked.times + 1
        for worker in workers:
            if worker.process.poll() is None:
                worker.process.send_signal(number if asked.times <= _MOST_SIGNALS else signal.SIGKILL)

    # In the background Ctrl-C is ignored, by this process and by its workers: so it stays.
    heard = [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) is not signal.SIG_IGN]
    old = {number: signal.signal(number, pass_on) for number in heard}
    try:
        yield asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _wait(workers: Sequence[_Started], grace: float) -> None:
    """Until all have ended. When one has failed, the others have `grace` seconds."""
    while running := [worker for worker in workers if worker.process.poll() is None]:
        now = time.monotonic()
        for worker in workers:
            if worker.ended is None and worker not in running:
                worker.ended = now
        failed = [worker.ended for worker in workers if worker.ended is not None and worker.code]
        if failed and now - min(failed) > grace:
            for worker in running:  # it waits inside JAX for who will not come, and hears no signal
                worker.by_us = True
                worker.process.kill()
        time.sleep(0.05)


def _explained(workers: Sequence[_Started], launch: Launch, folder: str, asked: int | None) -> int:
    """Say what became of them, unless one has said so itself; returns the exit code."""
    failed = [worker for worker in workers if worker.code and not worker.by_us]
    if asked is not None and all(worker.code for worker in workers):
        return TERMINATED if asked == signal.SIGTERM else INTERRUPTED
    if not failed:
        return 0
    if all(worker.code in (INTERRUPTED, TERMINATED) for worker in workers):  # a signal came to one of them
        return failed[0].code
    # Who ended the others: not those that only say that another one is gone, by their exit code or by JAX's abort.
    own = [worker for worker in failed if worker.code not in (LOST, -signal.SIGABRT)] or failed
    first = min(own, key=lambda worker: (worker.ended or time.monotonic(), worker.number))
    if first.code > 0 and first.code != LOST:
        if first.said is not None:
            first.said.seek(0)
            print(f"neuralrde: process {first.number} of {launch.count} failed:", file=sys.stderr)
            sys.stderr.write(first.said.read())
        return first.code
    print(f"neuralrde: {_sentence(first, launch)} {_advice(folder, launch)}", file=sys.stderr)
    return LOST


def _sentence(worker: _Started, launch: Launch) -> str:
    if worker.code in (LOST, -signal.SIGABRT):
        return f"Another of the {launch.count} processes was lost, or cannot be reached any more."
    name = signal.Signals(-worker.code).name
    memory = ", as the system does when memory runs out" if worker.code == -signal.SIGKILL else ""
    others = "The others cannot go on without it, and have ended."
    return f"Process {worker.number} of {launch.count} was lost: {name} ended it{memory}. {others}"


def _advice(folder: str, launch: Launch) -> str:
    where = shlex.quote(folder or "FOLDER")
    if folder and not os.path.exists(os.path.join(folder, "checkpoint.nrde")):
        return "There is no checkpoint yet, so start all of them again, with another --out."
    everywhere = "" if len(launch.numbers) == launch.count else ", in all processes"
    return f"Go on with `neuralrde fit --resume --out {where} {launch.flags}`{everywhere}."
