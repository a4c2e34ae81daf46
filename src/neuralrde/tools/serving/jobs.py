"""Jobs, what is asked of a stream, and the queue in which they wait for the thread that owns JAX."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from ..._write import Values
from .limits import Limits, Rates, RequestError, wrong

_LASTING, _LATE = 1.0, 5  # seconds, and batches in a row, that are late before anything is shed
_LATE_OUTSIDE = 3  # times `wait` before a message comes in: it may be one of very many that arrived at once
_CALM = 5.0  # seconds without anything late after which shedding ends
_LONGEST_NAME = 200
Kind = Literal["push", "read", "write", "drop", "whole"]


class Prediction(msgspec.Struct, omit_defaults=True):
    """A class and the probabilities of all, or a number or several, perhaps with their intervals; or a forecast."""

    prediction: float | str | list[Any] | None = None
    probabilities: dict[str, float] | None = None
    interval: list[Any] | None = None
    explanation: Values | None = None
    forecast: list[list[float]] | None = None
    """Of each channel at each of `times`, which come after `now`."""
    times: list[float] | None = None
    now: float | None = None


class Ahead(NamedTuple):
    """What a forecast is asked for: times on the series' clock, or how far ahead; the model's usual times otherwise."""

    times: list[float] | None = None
    horizon: float | None = None


USUAL = Ahead()


@dataclass(slots=True, eq=False)
class Job:
    """One thing that is asked of one stream, and what became of it."""

    model: str
    stream: str
    kind: Kind = "push"
    """Points to "push" and predict for, a state to "read" or "write", a stream to "drop", or a "whole" series that
    leaves nothing behind."""
    owner: str = ""
    """The client."""
    values: np.ndarray | None = None
    times: np.ndarray | None = None
    at: int | None = None
    """The number of the first point. Points that are there already are passed over, so that it can be sent again."""
    static: Values | None = None
    """What is known of a series as a whole, by column, where it begins."""
    predict: bool = True
    explain: bool = False
    """Whether the prediction comes with what each channel contributed."""
    ahead: Ahead = USUAL
    create: bool = True
    """Whether a stream that is not there is opened; otherwise it is an error."""
    start: bool = False
    """Whether the stream starts anew."""
    end: bool = False
    truth: float | str | None = None
    """What is true, if the client knows it; it is only shown."""
    done: Callable[["Job"], None] | None = None
    """Called in the event loop when this job has its outcome."""
    behind: set[str] | None = None
    """The streams of which a WebSocket has lost a push to overload: more points of these are refused unless they say
    where they belong."""
    state: Values | None = None
    """What "write" puts and "read" gets."""
    key: str = ""
    """What the stream is called while the job is done: one that begins is not yet the one of its name."""
    points: int = 0
    prediction: Prediction | None = None
    error: RequestError | None = None
    arrived: float = field(default_factory=time.perf_counter)
    entered: float = 0.0
    """The time at which it came into the queue."""
    turn: float = 0.0
    """The time at which it became the first of its stream's there."""

    def shed(self, waited: float) -> None:
        """Refuse it because it has waited too long, or is behind one that has."""
        if self.behind is not None and self.values is not None:
            self.behind.add(self.stream)
        self.error = RequestError(
            503,
            f"The service is too busy: a message of the stream {self.stream!r} had waited for {waited:.2f} s, and "
            "nothing of it was done. Send it again later, with `at`, the number of its first point.",
            retry_after=1,
        )


class JobQueue:
    """A bounded queue between the event loop, which puts jobs in, and the thread that owns JAX.

    A batch has at most one job of each stream, and a stream's jobs come out in the order in which they went in. Streams
    take turns: one that sends much waits behind the others.

    A queue in which every stream has waited too long for its turn, for a while, is overloaded. Then jobs that have
    waited longer than `limits.wait` are shed, together with those of their streams behind them, without being done.

    >>> queue = JobQueue(Limits())
    >>> for name in "aab":
    ...     queue.put(Job("m", name))
    >>> [[job.stream for job in queue.take(8, timeout=0)] for _ in range(2)]
    [['a', 'b'], ['a']]
    """

    def __init__(self, limits: Limits):
        self.limits, self._rates = limits, Rates(limits)
        self._models: dict[str, dict[str, deque[Job]]] = {}
        self._count = 0
        self._ready = threading.Condition()
        self._calm, self._late, self._shed_until = time.perf_counter(), 0, 0.0
        self.shed: list[Job] = []
        """The jobs that `take` has shed; whoever takes delivers them."""

    def __len__(self) -> int:
        return self._count

    def put(self, job: Job) -> None:
        """Put a job in, or refuse it."""
        self.put_all(deque([job]))

    def put_all(self, jobs: deque[Job]) -> None:
        """Put jobs in, from the left. One that is refused raises, and is the first that is left."""
        with self._ready:
            try:
                while jobs:
                    self._put(jobs[0])
                    jobs.popleft()
            finally:
                self._ready.notify()

    def _put(self, job: Job) -> None:
        name, behind = job.stream, set() if job.behind is None or job.values is None else job.behind
        if self._count >= self.limits.queue:
            behind.add(name)
            raise RequestError(
                503,
                f"{self._count} messages are waiting already, so that this one of the stream {name!r} was "
                "refused; send it again a little later.",
                retry_after=1,
            )
        if name in behind:
            if job.at is None and not job.start:
                raise RequestError(
                    503,
                    f"Points of the stream {name!r} before these were refused, because the service is too busy; "
                    "expected `at`, the number of the first point, so that none is missing, or `start`.",
                    retry_after=1,
                )
            behind.discard(name)
        streams = self._models.setdefault(job.model, {})
        jobs = streams.get(name)
        if jobs is not None and len(jobs) >= self.limits.per_stream:
            raise RequestError(
                429,
                f"{len(jobs)} messages of the stream {name!r} are waiting already; wait for their answers.",
                retry_after=1,
            )
        if job.kind != "whole":
            if not (1 <= len(name) <= _LONGEST_NAME and name.isprintable()):
                raise wrong(
                    f"Got the stream {name[:40]!r} of {len(name)} letters; expected 1 to {_LONGEST_NAME} that can be "
                    "printed."
                )
            if job.values is not None:
                self._rates.take((job.model, name), len(job.values))
        if jobs is None:
            jobs = streams[name] = deque()
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
            now, batch = time.perf_counter(), []
            if not self._count:
                self._calm, self._late = now, 0
                return batch
            # The model whose turn it is goes to the end of the line.
            name = next(name for name, streams in self._models.items() if streams)
            streams = self._models[name] = self._models.pop(name)
            overloaded = self._overloaded(now, next(iter(streams.values()))[0].turn)
            for stream in list(streams):
                jobs = streams.pop(stream)
                if overloaded and now - jobs[0].entered > self.limits.wait:
                    self._shed_until = now + _CALM
                    for job in jobs:
                        job.shed(now - jobs[0].arrived)
                    self._count -= len(jobs)
                    self.shed += jobs
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
