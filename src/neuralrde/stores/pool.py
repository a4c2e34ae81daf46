"""Who does the tasks of `prepare`: threads of this machine, or a Ray cluster. Both give results in order."""

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from .._cores import cores
from .._ray import start_ray


@contextmanager
def pool_of(ray: Any, workers: int | None, memory: float) -> Iterator["Threads | RayTasks"]:
    """Threads that work with so many GiB of memory, or with `ray`, its address or True, a cluster."""
    if ray is None or ray is False:
        yield Threads(workers, memory)
        return
    with RayTasks(ray) as tasks:
        yield tasks


class Threads:
    """Does tasks on all cores of this machine, a few at a time.

    The kernel, pyarrow and NumPy release the interpreter's lock where they work.
    """

    def __init__(self, workers: int | None, memory: float):
        self.workers, self.memory, self.stopped = workers, memory * 2**30, threading.Event()

    def each(self, function: Any, tasks: Iterator[tuple[Any, ...]], count: int, needs: float) -> Iterator[Any]:
        fitting = max(1, int(0.75 * self.memory / max(needs, 1)))
        workers = min(self.workers or cores(), fitting, max(1, count))
        with ThreadPoolExecutor(workers) as executor:
            running: list[Future] = []
            try:
                for task in tasks:
                    running.append(executor.submit(function, *task, self.stopped.is_set))
                    if len(running) > workers:
                        yield self._first(running)
                while running:
                    yield self._first(running)
            except BaseException:
                self.stopped.set()
                executor.shutdown(wait=True, cancel_futures=True)
                raise

    @staticmethod
    def _first(running: list[Future]) -> Any:
        # Whichever fails ends all, without a wait for those before it.
        while not running[0].done():
            done, _ = wait([one for one in running if not one.done()], return_when=FIRST_COMPLETED)
            for one in done:
                one.result()
        return running.pop(0).result()


class RayTasks:
    """Does tasks on the nodes of a Ray cluster.

    Args:
        address: of the cluster, such as "auto" or "ray://head:10001"; True starts one on this machine, or joins the one
            that this program is connected to.
    """

    def __init__(self, address: str | bool):
        try:
            import ray
        except ImportError:
            raise ImportError(
                "Got ray=..., and Ray is not installed. Write `pip install 'neuralrde[ray]'`, or leave it out: threads "
                "then do the work on this machine."
            ) from None
        self._ray, self._started = ray, not ray.is_initialized()
        if self._started:
            options: Any = {} if address is True else {"address": address}
            start_ray(ray, include_dashboard=False, **options)

    def __enter__(self) -> "RayTasks":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._started:
            self._ray.shutdown()

    def each(self, function: Any, tasks: Iterator[tuple[Any, ...]], count: int, needs: float) -> Iterator[Any]:
        """Ray starts as many at a time as the cluster has cores and memory for, and repeats those of lost nodes."""
        remote = self._ray.remote(num_cpus=1, memory=int(needs), max_retries=3)(function)
        most = 4 * max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        running: list[Any] = []
        try:
            for task in tasks:
                running.append(remote.remote(*task))
                if len(running) >= most:
                    yield self._first(running)
            while running:
                yield self._first(running)
        except BaseException:
            for one in running:
                self._ray.cancel(one, force=True)
            raise

    def _first(self, running: list[Any]) -> Any:
        try:
            return self._ray.get(running.pop(0))
        except self._ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
