"""Streams by WebSocket: messages in, JSON answers out, many streams on one connection.

A text frame is a message in JSON, or a list of them. A binary frame is four bytes, the length of the JSON as a
little-endian number; the JSON; and the points of its messages in their order, as bytes.
"""

import asyncio
import time
from collections import deque
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket

from .jobs import Job, shed
from .limits import RequestError
from .service import Service

_number = float | None
_HEAD = 4


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """What a client sends; a list of these is answered by a list."""

    stream: str
    values: list[list[_number]] | None = None
    times: list[float] | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=2**31)] | None = None
    """How many points follow as bytes; only in a binary frame, instead of `values`."""
    datatype: Literal["FP32", "FP64"] = "FP32"
    """Of their values."""
    timed: bool = False
    """Whether their times follow them, as FP64."""
    at: Annotated[int, msgspec.Meta(ge=0)] | None = None
    answer: bool = True
    start: bool = False
    end: bool = False
    truth: float | str | None = None
    id: int | str | None = None


class Answer(msgspec.Struct, omit_defaults=True):
    """What it gets: a prediction, or an error."""

    stream: str | None = None
    id: int | str | None = None
    points: int | None = None
    prediction: float | str | list[Any] | None = None
    probabilities: dict[str, float] | None = None
    interval: list[Any] | None = None
    error: str | None = None
    status: int | None = None
    retry_after: float | None = None
    age_ms: float | None = None
    """From the message's arrival to this answer."""


_ONE, _MANY = msgspec.json.Decoder(Message), msgspec.json.Decoder(list[Message])
_ENCODE = msgspec.json.Encoder().encode


class Reply:
    """The answer to one message, or to a list of them, which is sent when all of it is there."""

    __slots__ = ("answers", "listed", "missing")

    def __init__(self, count: int, *, listed: bool):
        self.answers: list[Answer | None] = [None] * count
        self.missing, self.listed = count, listed

    def text(self) -> str:
        return _ENCODE(self.answers if self.listed else self.answers[0]).decode()


class Connection:
    """One WebSocket. It is read only while fewer than `in_flight` of its messages are unanswered.

    An answer counts as given when the client's side has taken it, so one that does not read its answers is no longer
    read from; others do not notice.
    """

    def __init__(self, service: Service, socket: WebSocket, model: str):
        self.service, self.socket, self.model = service, socket, model
        self.owner, self.channels = client_of(socket), len(service.model(model).channels)
        self._outbox: list[Reply] = []
        self._wake, self._room = asyncio.Event(), asyncio.Event()
        self._unanswered = 0
        self._behind: set[str] = set()
        self._inbox: deque[tuple[float, str | bytes]] = deque()
        self._inbox_bytes = 0
        self._frame, self._space = asyncio.Event(), asyncio.Event()
        self._writer: asyncio.Task | None = None
        self._held = 0.0
        """Until when this client was made to wait because of its own haste; that is not the service's delay."""

    async def run(self) -> None:
        """Until one side has had enough."""
        most = self.service.limits.streams
        await self.socket.accept()
        writer = self._writer = asyncio.create_task(self._write())
        writer.add_done_callback(lambda _: self._room.set())  # the client has gone: nobody waits for it to read
        reader = asyncio.create_task(self._read())
        reader.add_done_callback(lambda _: self._frame.set())
        try:
            while not writer.done() and len(self._behind) <= most:
                if self._inbox:
                    arrived, data = self._inbox.popleft()
                    self._inbox_bytes -= len(data)
                    self._space.set()
                    await self._take(arrived, data)
                elif reader.done():
                    return
                else:
                    self._frame.clear()
                    await self._frame.wait()
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _read(self) -> None:
        """Frames as they come, so that it is known since when each waits; never many more than one may be long."""
        while True:
            message = await self.socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            data = message.get("bytes") or b"" if text is None else text
            self._inbox.append((time.perf_counter(), data))
            self._inbox_bytes += len(data)
            self._frame.set()
            while self._inbox_bytes > self.service.limits.message_bytes:
                self._space.clear()
                await self._space.wait()

    async def _take(self, arrived: float, data: str | bytes) -> None:
        arrived = max(arrived, self._held)
        try:
            items, listed, points = _decoded(data, self.channels)
        except RequestError as error:
            self._refused(error)
            return
        if not items:
            return
        if len(items) > self.service.limits.in_flight:
            self._refused(
                RequestError(
                    413, f"Got {len(items)} messages in one list; expected at most {self.service.limits.in_flight}."
                )
            )
            return
        while self._unanswered + len(items) > max(self.service.limits.in_flight, len(items)):
            if self._writer is None or self._writer.done():
                return
            self._room.clear()
            await self._room.wait()
            self._held = arrived = time.perf_counter()
        late = self.service.engine.queue.too_late(arrived)
        self._unanswered += len(items)
        reply = Reply(len(items), listed=listed)
        jobs = []
        for k, (item, sent) in enumerate(zip(items, points, strict=True)):
            values, times = (None, None) if isinstance(sent, RequestError) else sent
            job = Job(
                self.model,
                item.stream,
                owner=self.owner,
                values=values,
                times=times,
                at=item.at,
                predict=item.answer,
                create=values is not None,
                start=item.start,
                end=item.end,
                truth=item.truth,
                done=partial(self._done, reply, k, item.id),
                behind=self._behind,
                arrived=arrived,
            )
            if isinstance(sent, RequestError):
                _refuse(job, sent)
            elif late:
                shed(job, time.perf_counter() - arrived)
                self._done(reply, k, item.id, job)
            else:
                jobs.append(job)
        if await self.service.put_patiently(jobs, _refuse):
            self._held = time.perf_counter()

    def _refused(self, error: RequestError) -> None:
        """An answer to what is no message at all."""
        self.service.note_refusal(self.model, error)
        reply = Reply(1, listed=False)
        self._unanswered += 1
        self._answer(reply, 0, refusal(error))

    def _done(self, reply: Reply, k: int, id: int | str | None, job: Job) -> None:
        outcome = job.outcome
        if outcome.error is not None:
            self.service.note_refusal(self.model, outcome.error)
            answer = refusal(outcome.error)
        else:
            answer = Answer(points=outcome.points)
            if (given := outcome.prediction) is not None:
                answer.prediction, answer.probabilities = given.prediction, given.probabilities
                answer.interval = given.interval
        answer.stream, answer.id = job.stream, id
        answer.age_ms = round(1000 * (time.perf_counter() - job.arrived), 1)
        self._answer(reply, k, answer)

    def _answer(self, reply: Reply, k: int, answer: Answer) -> None:
        reply.answers[k] = answer
        reply.missing -= 1
        if not reply.missing:
            self._outbox.append(reply)
            self._wake.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            replies, self._outbox = self._outbox, []
            for reply in replies:
                await self.socket.send_text(reply.text())  # waits while the client does not read
                self._unanswered -= len(reply.answers)
                self._room.set()


Points = tuple[np.ndarray | None, np.ndarray | None] | RequestError


def _decoded(data: str | bytes, channels: int) -> tuple[list[Message], bool, list[Points]]:
    """Messages, whether they were a list, and the points of each or why they are none."""
    if isinstance(data, str):
        items, listed = _messages(data)
        return items, listed, [_listed_points(item) for item in items]
    size = int.from_bytes(data[:_HEAD], "little")
    if not 0 < size <= len(data) - _HEAD:
        raise RequestError(
            400,
            f"Got a binary frame of {len(data)} bytes whose first {_HEAD} say that {size} of JSON follow; expected as "
            "many, and the points after them. Send JSON alone as text.",
        )
    items, listed = _messages(data[_HEAD : _HEAD + size])
    points, place = [], _HEAD + size
    for item in items:
        if item.values is not None or item.times is not None:
            raise RequestError(
                400, "Got `values` or `times` in a binary frame; expected `count`, and bytes after the JSON."
            )
        if item.count is None:
            points.append((None, None))
            continue
        values, times, place = from_bytes(
            data, place, (item.count, channels), small=item.datatype == "FP32", timed=item.timed
        )
        points.append((values, times))
    if place != len(data):
        raise RequestError(400, f"Got {len(data) - place} bytes after the last point; expected none.")
    return items, listed, points


def as_points(values, times) -> tuple[np.ndarray, np.ndarray | None]:
    """Points `(count, channels)` and their times, or a refusal.

    >>> as_points([[1.0, None]], None)
    (array([[ 1., nan]]), None)
    """
    try:
        array = np.array(values, np.float64)
    except (ValueError, TypeError):
        raise RequestError(
            400,
            "Got `values` whose rows differ in length; expected one list of numbers per point, all of one length.",
        ) from None
    if array.ndim != 2 or not array.size:
        raise RequestError(
            400, f"Got `values` of shape {list(array.shape)}; expected (count, channels), with at least one point."
        )
    clock = None if times is None else np.array(times, np.float64)
    if clock is not None and clock.shape != array.shape[:1]:
        raise RequestError(400, f"Got {clock.size} times for {len(array)} points; expected one per point.")
    return array, clock


def from_bytes(
    data: bytes, place: int, shape: tuple[int, int], *, small: bool, timed: bool
) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Points and times that lie in `data` from `place` on, and where they end.

    Args:
        data, place: where they lie.
        shape: (count, channels).
        small: whether values are float32; times are always float64.
        timed: whether there are times.

    >>> from_bytes(np.arange(4, dtype=np.float32).tobytes(), 0, (2, 2), small=True, timed=False)
    (array([[0., 1.],
           [2., 3.]]), None, 16)
    """
    count = shape[0] * shape[1]
    size = count * (4 if small else 8)
    end = place + size + 8 * shape[0] * timed
    if end > len(data):
        raise RequestError(
            400,
            f"Got {len(data) - place} bytes for {shape[0]} points of {shape[1]} channels"
            f"{' with times' if timed else ''}; expected {end - place} or more.",
        )
    values = np.frombuffer(data, "<f4" if small else "<f8", count, place).reshape(shape).astype(np.float64)
    return values, np.frombuffer(data, "<f8", shape[0], place + size) if timed else None, end


def _messages(data: str | bytes) -> tuple[list[Message], bool]:
    start = data[:64].lstrip()[:1]
    listed = start in ("[", b"[")
    try:
        return (_MANY.decode(data), True) if listed else ([_ONE.decode(data)], False)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RequestError(
            400,
            f'Got a message that is none: {error}. Expected JSON such as {{"stream": "p7", "values": [[0.1, 0.2]]}}.',
        ) from None


def _listed_points(item: Message) -> Points:
    if item.count is not None:
        return RequestError(400, "Got `count` in a text frame; expected `values`. Points as bytes need a binary frame.")
    try:
        return (None, None) if item.values is None else as_points(item.values, item.times)
    except RequestError as error:
        return error


def _refuse(job: Job, error: RequestError) -> None:
    job.refuse(error)
    assert job.done is not None
    job.done(job)


def refusal(error: RequestError) -> Answer:
    """An error as a message."""
    return Answer(error=error.message, status=error.status, retry_after=error.retry_after)


def client_of(connection: HTTPConnection) -> str:
    """By what its streams are counted."""
    return connection.client.host if connection.client else ""
