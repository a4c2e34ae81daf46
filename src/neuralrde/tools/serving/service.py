"""Models, their streams and the queue of jobs: what REST and WebSockets ask, and what watching pages are shown."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..._write import Values
from ...estimators.forecasting import Forecaster
from .engine import Engine
from .jobs import Job
from .limits import Limits, Metrics, RequestError
from .served import ServedForecaster, ServedModel
from .store import Store


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
        models: Values,
        *,
        state: Path | None = None,
        limits: Limits | None = None,
        interval: float | None = 0.9,
        last: int | None = None,
    ):
        self.limits, self.metrics, self.hub, self.store = limits or Limits(), Metrics(), Hub(), Store(state)
        kind = lambda one: ServedForecaster if isinstance(one, Forecaster) else ServedModel
        self.models = {name: kind(one)(name, one, interval=interval, last=last) for name, one in models.items()}
        self.engine = Engine(
            self.models, store=self.store, limits=self.limits, metrics=self.metrics, deliver=self._deliver
        )
        self._wholes = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.metrics.queue.set_function(lambda: len(self.engine.queue))
        self.metrics.commits.set_function(lambda: self.store.commits)
        for name, served in self.models.items():
            self.metrics.live.labels(name).set_function(lambda own=served: len(own.live))
            self.metrics.kept.labels(name).set_function(lambda own=served: len(own.known) - len(own.live))

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

    def check_ready(self) -> None:
        if not self.ready:
            raise RequestError(
                503, "The models are being compiled; ask again when /v2/health/ready says so.", retry_after=2
            )

    def model(self, name: str) -> ServedModel:
        """The model of this name, or a refusal."""
        if name not in self.models:
            raise RequestError(404, f"There is no model {name[:100]!r}; expected one of {list(self.models)}.")
        return self.models[name]

    async def ask(self, job: Job) -> Job:
        """Put a job into the queue and wait until it is done; a refusal is raised."""
        future = asyncio.get_running_loop().create_future()
        job.done = lambda job: None if future.done() else future.set_result(job)  # whoever waited may have gone
        try:
            self.check_ready()
            self.engine.queue.put(job)
            await future
            if job.error is not None:
                raise job.error
        except RequestError as error:
            self.note_refusal(job.model, error)
            raise
        return job

    async def put_patiently(self, jobs: Iterable[Job]) -> bool:
        """Put jobs into the queue, in order, and wait where a stream sends too fast, so that its WebSocket is read more
        slowly. Whether it had to wait.

        A job that waiting does not help is refused at once, and so is one when all are too many: nobody should get old
        answers and not know it.
        """
        left, waited = deque(jobs), False
        while not self.ready and self.engine.failure is None:
            waited = True
            await asyncio.sleep(0.05)
        while left:
            try:
                self.check_ready()
                self.engine.queue.put_all(left)
            except RequestError as error:
                if error.status == 429:
                    waited = True
                    await asyncio.sleep(min(error.retry_after or 0, 0.05))
                    continue
                job = left.popleft()
                job.error = error
                assert job.done is not None
                job.done(job)
        return waited

    def whole_name(self) -> str:
        """A name that no client can give a stream."""
        return f"\0whole {next(self._wholes)}"

    def note_refusal(self, model: str, error: RequestError) -> None:
        self.metrics.refused.labels(model if model in self.models else "", str(error.status)).inc()

    def _deliver(self, jobs: list[Job]) -> None:
        """Hand jobs from the engine's or the store's thread to the event loop, once for a whole batch."""
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
            if job.error is None:
                age.observe(now - job.arrived)
                if self.hub.watchers and job.kind == "push":
                    self.hub.note(job, now - job.arrived)
            if job.done is not None:
                job.done(job)


FRAME = 0.1  # seconds between two frames
PATIENCE = 10.0  # seconds that a page may take to read one
PAGES = 64  # at once
_TILES = 64  # streams that a page shows at once
_TILE_POINTS = 12  # points of a tile in one frame
_FOCUS_POINTS = 2_000
_LATENCIES = 200  # in one frame


class Watcher(msgspec.Struct, eq=False):
    """What one page has not been shown yet, and what it asks for: `{"focus": name, "model": name}`."""

    focus: str | None = None
    model: str | None = None
    shown: set[str] = set()
    pending: dict[str, Values] = {}
    latencies: list[float] = []
    reading: bool = False
    """Whether a frame is on its way. What comes meanwhile is not kept: it would grow without a bound."""

    def note(self, job: Job, latency: float) -> None:
        if not self.reading:
            self.latencies.append(1000 * latency)
        name = job.stream
        if self.model not in (None, job.model) or (name not in self.shown and len(self.shown) >= _TILES):
            return
        if job.end:
            self.shown.discard(name)
            self.pending[name] = {"ended": True}
            return
        self.shown.add(name)
        entry = self.pending.setdefault(name, {"parts": []})
        if "ended" in entry:
            entry = self.pending[name] = {"parts": [], "restarted": True}
        if job.start:
            entry["restarted"] = True
        entry["points"], entry["latency"] = job.points, 1000 * latency
        if job.prediction is not None:
            entry["answer"] = job.prediction
        if job.truth is not None:
            entry["truth"] = job.truth
        if job.values is not None and not self.reading:
            entry["parts"].append(job.values)

    def frame(self) -> bytes | None:
        """What is new, as JSON: streams, points, answers, latencies; None if nothing is."""
        pending, self.pending = self.pending, {}
        latencies, self.latencies = self.latencies, []
        if not pending and not latencies:
            return None
        for name, entry in pending.items():
            if not (parts := entry.pop("parts", [])):
                continue
            points = np.concatenate(parts)
            stride = entry["stride"] = -(-len(points) // (_FOCUS_POINTS if name == self.focus else _TILE_POINTS))
            entry["from"] = entry["points"] - len(points)
            drawn = points[::stride] if name == self.focus else points[::stride, :1]
            entry["values"] = drawn.round(5).tolist()  # NaN is written as null
        few = [round(one, 3) for one in latencies[:: max(1, -(-len(latencies) // _LATENCIES))]]
        return msgspec.json.encode({"streams": pending, "latencies": few})


class Hub:
    """Pages that watch. A slow page gets fewer frames, and one that does not read is closed; nobody waits for it."""

    def __init__(self):
        self.watchers: set[Watcher] = set()

    def note(self, job: Job, latency: float) -> None:
        """Tell every page of a push that is done."""
        for watcher in self.watchers:
            watcher.note(job, latency)

    async def serve(self, socket: WebSocket) -> None:
        """Send frames until the page goes."""
        await socket.accept()
        if len(self.watchers) >= PAGES:
            await socket.close(1013, f"{PAGES} pages are watching already; close one.")
            return
        watcher = Watcher()
        self.watchers.add(watcher)
        reader = asyncio.create_task(_listen(socket, watcher))
        try:
            while not reader.done():
                await asyncio.sleep(FRAME)
                if (frame := watcher.frame()) is not None:
                    watcher.reading = True
                    await asyncio.wait_for(socket.send_text(frame.decode()), PATIENCE)
                    watcher.reading = False
        except (WebSocketDisconnect, RuntimeError, TimeoutError):
            return
        finally:
            self.watchers.discard(watcher)
            reader.cancel()


class _Asked(msgspec.Struct):
    focus: str | None = None
    model: str | None = None


async def _listen(socket: WebSocket, watcher: Watcher) -> None:
    while (message := await socket.receive())["type"] != "websocket.disconnect":
        try:
            asked = msgspec.json.decode(message.get("text") or message.get("bytes") or b"", type=_Asked)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if asked.model != watcher.model:
            watcher.shown.clear()
            watcher.pending.clear()
        watcher.focus, watcher.model = asked.focus, asked.model
