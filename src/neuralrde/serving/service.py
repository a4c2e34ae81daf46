"""Models, their streams and the job queue: what REST, WebSockets and the page's replay ask."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .engine import Engine
from .jobs import Job, Outcome, future_of
from .limits import Limits, Metrics, Rates, RequestError
from .served import ServedModel
from .store import Store
from .watch import Hub

_LONGEST_NAME = 200


class Service:
    """Models and their streams. Its methods belong to the event loop's thread.

    Args:
        models: fitted estimators by name.
        state: the folder in which streams survive a restart; None keeps them in memory only.
        limits: how much it takes in.
        interval: the share of truths that a regressor's intervals should hold.
        last: how many points to keep of a stream, for models that look at series as a whole; see `estimator.stream`.
    """

    def __init__(
        self,
        models: dict[str, Any],
        *,
        state: Path | None = None,
        limits: Limits | None = None,
        interval: float | None = 0.9,
        last: int | None = None,
    ):
        self.limits = limits or Limits()
        self.metrics, self.hub, self.store = Metrics(), Hub(), Store(state)
        self.rates = Rates(self.limits)
        self.models = {
            name: ServedModel(name, estimator, interval=interval, last=last) for name, estimator in models.items()
        }
        self.engine = Engine(
            self.models, store=self.store, limits=self.limits, metrics=self.metrics, deliver=self._deliver
        )
        self._whole = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.metrics.gauge("queue", "Messages that wait for the model.", lambda: len(self.engine.queue))
        self.metrics.gauge("commits", "Transactions of the store.", lambda: self.store.commits)
        self.metrics.gauges("live", "Streams in memory.", lambda: {n: len(m.live) for n, m in self.models.items()})
        self.metrics.gauges("kept", "Streams in the store that are not in memory.", self._kept)

    def _kept(self) -> dict[str, float]:
        return {name: len(model.known) - len(model.live) for name, model in self.models.items()}

    async def start(self) -> None:
        """Begin; `ready` says when all is compiled."""
        self._loop = asyncio.get_running_loop()
        self.engine.start()

    async def stop(self) -> None:
        """Finish what waits, and keep all streams."""
        await asyncio.to_thread(self.engine.stop)
        await asyncio.to_thread(self.store.close)

    @property
    def ready(self) -> bool:
        return self.engine.ready.is_set() and self.engine.failure is None

    def model(self, name: str) -> ServedModel:
        """The model of this name, or a refusal."""
        if name not in self.models:
            raise RequestError(404, f"There is no model {name[:100]!r}; expected one of {list(self.models)}.")
        return self.models[name]

    # Jobs.

    def put(self, job: Job) -> None:
        """Put a job into the queue, or refuse it; `job.done` is called when it is done."""
        self._check_ready()
        self.engine.queue.put_all(deque([job]), self._admit)

    def _check_ready(self) -> None:
        if not self.ready:
            raise RequestError(
                503, "The models are being compiled; ask again when /v2/health/ready says so.", retry_after=2
            )

    def _admit(self, job: Job) -> None:
        if job.kind != "whole":
            check_name(job.stream)
            if job.values is not None:
                self.rates.take((job.model, job.stream), len(job.values))

    async def ask(self, job: Job) -> Outcome:
        """Put a job into the queue and wait for its outcome; a refusal is raised."""
        try:
            future = future_of(job, asyncio.get_running_loop())
            self.put(job)
            return await future
        except RequestError as error:
            self.note_refusal(job.model, error)
            raise

    async def put_patiently(self, jobs: Iterable[Job], refused: Callable[[Job, RequestError], None]) -> bool:
        """As `put`, in order, but wait where a stream sends too fast, so that a WebSocket is read more slowly.

        A job that waiting does not help is handed to `refused`, and so is one when all are too many: nobody should get
        old answers and not know it. Whether it had to wait.
        """
        left, waited = deque(jobs), False
        while not self.ready and self.engine.failure is None:
            waited = True
            await asyncio.sleep(0.05)
        while left:
            try:
                self._check_ready()
                self.engine.queue.put_all(left, self._admit, refused)
            except RequestError as error:
                if error.status == 429:
                    waited = True
                    await asyncio.sleep(min(error.retry_after or 0, 0.05))
                else:
                    refused(left.popleft(), error)
        return waited

    def whole_name(self) -> str:
        """A name that no client can give a stream."""
        self._whole += 1
        return f"\0whole {self._whole}"

    def note_refusal(self, model: str, error: RequestError) -> None:
        self.metrics.refused.labels(model if model in self.models else "", str(error.status)).inc()

    def _deliver(self, jobs: list[Job]) -> None:
        """From the engine's or the store's thread to the event loop's: once for a whole batch."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._delivered, jobs)
        except RuntimeError:  # the loop has been closed, nobody waits any more
            return

    def _delivered(self, jobs: list[Job]) -> None:
        if not jobs:
            return
        now, age = time.perf_counter(), self.metrics.answer_age.labels(jobs[0].model)
        for job in jobs:
            if job.outcome.error is None:
                age.observe(now - job.arrived)
                if self.hub.watched and job.kind == "push":
                    self.hub.note(job, now - job.arrived)
            if job.done is not None:
                job.done(job)


def check_name(name: str) -> None:
    """Refuse names that a log or a page could not show.

    >>> check_name("patient 7/left")
    """
    if not (1 <= len(name) <= _LONGEST_NAME and name.isprintable()):
        raise RequestError(
            400,
            f"Got the stream {name[:40]!r} of {len(name)} letters; expected 1 to {_LONGEST_NAME} that can be printed.",
        )
