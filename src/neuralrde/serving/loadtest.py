"""Series of a data file as pushes, each due at its time: what the page replays, and what a load test sends."""

import asyncio
import contextlib
import gc
import heapq
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import msgspec
import numpy as np
from msgspec import Meta
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from ..datasets import Dataset
from .jobs import Job
from .limits import RequestError
from .service import Service


@dataclass(frozen=True)
class Push:
    """Points of one series."""

    due: float
    """Seconds after the start of the series at which its last point is there, at speed 1."""
    first: int
    """The number of its first point."""
    values: np.ndarray
    times: np.ndarray | None
    truth: float | str | None


class Recording:
    """The series of a data set, to be sent as if they were being measured.

    Args:
        data: the series, with their targets if these are known.
        rate: points per second of series without times; times are in seconds.
        seconds: of data in one push, about.
        timed: whether pushes carry times; None if the data have them.

    >>> from neuralrde.paths import Series
    >>> recording = Recording(Dataset(Series.from_array(np.zeros((1, 10)))), rate=5, seconds=1)
    >>> [(push.first, len(push.values), push.due) for push in recording.pushes(0)]
    [(0, 5, 0.8), (5, 5, 1.8)]
    """

    def __init__(self, data: Dataset, *, rate: float = 125, seconds: float = 0.2, timed: bool | None = None):
        self.data, self.rate, self.seconds = data, rate, seconds
        self.timed = data.series.times is not None if timed is None else timed

    def __len__(self) -> int:
        return len(self.data.series)

    @property
    def points_per_second(self) -> float:
        """Of the first series, about."""
        clock = self.clock(0)
        return self.rate if len(clock) < 2 or clock[-1] <= 0 else float((len(clock) - 1) / clock[-1])

    def name(self, k: int) -> str:
        """What a person knows the series by."""
        ids = self.data.series.ids
        return f"{self.data.name}/{k if ids is None else ids[k]}"

    def clock(self, k: int) -> np.ndarray:
        """Seconds since the first point."""
        series, length = self.data.series, int(self.data.series.lengths[k])
        if series.times is None:
            return np.arange(length) / self.rate
        times = np.asarray(series.times[k][:length], np.float64)
        return times - times[0]

    def pushes(self, k: int) -> Iterator[Push]:
        """In order."""
        series, clock = self.data.series, self.clock(k)
        values = np.asarray(series.values[k][: len(clock)], np.float64)
        times = None if series.times is None or not self.timed else np.asarray(series.times[k], np.float64)
        part = np.floor(clock / self.seconds + 1e-9).astype(np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(clock)]
        for start, end in itertools.pairwise(cuts):
            given = None if times is None else times[start:end]
            yield Push(float(clock[end - 1]), start, values[start:end], given, self.truth(k, start, end))

    def truth(self, k: int, start: int, end: int) -> float | str | None:
        """What is true at these points, the last that is known; None if nothing is."""
        target, classes = self.data.target, self.data.classes
        if target is None:
            return None
        truth = np.asarray(target[k])
        if self.data.per_time:
            truth = truth[start:end]
            known = truth >= 0 if classes is not None else ~np.isnan(truth.reshape(len(truth), -1)).any(axis=1)
            if not known.any():
                return None
            truth = truth[np.flatnonzero(known)[-1]]
        if classes is not None:
            return classes[int(truth)] if truth >= 0 else None
        first = float(np.ravel(truth)[0])
        return None if np.isnan(first) else first


_MOST_STREAMS = 64
_LATE = 0.5  # seconds behind its time after which a replay does not hurry to catch up


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What the page asks for; what it leaves out stays as it is."""

    running: bool | None = None
    speed: Annotated[float, Meta(ge=0.1, le=100)] | None = None
    streams: Annotated[int, Meta(ge=1, le=_MOST_STREAMS)] | None = None


class ReplayStatus(msgspec.Struct):
    """What the page shows."""

    model: str
    data: str
    series: int
    rate: float
    """Points per second of one series."""
    running: bool
    speed: float
    streams: int


class Replay:
    """Series of a recording as streams of the service, at a speed that can be changed while it runs.

    Args:
        service: where the points go, by the same way as a client's.
        model: the name of the model that is asked.
        recording: what is played; at its end it starts anew.
    """

    def __init__(self, service: Service, model: str, recording: Recording):
        self.service, self.model, self.recording = service, model, recording
        self.running, self.speed, self.streams = False, 1.0, min(8, len(recording))
        self._tasks: dict[int, asyncio.Task] = {}
        self._go = asyncio.Event()

    def status(self) -> ReplayStatus:
        recording = self.recording
        about = recording.data.name, len(recording), recording.points_per_second
        return ReplayStatus(self.model, *about, self.running, self.speed, self.streams)

    def change(self, asked: ReplayRequest) -> None:
        """Start, pause, or play faster or slower."""
        if asked.streams is not None and asked.streams > len(self.recording):
            raise RequestError(400, f"Got streams={asked.streams}; expected 1 to {len(self.recording)}.")
        self.speed = self.speed if asked.speed is None else asked.speed
        self.streams = self.streams if asked.streams is None else asked.streams
        self.running = self.running if asked.running is None else asked.running
        if self.running:
            self._go.set()
        else:
            self._go.clear()
        for k in range(len(self.recording)):
            task = self._tasks.get(k)
            if k < self.streams and self.running and (task is None or task.done()):
                self._tasks[k] = asyncio.create_task(self._play(k))
            elif k >= self.streams and task is not None:
                task.cancel()
                del self._tasks[k]

    async def stop(self) -> None:
        """End all streams of the replay."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _play(self, k: int) -> None:
        name = self.recording.name(k)
        try:
            while True:
                await self._once(k, name)
                await asyncio.sleep(1)
        finally:
            with contextlib.suppress(RequestError, asyncio.CancelledError):
                await self.service.ask(Job(self.model, name, owner="replay", predict=False, create=False, end=True))

    async def _once(self, k: int, name: str) -> None:
        clock, before, first = time.monotonic(), 0.0, True
        for push in self.recording.pushes(k):
            if not self._go.is_set():
                await self._go.wait()
                clock = time.monotonic()
            due = clock + (push.due - before) / self.speed
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            clock, before = max(due, time.monotonic() - _LATE), push.due
            job = Job(
                self.model, name, owner="replay", values=push.values, times=push.times, start=first, truth=push.truth
            )
            with contextlib.suppress(RequestError):  # counted, and shown by the metrics
                await self.service.ask(job)
            first = False


_TICK = 0.02  # seconds; pushes that are due within one are sent together
_AFTER = 5.0  # seconds that answers may take after the last push


class _Answer(msgspec.Struct):
    id: int | None = None
    error: str | None = None
    status: int = 200


_ANSWERS, _ANSWER = msgspec.json.Decoder(list[_Answer]), msgspec.json.Decoder(_Answer)


@dataclass
class Report:
    """What a run measured, in milliseconds from when a push was due."""

    streams: int
    connections: int
    seconds: float
    sent: int = 0
    points: int = 0
    latencies: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    """How late the generator itself sent."""
    refused: list[str] = field(default_factory=list)
    """Because the service was too busy; the stream begins anew with its next push."""
    errors: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Plain numbers."""
        latencies = np.array(self.latencies) if self.latencies else np.full(1, np.nan)
        lags = np.array(self.lags) if self.lags else np.full(1, np.nan)
        marks = {"p50": 50, "p99": 99, "p99_9": 99.9, "max": 100}
        return {
            "streams": self.streams,
            "connections": self.connections,
            "seconds": round(self.seconds, 1),
            "pushes": self.sent,
            "answers": len(self.latencies),
            "refused": len(self.refused),
            "unanswered": self.sent - len(self.latencies) - len(self.refused) - len(self.errors),
            "errors": len(self.errors),
            "first_error": next(iter(self.errors + self.refused), None),
            "points_per_second": round(self.points / self.seconds) if self.seconds else 0,
            "latency_ms": {name: round(float(np.percentile(latencies, mark)), 2) for name, mark in marks.items()},
            "generator_lag_ms": {"p99": round(float(np.percentile(lags, 99)), 2)},
        }


class Load:
    """Streams of a recording, sent to a service.

    Args:
        url: the service's address, such as http://127.0.0.1:8000.
        model: the model's name there.
        recording: what is sent; a stream whose series is over starts anew.
        streams: how many at once.
        speed: how many times faster than measured.
        connections: over how many WebSockets; None for one per 50 streams.
        token: the service's.
        seed: when within a push's period each stream starts.
    """

    def __init__(
        self,
        url: str,
        model: str,
        recording: Recording,
        *,
        streams: int,
        speed: float = 1.0,
        connections: int | None = None,
        token: str | None = None,
        seed: int = 0,
    ):
        self.address = f"{websocket_of(url)}/v2/models/{quote(model, safe='')}/streams"
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.recording, self.streams, self.speed = recording, streams, speed
        self.connections = min(connections or -(-streams // 50), streams)
        self._random = random.Random(seed)
        self._heads: dict[tuple[int, int], bytes] = {}
        self._points: dict[tuple[int, int], bytes] = {}
        self._pushes: dict[int, list[Push]] = {}

    async def run(self, seconds: float) -> Report:
        """Send for so long, wait for the last answers, and tell."""
        report = Report(self.streams, self.connections, seconds)
        for k in range(min(self.streams, len(self.recording))):
            self._prepare(k)
        gc.collect()
        gc.freeze()  # it shares its cores with the service, and none of this is garbage
        sockets = await asyncio.gather(*(self._connect() for _ in range(self.connections)))
        start = time.perf_counter() + 0.2
        try:
            parts = [range(c, self.streams, self.connections) for c in range(self.connections)]
            await asyncio.gather(
                *(self._one(socket, part, start, seconds, report) for socket, part in zip(sockets, parts, strict=True))
            )
        finally:
            await asyncio.gather(*(socket.close() for socket in sockets), return_exceptions=True)
        return report

    async def _connect(self) -> ClientConnection:
        return await connect(self.address, additional_headers=self.headers, max_size=None, compression=None)

    def _prepare(self, k: int) -> None:
        """Messages and their points as bytes, before the clock runs."""
        self._pushes[k] = list(self.recording.pushes(k))
        for j, push in enumerate(self._pushes[k]):
            small = bool(np.array_equal(push.values.astype(np.float32), push.values, equal_nan=True))
            head = {"count": len(push.values), "datatype": "FP32" if small else "FP64", "timed": push.times is not None}
            head |= {} if push.truth is None else {"truth": push.truth}
            head |= {"start": True} if j == 0 else {}
            self._heads[k, j] = msgspec.json.encode(head)[1:-1]
            times = b"" if push.times is None else push.times.astype("<f8").tobytes()
            self._points[k, j] = push.values.astype("<f4" if small else "<f8").tobytes() + times

    def _due(self, stream: int, start: float) -> Iterator[tuple[float, bytes, bytes, int]]:
        """When each push of a stream is due, its message but for the id, its points, and how many these are."""
        series = stream % min(len(self.recording), self.streams)
        pushes, name = self._pushes[series], msgspec.json.encode(f"load {stream}")
        begun = start + self._random.random() * self.recording.seconds / self.speed
        while True:
            for j, push in enumerate(pushes):
                head = b'{"stream":%b,%b,"id":' % (name, self._heads[series, j])
                yield begun + push.due / self.speed, head, self._points[series, j], len(push.values)
            begun += (pushes[-1].due + self.recording.seconds) / self.speed

    async def _one(
        self, socket: ClientConnection, streams: range, start: float, seconds: float, report: Report
    ) -> None:
        waiting: dict[int, tuple[float, int]] = {}
        anew: set[int] = set()
        reader = asyncio.create_task(_read(socket, waiting, anew, report))
        sources = [self._due(stream, start) for stream in streams]
        heap = [(*next(source), k) for k, source in enumerate(sources)]
        heapq.heapify(heap)
        number = 0
        try:
            while heap[0][0] < start + seconds:
                now = time.perf_counter()
                if heap[0][0] > now:
                    await asyncio.sleep(max(heap[0][0] - now, _TICK if len(streams) > 1 else 0))
                    continue
                heads, points = [], []
                while heap[0][0] <= now:
                    due, head, body, count, k = heap[0]
                    heapq.heapreplace(heap, (*next(sources[k]), k))
                    number += 1
                    waiting[number] = due, k
                    heads.append((b'%b%d,"start":true}' if k in anew else b"%b%d}") % (head, number))
                    anew.discard(k)
                    points.append(body)
                    report.lags.append(1000 * (now - due))
                    report.points += count
                report.sent += len(heads)
                json = b"[%b]" % b",".join(heads)
                await socket.send(b"".join([len(json).to_bytes(4, "little"), json, *points]))
            ended = time.perf_counter()
            while waiting and not reader.done() and time.perf_counter() - ended < _AFTER:
                await asyncio.sleep(0.05)
        except ConnectionClosed as error:
            report.errors.append(f"The service closed the connection: {error}")
        finally:
            reader.cancel()


async def _read(socket: Any, waiting: dict[int, tuple[float, int]], anew: set[int], report: Report) -> None:
    async for message in socket:
        now = time.perf_counter()
        answers = _ANSWERS.decode(message) if message[:1] in ("[", b"[") else [_ANSWER.decode(message)]
        for answer in answers:
            due, stream = waiting.pop(answer.id or 0, (now, -1))
            if answer.status == 503:
                report.refused.append(answer.error or "")
                anew.add(stream)
            elif answer.error is not None:
                report.errors.append(answer.error)
            else:
                report.latencies.append(1000 * (now - due))


def websocket_of(url: str) -> str:
    """The WebSocket address of a service.

    >>> websocket_of("http://localhost:8000/"), websocket_of("https://example.org")
    ('ws://localhost:8000', 'wss://example.org')
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    kinds = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if parts.scheme not in kinds or not parts.netloc:
        raise ValueError(f"Got the address {url!r}; expected one such as http://127.0.0.1:8000.")
    return f"{kinds[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}"
