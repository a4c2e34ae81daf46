"""The same tasks on a Ray cluster."""

from collections.abc import Iterator
from typing import Any

from .._ray import start_ray


class RayTasks:
    """Does tasks on the nodes of a Ray cluster and gives their results in order.

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
