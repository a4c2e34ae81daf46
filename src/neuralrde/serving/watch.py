"""What the page is shown: for every watcher what has come since its last frame, and no more than it can draw."""

import asyncio
from collections.abc import Callable
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


class Watcher:
    """What one page has not been shown yet."""

    def __init__(self):
        self.focus: str | None = None
        self.model: str | None = None
        self.shown: dict[str, None] = {}
        self.pending: dict[str, dict[str, Any]] = {}
        self.latencies: list[float] = []
        self.replay: msgspec.Struct | None = None
        self.reading = False
        """Whether a frame is on its way. What comes meanwhile is not kept: it would grow without a bound."""

    def note(self, job: Job, latency: float) -> None:
        if not self.reading:
            self.latencies.append(1000 * latency)
        if self.model is not None and job.model != self.model:
            return
        if job.stream not in self.shown:
            if len(self.shown) >= _TILES:
                return
            self.shown[job.stream] = None
        if job.end:
            self.shown.pop(job.stream, None)
            self.pending[job.stream] = {"ended": True}
            return
        entry = self.pending.setdefault(job.stream, {"parts": []})
        if "parts" not in entry:
            entry = self.pending[job.stream] = {"parts": [], "restarted": True}
        if job.start:
            entry["restarted"] = True
        entry["points"], entry["latency"] = job.outcome.points, 1000 * latency
        if job.outcome.prediction is not None:
            entry["answer"] = job.outcome.prediction
        if job.truth is not None:
            entry["truth"] = job.truth
        if job.values is not None and not self.reading:
            entry["parts"].append(job.values)

    def frame(self, replay: msgspec.Struct | None) -> bytes | None:
        """As JSON: streams, their new points, answers, latencies, the replay if it has changed. None if nothing has."""
        changed, self.replay = replay != self.replay, replay
        pending, self.pending = self.pending, {}
        latencies, self.latencies = self.latencies, []
        if not pending and not latencies and not changed:
            return None
        streams = {name: self._shown(name, entry) for name, entry in pending.items()}
        frame = {"streams": streams, "latencies": _thinned(np.array(latencies), 200).tolist()}
        return msgspec.json.encode(frame | ({"replay": replay} if changed else {}))

    def _shown(self, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        parts = entry.pop("parts", [])
        if parts:
            points = np.concatenate(parts)
            entry["from"] = entry["points"] - len(points)
            most = _FOCUS_POINTS if name == self.focus else _TILE_POINTS
            stride = -(-len(points) // most)
            entry["stride"] = stride
            channels = points if name == self.focus else points[:, :1]
            entry["values"] = [
                [None if np.isnan(x) else round(x, 5) for x in row] for row in channels[::stride].tolist()
            ]
        return entry


def _thinned(values: np.ndarray, most: int) -> np.ndarray:
    return values[:: max(1, -(-len(values) // most))].round(3)


class Hub:
    """Pages that watch. A slow page gets fewer frames, and one that does not read is closed; nobody waits for it."""

    def __init__(self):
        self.watchers: set[Watcher] = set()
        self.replay: Callable[[], msgspec.Struct | None] = lambda: None
        """What the replay is doing, so that all pages show the same."""

    @property
    def watched(self) -> bool:
        return bool(self.watchers)

    def note(self, job: Job, latency: float) -> None:
        """Tell every page of a push that is done."""
        for watcher in self.watchers:
            watcher.note(job, latency)

    async def serve(self, socket: WebSocket) -> None:
        """Send frames until the page goes. It may say which stream is in focus: `{"focus": name}`."""
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
                if (frame := watcher.frame(self.replay())) is not None:
                    watcher.reading = True
                    await asyncio.wait_for(socket.send_text(frame.decode()), PATIENCE)
                    watcher.reading = False
        except (WebSocketDisconnect, RuntimeError, TimeoutError):
            return
        finally:
            self.watchers.discard(watcher)
            reader.cancel()


class _WatchRequest(msgspec.Struct):
    focus: str | None = None
    model: str | None = None


async def _listen(socket: WebSocket, watcher: Watcher) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        try:
            asked = msgspec.json.decode(message.get("text") or message.get("bytes") or b"", type=_WatchRequest)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if asked.model != watcher.model:
            watcher.shown.clear()
            watcher.pending.clear()
        watcher.focus, watcher.model = asked.focus, asked.model
