"""A load generator: many streams at a fixed rate, whatever the service does, and how long each answer took.

It is an open loop: a push is due when its last point has been measured, and its latency counts from then, so that a
service that falls behind cannot hide it.
"""

import asyncio
import gc
import heapq
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from .recording import Push, Recording

_TICK = 0.02  # seconds; pushes that are due within one are sent together
_AFTER = 5.0  # seconds that answers may take after the last push


class _Answer(msgspec.Struct):
    id: int | None = None
    error: str | None = None
    status: int = 200
    prediction: Any = None


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
        found = np.array(self.latencies) if self.latencies else np.full(1, np.nan)
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
            "latency_ms": {name: round(float(np.percentile(found, mark)), 2) for name, mark in marks.items()},
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
