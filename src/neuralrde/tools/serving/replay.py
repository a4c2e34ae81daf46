"""Series of a data file as pushes, each due at its time: what the page replays."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from ...datasets import Dataset
from .jobs import Job
from .limits import RequestError, wrong
from .service import Service

_MOST_STREAMS = 64
_LATE = 0.5  # seconds behind its time after which a replay does not hurry to catch up


class Push(NamedTuple):
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
        """The pushes of a series, in order."""
        series, clock = self.data.series, self.clock(k)
        values = np.asarray(series.values[k][: len(clock)], np.float64)
        times = None if series.times is None or not self.timed else np.asarray(series.times[k], np.float64)
        part = np.floor(clock / self.seconds + 1e-9).astype(np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(clock)]
        for start, end in itertools.pairwise(cuts):
            given = None if times is None else times[start:end]
            yield Push(float(clock[end - 1]), start, values[start:end], given, self._truth(k, start, end))

    def _truth(self, k: int, start: int, end: int) -> float | str | None:
        """What is true at these points, the last that is known; None if nothing is."""
        target, classes = self.data.target, self.data.classes
        if target is None:
            return None
        truths = np.asarray(target[k])[start:end] if self.data.per_time else np.asarray(target[k])[None]
        firsts = truths.reshape(len(truths), -1)[:, 0]
        known = firsts[firsts >= 0] if classes is not None else firsts[~np.isnan(firsts)]
        if not len(known):
            return None
        return float(known[-1]) if classes is None else classes[int(known[-1])]


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
    """Points per second of the first series."""
    running: bool
    speed: float
    streams: int


class Replay:
    """Series of a recording as streams of a model, over and over, at a speed that can be changed while it runs."""

    def __init__(self, service: Service, model: str, recording: Recording):
        self.service, self.model, self.recording = service, model, recording
        self.speed, self.streams = 1.0, min(8, len(recording))
        self._tasks: dict[int, asyncio.Task] = {}
        self._go = asyncio.Event()

    def status(self) -> ReplayStatus:
        recording, clock = self.recording, self.recording.clock(0)
        rate = recording.rate if len(clock) < 2 or clock[-1] <= 0 else float((len(clock) - 1) / clock[-1])
        about = recording.data.name, len(recording), rate
        return ReplayStatus(self.model, *about, self._go.is_set(), self.speed, self.streams)

    def change(self, asked: ReplayRequest) -> None:
        """Start, pause, or play faster or slower."""
        if asked.streams is not None and asked.streams > len(self.recording):
            raise wrong(f"Got streams={asked.streams}; expected 1 to {len(self.recording)}.")
        self.speed = self.speed if asked.speed is None else asked.speed
        self.streams = self.streams if asked.streams is None else asked.streams
        if asked.running is not None:
            (self._go.set if asked.running else self._go.clear)()
        for k in range(self.streams, len(self.recording)):
            if k in self._tasks:
                self._tasks.pop(k).cancel()
        for k in range(self.streams):
            if self._go.is_set() and (k not in self._tasks or self._tasks[k].done()):
                self._tasks[k] = asyncio.create_task(self._play(k))

    async def stop(self) -> None:
        """End all streams of the replay."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _play(self, k: int) -> None:
        name = self.recording.name(k)
        try:
            while True:
                clock, before = time.monotonic(), 0.0
                for push in self.recording.pushes(k):
                    if not self._go.is_set():
                        await self._go.wait()
                        clock = time.monotonic()
                    due = clock + (push.due - before) / self.speed
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    clock, before = max(due, time.monotonic() - _LATE), push.due
                    given = {"values": push.values, "times": push.times, "truth": push.truth}
                    with contextlib.suppress(RequestError):  # counted, and shown by the metrics
                        job = Job(self.model, name, owner="replay", start=push.first == 0, **given)
                        await self.service.ask(job)
                await asyncio.sleep(1)
        finally:
            with contextlib.suppress(RequestError, asyncio.CancelledError):
                await self.service.ask(Job(self.model, name, owner="replay", predict=False, create=False, end=True))
