"""Streams by WebSocket: messages in, JSON answers out, many streams on one connection.

A text frame is a message in JSON, or a list of them. A binary frame is four bytes, the length of the JSON as a
little-endian number; the JSON; and the points of its messages in their order, as bytes.
"""

import asyncio
import time
from collections import deque
from functools import partial
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket

from .jobs import Ahead, Job, Prediction
from .limits import RequestError, wrong
from .service import Service

_HEAD = 4


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """What a client sends; a list of these is answered by a list."""

    stream: str
    values: list[list[float | None]] | None = None
    times: list[float] | None = None
    count: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    """How many points follow as bytes; only in a binary frame, instead of `values`."""
    datatype: Literal["FP32", "FP64"] = "FP32"
    """The type of their values."""
    timed: bool = False
    """Whether their times follow them, as FP64."""
    at: Annotated[int, Meta(ge=0)] | None = None
    answer: bool = True
    start: bool = False
    end: bool = False
    truth: float | str | None = None
    static: dict[str, float | str | bool | None] | None = None
    """What is known of the stream as a whole, with its first points."""
    explain: bool = False
    """Whether the answer says what each channel contributed."""
    forecast_times: Annotated[list[float], Meta(min_length=1, max_length=1_000)] | None = None
    horizon: Annotated[float, Meta(gt=0)] | None = None
    """The times of a forecast, or how far ahead it reaches; for forecasters."""
    id: int | str | None = None


class Answer(Prediction, omit_defaults=True):
    """What it gets: a prediction, or an error."""

    stream: str | None = None
    id: int | str | None = None
    points: int | None = None
    error: str | None = None
    status: int | None = None
    retry_after: float | None = None
    age_ms: float | None = None
    """The milliseconds from the message's arrival to this answer."""


class Reply(list):
    """The answers to one frame, which are sent when the last of them is there."""

    def __init__(self, count: int, *, listed: bool):
        super().__init__([None] * count)
        self.missing, self.listed = count, listed

    def text(self) -> str:
        return _ENCODE(self if self.listed else self[0]).decode()


Points = tuple[np.ndarray | None, np.ndarray | None] | RequestError
_ONE, _MANY = msgspec.json.Decoder(Message), msgspec.json.Decoder(list[Message])
_ENCODE = msgspec.json.Encoder().encode


class Connection:
    """One WebSocket. It is read only while fewer than `in_flight` of its messages are unanswered.

    An answer counts as given when the client's side has taken it, so one that does not read its answers is no longer
    read from; others do not notice.
    """

    def __init__(self, service: Service, socket: WebSocket, model: str):
        self.service, self.socket, self.model = service, socket, model
        self.owner, self.channels = client_of(socket), len(service.model(model).channels)
        self._inbox: deque[tuple[float, str | bytes]] = deque()
        self._inbox_bytes = 0
        self._outbox: list[Reply] = []
        self._unanswered = 0
        self._behind: set[str] = set()
        self._frame, self._space, self._wake, self._room = (asyncio.Event() for _ in range(4))
        self._held = 0.0
        """The time until which this client had to wait because of its own haste; that is not the service's delay."""

    async def run(self) -> None:
        """Serve until one side has had enough."""
        await self.socket.accept()
        writer, reader = asyncio.create_task(self._write()), asyncio.create_task(self._read())
        writer.add_done_callback(lambda _: self._room.set())  # the client has gone: nobody waits for it to read
        reader.add_done_callback(lambda _: self._frame.set())
        try:
            while not writer.done() and len(self._behind) <= self.service.limits.streams:
                if self._inbox:
                    arrived, data = self._inbox.popleft()
                    self._inbox_bytes -= len(data)
                    self._space.set()
                    await self._take(arrived, data, writer)
                elif reader.done():
                    return
                else:
                    self._frame.clear()
                    await self._frame.wait()
        finally:
            reader.cancel()
            writer.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _read(self) -> None:
        """Frames as they come, so that it is known since when each waits; never many more than one may be long."""
        while (message := await self.socket.receive())["type"] != "websocket.disconnect":
            text = message.get("text")
            data = message.get("bytes") or b"" if text is None else text
            self._inbox.append((time.perf_counter(), data))
            self._inbox_bytes += len(data)
            self._frame.set()
            while self._inbox_bytes > self.service.limits.message_bytes:
                self._space.clear()
                await self._space.wait()

    async def _take(self, arrived: float, data: str | bytes, writer: asyncio.Task) -> None:
        try:
            items, listed, points = _decoded(data, self.channels)
            if len(items) > (most := self.service.limits.in_flight):
                raise RequestError(413, f"Got {len(items)} messages in one list; expected at most {most}.")
        except RequestError as error:  # it is no message at all
            self.service.note_refusal(self.model, error)
            if await self._room_for(1, writer):
                self._answer(Reply(1, listed=False), 0, refusal(error))
            return
        if not await self._room_for(len(items), writer):
            return
        arrived = max(arrived, self._held)
        late = self.service.engine.queue.too_late(arrived)
        reply, jobs = Reply(len(items), listed=listed), []
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
                ahead=Ahead(item.forecast_times, item.horizon),
                create=values is not None,
                start=item.start,
                end=item.end,
                truth=item.truth,
                static=item.static,
                explain=item.explain,
                done=partial(self._done, reply, k, item.id),
                behind=self._behind,
                arrived=arrived,
            )
            if isinstance(sent, RequestError):
                job.error = sent
            elif late:
                job.shed(time.perf_counter() - arrived)
            if job.error is None:
                jobs.append(job)
            else:
                self._done(reply, k, item.id, job)
        if await self.service.put_patiently(jobs):
            self._held = time.perf_counter()

    async def _room_for(self, count: int, writer: asyncio.Task) -> bool:
        """Wait until so many more messages may be unanswered; False if the client has gone."""
        while self._unanswered + count > self.service.limits.in_flight:
            if writer.done():
                return False
            self._room.clear()
            await self._room.wait()
            self._held = time.perf_counter()
        self._unanswered += count
        return True

    def _done(self, reply: Reply, k: int, id: int | str | None, job: Job) -> None:
        if job.error is not None:
            self.service.note_refusal(self.model, job.error)
            answer = refusal(job.error)
        else:
            given = {} if job.prediction is None else msgspec.structs.asdict(job.prediction)
            answer = Answer(**given, points=job.points)
        answer.stream, answer.id = job.stream, id
        answer.age_ms = round(1000 * (time.perf_counter() - job.arrived), 1)
        self._answer(reply, k, answer)

    def _answer(self, reply: Reply, k: int, answer: Answer) -> None:
        reply[k] = answer
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
                self._unanswered -= len(reply)
                self._room.set()


def _decoded(data: str | bytes, channels: int) -> tuple[list[Message], bool, list[Points]]:
    """Messages, whether they were a list, and the points of each or why they are none."""
    if isinstance(data, str):
        items, listed = _messages(data)
        return items, listed, [_listed_points(item) for item in items]
    size = int.from_bytes(data[:_HEAD], "little")
    if not 0 < size <= len(data) - _HEAD:
        raise wrong(
            f"Got a binary frame of {len(data)} bytes whose first {_HEAD} say that {size} of JSON follow; expected as "
            "many, and the points after them. Send JSON alone as text."
        )
    items, listed = _messages(data[_HEAD : _HEAD + size])
    points, place = [], _HEAD + size
    for item in items:
        if item.values is not None or item.times is not None:
            raise wrong("Got `values` or `times` in a binary frame; expected `count`, and bytes after the JSON.")
        if item.count is None:
            points.append((None, None))
            continue
        count, kind = item.count, np.dtype("<f4" if item.datatype == "FP32" else "<f8")
        clock = place + count * channels * kind.itemsize
        end = clock + 8 * count * item.timed
        if end > len(data):
            raise wrong(
                f"Got {len(data) - place} bytes for {count} points of {channels} channels"
                f"{' with times' if item.timed else ''}; expected {end - place} or more."
            )
        values = np.frombuffer(data, kind, count * channels, place).reshape(count, channels).astype(np.float64)
        points.append((values, np.frombuffer(data, "<f8", count, clock) if item.timed else None))
        place = end
    if place != len(data):
        raise wrong(f"Got {len(data) - place} bytes after the last point; expected none.")
    return items, listed, points


def _messages(data: str | bytes) -> tuple[list[Message], bool]:
    listed = data[:64].lstrip()[:1] in ("[", b"[")
    try:
        return (_MANY.decode(data), True) if listed else ([_ONE.decode(data)], False)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise wrong(
            f'Got a message that is none: {error}. Expected JSON such as {{"stream": "p7", "values": [[0.1, 0.2]]}}.'
        ) from None


def _listed_points(item: Message) -> Points:
    """Points `(count, channels)` and their times, or a refusal.

    >>> _listed_points(Message("p7", values=[[1.0, None]]))
    (array([[ 1., nan]]), None)
    """
    if item.count is not None:
        return wrong("Got `count` in a text frame; expected `values`. Points as bytes need a binary frame.")
    if item.values is None:
        return None, None
    try:
        values = np.array(item.values, np.float64)
    except (ValueError, TypeError):
        return wrong(
            "Got `values` whose rows differ in length; expected one list of numbers per point, all of one length."
        )
    if values.ndim != 2 or not values.size:
        return wrong(
            f"Got `values` of shape {list(values.shape)}; expected (count, channels), with at least one point."
        )
    if item.times is not None and len(item.times) != len(values):
        return wrong(f"Got {len(item.times)} times for {len(values)} points; expected one per point.")
    return values, None if item.times is None else np.array(item.times, np.float64)


def refusal(error: RequestError) -> Answer:
    """An error as a message."""
    return Answer(error=error.message, status=error.status, retry_after=error.retry_after)


def client_of(connection: HTTPConnection) -> str:
    """The name by which its streams are counted."""
    return connection.client.host if connection.client else ""
