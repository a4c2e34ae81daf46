"""Jobs that wait for the model: in order within a stream, side by side across streams."""

import threading
from collections import deque
from collections.abc import Callable

from .errors import Refused
from .jobs import Job
from .limits import Limits


class JobQueue:
    """A bounded queue between the event loop, which puts jobs in, and the thread that owns JAX.

    A batch has at most one job of each stream, so that no two pushes of a stream are in one, and a stream's jobs come
    out in the order in which they went in. Streams take turns: one that sends much waits behind the others.

    >>> queue = JobQueue(Limits())
    >>> for name in "aab":
    ...     queue.put(Job("m", name))
    >>> [[job.stream for job in queue.take(8, timeout=0)] for _ in range(2)]
    [['a', 'b'], ['a']]
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self._models: dict[str, dict[str, deque[Job]]] = {}
        self._count = 0
        self._ready = threading.Condition()

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return self._count >= self.limits.queue

    def waiting(self, model: str, stream: str) -> int:
        """Jobs of one stream."""
        return len(self._models.get(model, {}).get(stream, ()))

    def put(self, job: Job) -> None:
        """Put it in, or refuse it."""
        self.put_all(deque([job]))

    def put_all(self, jobs: deque[Job], admit: Callable[[Job], None] = lambda job: None) -> None:
        """Put them in, from the left. One that is refused, here or by `admit`, raises, and is the first left."""
        with self._ready:
            try:
                while jobs:
                    self._put(jobs[0], admit)
                    jobs.popleft()
            finally:
                self._ready.notify()

    def _put(self, job: Job, admit: Callable[[Job], None]) -> None:
        if self.full:
            raise Refused(
                503, f"{self._count} messages are waiting already; send it again a little later.", retry_after=1
            )
        streams = self._models.setdefault(job.model, {})
        jobs = streams.get(job.stream)
        if jobs is not None and len(jobs) >= self.limits.per_stream:
            raise Refused(
                429,
                f"{len(jobs)} messages of the stream {job.stream!r} are waiting already; wait for their answers.",
                retry_after=1,
            )
        admit(job)
        if jobs is None:
            jobs = streams[job.stream] = deque()
        jobs.append(job)
        self._count += 1

    def take(self, most: int, *, timeout: float) -> list[Job]:
        """The next batch, of one model; none if nothing comes within `timeout` seconds."""
        with self._ready:
            if not self._count:
                self._ready.wait(timeout)
            if not self._count:
                return []
            # The model whose turn it is goes to the end of the line.
            name = next(name for name, streams in self._models.items() if streams)
            streams = self._models[name] = self._models.pop(name)
            batch = []
            for stream in list(streams)[:most] if len(streams) > most else list(streams):
                jobs = streams.pop(stream)
                batch.append(jobs.popleft())
                if jobs:
                    streams[stream] = jobs
            self._count -= len(batch)
            return batch
