"""The driver of a sweep, which writes each result down once, and where its tasks run: in this process, or on Ray."""

import contextlib
import json
import os
import shlex
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from filelock import Timeout

from ..._cores import CORES, cores
from ..._write import Values, private_folder, strict_json, writing
from .._lock import lock
from .results import Result, Task, short

Function = Callable[[Any, Any, Path], Result]
"""Runs a task, given settings, data and the task's folder; returns what goes into its result."""

# Ray's shared memory, beside the data that tasks share: arguments and results are small.
_LEAST_STORE = 200 * 2**20
# An interrupted run writes a checkpoint before it ends.
_GRACE = 30.0


class TaskResult(NamedTuple):
    """How a task ended, "done" or "failed", and what goes into its result."""

    task: Task
    status: str
    values: Result


class InProcess(contextlib.nullcontext):
    """Runs tasks in this process, one after another, each on all of its cores.

    Args:
        function: runs a task.
        data: objects that tasks work on, by name.
        folder: each task gets a folder of its own in it.
    """

    def __init__(self, function: Function, *, data: Values, folder: Path):
        super().__init__()
        self._function, self._data, self._folder = function, data, folder

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """The results as they come."""
        for task in tasks:
            data = None if task.data is None else self._data[task.data]
            yield TaskResult(task, *_run(self._function, task.settings, data, self._folder / task.key))


class RayPool:
    """Runs tasks on Ray, each on a number of cores. Use it in a `with` block.

    Without an address, Ray is started on this machine, on the cores that this process may use, and stopped at the end.
    Nothing is sent anywhere: usage statistics are off, and there is no dashboard.

    Args:
        function: runs a task. A module that the workers can import must have it.
        data: objects that tasks work on, by name. Each is copied to a node once, and tasks there share it.
        folder: each task gets a folder of its own in it. Where hosts do not share it, each has one of this name, and a
            task that moves to another host begins anew.
        cores: of each task.
        gpus: of each task; a fraction lets tasks share one.
        retries: how often Ray runs a task again after its worker or node died.
        address: of a cluster, "auto" for the one on this machine; None starts Ray here.
    """

    def __init__(
        self,
        function: Function,
        *,
        data: Values,
        folder: Path,
        cores: int = 1,
        gpus: float = 0,
        retries: int = 5,
        address: str | None = None,
    ):
        # Before the import: Ray reads them then. Nothing is to be sent anywhere.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError:
            raise ImportError(
                "Got a sweep on Ray, and no Ray to run it on. Write `pip install 'neuralrde[ray]'`, or --no-ray to "
                "run one task after another in this process."
            ) from None
        self._ray, self._function, self._data, self._folder = ray, function, data, folder
        self._cores, self._gpus, self._retries, self._address = cores, gpus, retries, address

    def __enter__(self) -> Self:
        self._ours = not self._ray.is_initialized()
        if self._ours:
            options: Values = {"address": self._address}
            if self._address is None:
                import cloudpickle

                memory = _LEAST_STORE + 2 * sum(len(cloudpickle.dumps(one)) for one in self._data.values())
                # "local" is not a cluster that happens to run on this machine.
                options = {"address": "local", "num_cpus": cores(), "include_dashboard": False}
                options["object_store_memory"] = memory
            try:
                _start(self._ray, **options, logging_level="ERROR")
            except ConnectionError as error:
                raise ConnectionError(
                    f"Got the address {self._address} and no Ray cluster there; expected one that is running. Start it "
                    f"with `ray start --head` on its first machine. Ray says: {error}"
                ) from None
        self._remote = self._ray.remote(_run).options(
            num_cpus=self._cores,
            num_gpus=self._gpus,
            max_retries=self._retries,
            runtime_env={"env_vars": {CORES: str(self._cores)}},
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            self._ray.shutdown()

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """The results as they come. An interrupt stops all runs, which write checkpoints; those that end well count."""
        shared = {name: self._ray.put(one) for name, one in self._data.items()}
        running = {}
        for task in tasks:
            data = None if task.data is None else shared[task.data]
            call = (self._function, task.settings, data, self._folder / task.key)
            running[self._remote.remote(*call)] = task
        try:
            while running:
                [ended], _ = self._ray.wait(list(running))
                if (result := self._result(ended, running.pop(ended))) is not None:
                    yield result
        except (KeyboardInterrupt, SystemExit):  # Ray makes an exit of SIGTERM
            for reference in running:
                self._ray.cancel(reference, force=False)
            ready = self._ray.wait(list(running), num_returns=len(running), timeout=_GRACE)[0] if running else []
            results = [self._result(reference, running[reference]) for reference in ready]
            yield from (result for result in results if result is not None and result.status == "done")
            raise

    def _result(self, reference: object, task: Task) -> TaskResult | None:
        """How a task ended; None if it was interrupted, and is to be run at the next start."""
        errors = self._ray.exceptions
        try:
            return TaskResult(task, *self._ray.get(reference))
        except errors.TaskCancelledError:
            return None
        except errors.RayTaskError as error:  # not from the run, whose errors are results: from around it
            interrupted = isinstance(error.cause, KeyboardInterrupt)
            return None if interrupted else TaskResult(task, "failed", {"error": str(error.cause or error)})
        except errors.RayError as error:
            why = f"Its worker died {self._retries + 1} times. The last time: {type(error).__name__}"
            return TaskResult(task, "failed", {"error": why})


def _start(ray: Any, **options: Any) -> None:
    """`ray.init`. It would leave a handler of SIGTERM behind that ends the program: the old one is put back."""
    if options.get("address") in (None, "local") and shlex.quote(sys.executable) != sys.executable:
        # Ray starts its workers by a line of a shell, in which it forgets to quote a path with a space.
        options["runtime_env"] = {"py_executable": shlex.quote(sys.executable)}
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, **options)
    finally:
        if in_main_thread and before is not None:  # None is a handler that is not Python's
            signal.signal(signal.SIGTERM, before)


def _run(function: Function, settings: object, data: object, folder: Path) -> tuple[str, Result]:
    """Status and result of a task; an error is its result too. Interrupts pass."""
    begun = time.monotonic()
    try:
        status, values = "done", function(settings, data, folder)
    except Exception as error:
        message = str(error) or f"{type(error).__name__}: "
        status, values = "failed", {"error": message, "trace": traceback.format_exc(limit=-3)}
    return status, {"seconds": round(time.monotonic() - begun, 3), "host": socket.gethostname(), **values}


class Sweep:
    """All tasks of a sweep, and the folder of its results.

    `results/` has a file per finished task, whole or not there, `plan.json` says which tasks are the sweep's, and
    `runs/` holds the tasks' folders.

    Args:
        folder: of the sweep.
        tasks: those of the same key are run once.
    """

    def __init__(self, folder: Path, tasks: Sequence[Task]):
        self.folder = folder
        self.tasks = {task.key: task for task in tasks}
        self.runs = folder / "runs"

    @staticmethod
    def results_in(folder: Path) -> list[Result]:
        """The results in a folder that are the sweep's still: its file may have changed since they came."""
        plan = folder / "plan.json"
        keys = json.loads(plan.read_text())["keys"] if plan.exists() else []
        files = (_file_of(folder, key) for key in keys)
        return [json.loads(file.read_text("utf-8")) for file in files if file.exists()]

    def left(self) -> list[Task]:
        """The tasks without a result."""
        return [task for key, task in self.tasks.items() if not _file_of(self.folder, key).exists()]

    def forget_failed(self) -> None:
        """Remove results of tasks that ended with an error, so that they are run again."""
        for file in (_file_of(self.folder, key) for key in self.tasks):
            if file.exists() and json.loads(file.read_text("utf-8"))["status"] == "failed":
                file.unlink()

    def run(
        self, pool: InProcess | RayPool, on_progress: Callable[[int, int, str], None] = lambda done, total, said: None
    ) -> None:
        """Run what has no result yet. An interrupt stops it; a second start goes on.

        Args:
            pool: where tasks run.
            on_progress: called at the beginning and after each result with the number of tasks that have one, the
                number of all tasks, and a sentence.
        """
        private_folder(private_folder(self.folder) / "results")
        try:
            held = lock(self.folder / ".lock")
        except Timeout:
            raise RuntimeError(
                f"Got {self.folder}, in which another sweep is running; expected one at a time. Wait until it has "
                "ended, or read its table meanwhile with --table."
            ) from None
        try:
            with writing(self.folder / "plan.json", "w") as file:
                json.dump({"keys": list(self.tasks)}, file)
            left, total = self.left(), len(self.tasks)
            known = total - len(left)
            on_progress(known, total, "")
            for done, (task, status, values) in enumerate(pool.run(left), known + 1):
                ended = datetime.now(UTC).isoformat(timespec="seconds")
                result = {"key": task.key, "point": task.point, "status": status, **values, "ended": ended}
                with writing(_file_of(self.folder, task.key), "w") as file:
                    file.write(strict_json(result))
                outcome = f"failed: {values['error']}" if status == "failed" else "done"
                if values.get("value") is not None:
                    outcome = f"{values.get('metric')} {values['value']:.4g} in {values.get('seconds', 0):.1f} s"
                on_progress(done, total, f"{_title(task)}: {outcome}")
        finally:
            held.release()


def _file_of(folder: Path, key: str) -> Path:
    return folder / "results" / f"{key}.json"


def _title(task: Task) -> str:
    return ", ".join(
        short(value) if name in ("data", "model") else f"{name.split('.')[-1]} {short(value)}"
        for name, value in task.point.items()
    )
