"""What the page is shown: for every watcher what has come since its last frame, and no more than it can draw."""

import asyncio
from typing import Any

import msgspec
import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from .jobs import Job

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
    pending: dict[str, dict[str, Any]] = {}
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
