"""A data file that the service plays to itself, so that the page has something to show."""

import asyncio
import contextlib
import time
from typing import Any

import msgspec

from .errors import Refused
from .jobs import Job
from .recording import Recording
from .service import Service

_MOST_STREAMS, _FASTEST = 64, 100.0
_LATE = 0.5  # seconds behind its time after which a replay does not hurry to catch up


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What the page asks for; what it leaves out stays as it is."""

    running: bool | None = None
    speed: float | None = None
    streams: int | None = None


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

    def status(self) -> dict[str, Any]:
        """What the page shows."""
        return {
            "model": self.model,
            "data": self.recording.data.name,
            "series": len(self.recording),
            "rate": self.recording.points_per_second,
            "running": self.running,
            "speed": self.speed,
            "streams": self.streams,
        }

    def change(self, asked: ReplayRequest) -> None:
        """Start, pause, or play faster or slower."""
        if asked.speed is not None and not 0.1 <= asked.speed <= _FASTEST:
            raise Refused(400, f"Got speed={asked.speed}; expected 0.1 to {_FASTEST:g}.")
        most = min(_MOST_STREAMS, len(self.recording))
        if asked.streams is not None and not 1 <= asked.streams <= most:
            raise Refused(400, f"Got streams={asked.streams}; expected 1 to {most}.")
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
            with contextlib.suppress(Refused, asyncio.CancelledError):
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
            with contextlib.suppress(Refused):  # counted, and shown by the metrics
                await self.service.ask(job)
            first = False
