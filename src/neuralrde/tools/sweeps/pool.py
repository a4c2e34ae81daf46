"""Where tasks run: in this process, one after another, or on Ray, on all cores of this machine or of a cluster."""

import contextlib
import os
import secrets
import socket
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ..._cores import CORES, cores
from ..._write import private_folder, writing
from .._ray import start_ray
from .results import Task

Function = Callable[[Any, Any, Path], dict[str, Any]]
"""Runs a task, given settings, data and the task's folder; returns what goes into the line of results."""

_TOKEN = ".sweep"
# Ray's shared memory, beside the data that tasks share: arguments and results are small.
_LEAST_STORE = 200 * 2**20
# An interrupted run writes a checkpoint before it ends.
_GRACE = 30.0


@dataclass(frozen=True)
class TaskResult:
    """How a task ended: "done", "failed" by an error of its own, or "lost" with its worker."""

    task: Task
    status: str
    values: dict[str, Any] = field(default_factory=dict)


class InProcess:
    """Runs tasks in this process, one after another, each on all of its cores.

    Args:
        function: runs a task.
        data: objects that tasks work on, by name.
        folder: each task gets a folder of its own in it.
    """

    def __init__(self, function: Function, *, data: Mapping[str, Any], folder: Path):
        self._function, self._data, self._folder = function, data, folder
        self._waiting: deque[Task] = deque()

    def slots(self) -> int:
        """One task at a time."""
        return 1

    def submit(self, task: Task) -> None:
        """Run it at the next `wait`."""
        self._waiting.append(task)

    def wait(self, seconds: float) -> list[TaskResult]:
        """Run one task to its end, however long that takes."""
        if not self._waiting:
            return []
        task = self._waiting.popleft()
        data = None if task.data is None else self._data[task.data]
        return [TaskResult(task, *_run(self._function, task.settings, data, self._folder / task.key))]

    def interrupt(self) -> list[TaskResult]:
        """Nothing runs any more: the interrupt has ended it."""
        self._waiting.clear()
        return []


class RayPool:
    """Runs tasks on Ray, each on a number of cores. Use it in a `with` block.

    Without an address, Ray is started on this machine, on the cores that this process may use, and stopped at the end.
    Nothing is sent anywhere: usage statistics are off, and there is no dashboard. A task whose worker or node dies ends
    as "lost"; the sweep gives it out again.

    Args:
        function: runs a task. A module that the workers can import must have it.
        data: objects that tasks work on, by name. Each is copied to a node once, and tasks there share it.
        folder: each task gets a folder of its own in it. A worker that does not see it, because it is on another host
            and the folder is not shared, works in a temporary one and cannot resume.
        cores: of each task.
        gpus: of each task; a fraction lets tasks share one.
        address: of a cluster, "auto" for the one on this machine; None starts Ray here.
    """

    def __init__(
        self,
        function: Function,
        *,
        data: Mapping[str, Any],
        folder: Path,
        cores: int = 1,
        gpus: float = 0,
        address: str | None = None,
    ):
        # Before the import: Ray reads them then. Nothing is to be sent anywhere.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError:
            raise ImportError(
                "Got a sweep on Ray, and no Ray to run it on. Write `pip install 'neuralrde[sweep]'`, or --no-ray to "
                "run one task after another in this process."
            ) from None
        self._ray, self._function, self._data, self._folder = ray, function, data, folder
        self._cores, self._gpus, self._address = cores, gpus, address
        self._shared: dict[str, Any] = {}
        self._running: dict[Any, Task] = {}

    def __enter__(self) -> Self:
        self._ours = not self._ray.is_initialized()
        if self._ours:
            options: dict[str, Any] = {"address": self._address}
            if self._address is None:
                import cloudpickle

                memory = _LEAST_STORE + 2 * sum(len(cloudpickle.dumps(one)) for one in self._data.values())
                # "local" is not a cluster that happens to run on this machine.
                options = {"address": "local", "num_cpus": cores(), "include_dashboard": False}
                options["object_store_memory"] = memory
            try:
                start_ray(self._ray, **options, logging_level="ERROR")
            except ConnectionError as error:
                raise ConnectionError(
                    f"Got the address {self._address} and no Ray cluster there; expected one that is running. Start it "
                    f"with `ray start --head` on its first machine. Ray says: {error}"
                ) from None
        self._token = secrets.token_hex(8)
        private_folder(self._folder)
        with writing(self._folder / _TOKEN, "w") as file:
            file.write(self._token)
        self._remote = self._ray.remote(_run_remotely).options(
            num_cpus=self._cores,
            num_gpus=self._gpus,
            max_retries=0,  # a sweep counts and tells them
            runtime_env={"env_vars": {CORES: str(self._cores)}},
        )
        return self

    def __exit__(self, *_: object) -> None:
        (self._folder / _TOKEN).unlink(missing_ok=True)
        if self._ours:
            self._ray.shutdown()

    def slots(self) -> int:
        """The number that the cluster's cores allow, as nodes come and go."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0) // self._cores))

    def submit(self, task: Task) -> None:
        """Give a task to Ray."""
        if task.data is not None and task.data not in self._shared:
            self._shared[task.data] = self._ray.put(self._data[task.data])
        data = None if task.data is None else self._shared[task.data]
        call = (self._function, task.settings, data, str(self._folder), task.key, self._token)
        self._running[self._remote.remote(*call)] = task

    def wait(self, seconds: float) -> list[TaskResult]:
        """The tasks that end within this time."""
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), timeout=seconds)
        return [self._result(reference) for reference in ready]

    def _result(self, reference: Any) -> TaskResult:
        task, errors = self._running.pop(reference), self._ray.exceptions
        try:
            return TaskResult(task, *self._ray.get(reference))
        except errors.TaskCancelledError:
            return TaskResult(task, "lost", {"error": "cancelled"})
        except errors.RayTaskError as error:  # not from the run, whose errors are results: from around it
            if isinstance(error.cause, KeyboardInterrupt):
                return TaskResult(task, "lost", {"error": "interrupted"})
            return TaskResult(task, "failed", {"error": str(error.cause or error)})
        except errors.RayError as error:
            return TaskResult(task, "lost", {"error": f"lost ({type(error).__name__}), to be run again"})

    def interrupt(self) -> list[TaskResult]:
        """Interrupt all runs, which write a checkpoint; returns those that still ended well."""
        running = list(self._running)
        for reference in running:
            self._ray.cancel(reference, force=False)
        ready = self._ray.wait(running, num_returns=len(running), timeout=_GRACE)[0] if running else []
        return [result for result in map(self._result, ready) if result.status == "done"]


def _run_remotely(
    function: Function, settings: Any, data: Any, folder: str, key: str, token: str
) -> tuple[str, dict[str, Any]]:
    """Run a task in a worker."""
    with contextlib.ExitStack() as stack:
        place = Path(folder)
        try:  # a host may have another folder of the same name
            shared = (place / _TOKEN).read_text() == token
        except OSError:
            shared = False
        place = place if shared else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return _run(function, settings, data, place / key)


def _run(function: Function, settings: Any, data: Any, folder: Path) -> tuple[str, dict[str, Any]]:
    """Status and result of a task; an error is its result too. Interrupts pass."""
    begun = time.monotonic()
    try:
        status, values = "done", function(settings, data, folder)
    except Exception as error:
        message = str(error) or f"{type(error).__name__}: "
        status, values = "failed", {"error": message, "trace": traceback.format_exc(limit=-3)}
    return status, {"seconds": round(time.monotonic() - begun, 3), "host": socket.gethostname(), **values}
