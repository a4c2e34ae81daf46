"""Jobs: what is asked of a stream, what becomes of it, and the queue in which jobs wait for the model.

Jobs of one stream are done in order, those of different streams side by side.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np

from .limits import Limits, RequestError

_LASTING, _LATE = 1.0, 5  # seconds, and batches in a row, that are late before anything is shed
_LATE_OUTSIDE = 3  # times `wait` before a message comes in: it may be one of very many that arrived at once
_CALM = 5.0  # seconds without anything late after which shedding ends
Kind = Literal["push", "read", "write", "drop", "whole"]


class Prediction(msgspec.Struct, omit_defaults=True):
    """A class and the probabilities of all, or a number or several, perhaps with their intervals."""

    prediction: float | str | list[Any]
    probabilities: dict[str, float] | None = None
    interval: list[Any] | None = None


class LastAnswer(msgspec.Struct):
    """The answer to the end of a stream."""

    points: int
    prediction: Prediction | None


@dataclass(slots=True, eq=False)
class Outcome:
    """What a job came to: an error, or what it asked for."""

    points: int = 0
    prediction: Prediction | None = None
    state: dict[str, Any] | None = None
    error: RequestError | None = None


@dataclass(slots=True, eq=False)
class Job:
    """One thing that is asked of one stream.

    Args:
        model: the model's name.
        stream: the stream's name.
        kind: "push" points and predict; "read" or "write" the state; "drop" the stream; "whole" is a series that comes
            whole and leaves nothing behind.
        owner: the client.
        values, times: of a push, `(count, channels)` and `(count,)`.
        at: the number of the push's first point. Points that are there already are passed over, so that a client that
            does not know whether a push arrived may send it again.
        predict: whether to predict.
        create: whether a stream that is not there is opened; otherwise it is an error.
        start: whether the stream starts anew.
        end: whether it ends with this.
        state: what "write" puts.
        truth: what is true, if the client knows it; it is only shown.
        done: called in the event loop, with the job, when there is an outcome.
        behind: of a WebSocket, the streams of which it has lost a push to overload: more points of these are refused
            unless they say where they belong.
        key: what the stream is called while the job is done: one that begins is not yet the one of its name.
    """

    model: str
    stream: str
    kind: Kind = "push"
    owner: str = ""
    values: np.ndarray | None = None
    times: np.ndarray | None = None
    at: int | None = None
    predict: bool = True
    create: bool = True
    start: bool = False
    end: bool = False
    state: dict[str, Any] | None = None
    truth: float | str | None = None
    done: Callable[["Job"], None] | None = None
    behind: set[str] | None = None
    key: str = ""
    outcome: Outcome = field(default_factory=Outcome)
    arrived: float = field(default_factory=time.perf_counter)
    entered: float = 0.0
    """When it came into the queue."""
    turn: float = 0.0
    """When it became the first of its stream's there."""

    @property
    def fresh(self) -> bool:
        """Whether its stream is begun aside."""
        return self.key != self.stream

    def refuse(self, error: RequestError) -> None:
        """Leave it at this error."""
        self.outcome.error = error


def future_of(job: Job, loop: asyncio.AbstractEventLoop) -> asyncio.Future:
    """A future with the job's outcome, or its error."""
    future: asyncio.Future = loop.create_future()

    def done(job: Job) -> None:
        if future.done():  # whoever waited has gone
            return
        if job.outcome.error is not None:
            future.set_exception(job.outcome.error)
        else:
            future.set_result(job.outcome)

    job.done = done
    return future


class JobQueue:
    """A bounded queue between the event loop, which puts jobs in, and the thread that owns JAX.

    A batch has at most one job of each stream, so that no two pushes of a stream are in one, and a stream's jobs come
    out in the order in which they went in. Streams take turns: one that sends much waits behind the others.

    A queue in which every stream has waited too long for its turn, for a while, is overloaded. Then jobs that have
    waited longer than `limits.wait` are shed: refused, together with those of their streams behind them, without
    being done. What clients who have gone left behind goes the same way.

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
        self._calm, self._late, self._shed_until = time.perf_counter(), 0, 0.0
        self.shed: list[Job] = []
        """RequestError by `take`; whoever takes delivers them."""

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

    def put_all(
        self,
        jobs: deque[Job],
        admit: Callable[[Job], None] = lambda job: None,
        refused: Callable[[Job, RequestError], None] | None = None,
    ) -> None:
        """Put them in, from the left. One that is refused, here or by `admit`, raises, and is the first left.

        With `refused`, that is called instead, unless the client is only too fast (429).
        """
        with self._ready:
            try:
                while jobs:
                    try:
                        self._put(jobs[0], admit)
                    except RequestError as error:
                        if refused is None or (error.status == 429 and error.retry_after is not None):
                            raise
                        refused(jobs[0], error)
                    jobs.popleft()
            finally:
                self._ready.notify()

    def _put(self, job: Job, admit: Callable[[Job], None]) -> None:
        behind = set() if job.behind is None or job.values is None else job.behind
        if self.full:
            behind.add(job.stream)
            raise RequestError(
                503,
                f"{self._count} messages are waiting already, so that this one of the stream {job.stream!r} was "
                "refused; send it again a little later.",
                retry_after=1,
            )
        if job.stream in behind:
            if job.at is None and not job.start:
                raise RequestError(
                    503,
                    f"Points of the stream {job.stream!r} before these were refused, because the service is too busy; "
                    "expected `at`, the number of the first point, so that none is missing, or `start`.",
                    retry_after=1,
                )
            behind.discard(job.stream)
        streams = self._models.setdefault(job.model, {})
        jobs = streams.get(job.stream)
        if jobs is not None and len(jobs) >= self.limits.per_stream:
            raise RequestError(
                429,
                f"{len(jobs)} messages of the stream {job.stream!r} are waiting already; wait for their answers.",
                retry_after=1,
            )
        admit(job)
        if jobs is None:
            jobs = streams[job.stream] = deque()
        job.entered = job.turn = time.perf_counter()
        jobs.append(job)
        self._count += 1

    def wake(self) -> None:
        """Let whoever waits for a job look around."""
        with self._ready:
            self._ready.notify()

    def take(self, most: int, *, timeout: float) -> list[Job]:
        """The next batch, of one model; none if nothing comes within `timeout` seconds."""
        with self._ready:
            if not self._count:
                self._ready.wait(timeout)
            now = time.perf_counter()
            if not self._count:
                self._calm, self._late = now, 0
                return []
            # The model whose turn it is goes to the end of the line.
            name = next(name for name, streams in self._models.items() if streams)
            streams = self._models[name] = self._models.pop(name)
            overloaded = self._overloaded(now, next(iter(streams.values()))[0].turn)
            batch = []
            for stream in list(streams):
                jobs = streams.pop(stream)
                if overloaded and now - jobs[0].entered > self.limits.wait:
                    self._shed(jobs, now)
                    continue
                batch.append(jobs.popleft())
                if jobs:
                    streams[stream] = jobs
                    jobs[0].turn = now
                if len(batch) == most:
                    break
            self._count -= len(batch)
            return batch

    def _overloaded(self, now: float, turn: float) -> bool:
        """Whether the service falls behind, and goes on doing so; `turn` is since when the first stream waits."""
        if now - turn < self.limits.wait:
            self._calm, self._late = now, 0
        else:
            self._late += 1
        if self._late >= _LATE and now - self._calm > _LASTING:
            self._shed_until = now + _CALM
        return now < self._shed_until

    def too_late(self, arrived: float) -> bool:
        """Whether what has arrived then is shed before it comes in, because whoever puts it in falls behind as well."""
        now = time.perf_counter()
        return now < self._shed_until and now - arrived > _LATE_OUTSIDE * self.limits.wait

    def _shed(self, jobs: deque[Job], now: float) -> None:
        self._shed_until = now + _CALM
        for job in jobs:
            shed(job, now - jobs[0].arrived)
        self._count -= len(jobs)
        self.shed += jobs


def shed(job: Job, waited: float) -> None:
    """Refuse a job that has waited too long, or is behind one that has."""
    if job.behind is not None and job.values is not None:
        job.behind.add(job.stream)
    job.refuse(
        RequestError(
            503,
            f"The service is too busy: a message of the stream {job.stream!r} had waited for {waited:.2f} s, and "
            "nothing of it was done. Send it again later, with `at`, the number of its first point.",
            retry_after=1,
        )
    )
