"""What was acknowledged is there after `kill -9`, and the final predictions are those of the whole series."""

import asyncio
import json
import random
import signal
import time

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from .conftest import walks
from .servers import start
from .test_rest import TOLERANCE

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("restart")]

LOST = (OSError, ConnectionClosed, InvalidHandshake, TimeoutError, EOFError)


class Sender:
    """Sends series as streams. After a lost connection it asks each stream how far it is, and goes on from there."""

    def __init__(self, url: str, X: np.ndarray, *, pause: float):
        self.url, self.X, self.pause = url.replace("http", "ws") + "/v2/models/rate/streams", X, pause
        self.acknowledged = [0] * len(X)
        self.last: list[float | None] = [None] * len(X)
        self.reconnected = 0

    async def run(self) -> None:
        while min(self.acknowledged) < self.X.shape[1]:
            try:
                async with connect(self.url) as socket:
                    await self._resume(socket)
                    while min(self.acknowledged) < self.X.shape[1]:
                        await self._push(socket)
                        await asyncio.sleep(self.pause)
            except LOST:
                self.reconnected += 1
                await asyncio.sleep(0.1)

    async def _resume(self, socket) -> None:
        await socket.send(json.dumps([{"stream": f"r{k}", "answer": False} for k in range(len(self.X))]))
        for k, found in enumerate(json.loads(await asyncio.wait_for(socket.recv(), 60))):
            assert "error" not in found or "There is no stream" in found["error"], found
            there = found.get("points", 0)
            assert there >= self.acknowledged[k], f"stream {k} lost {self.acknowledged[k] - there} acknowledged points"
            self.acknowledged[k] = there

    async def _push(self, socket) -> None:
        batch = [
            {"stream": f"r{k}", "values": x[at : at + 7].tolist(), "at": at}
            for k, (x, at) in enumerate(zip(self.X, self.acknowledged, strict=True))
            if at < len(x)
        ]
        await socket.send(json.dumps(batch))
        for found in json.loads(await asyncio.wait_for(socket.recv(), 60)):
            if "status" in found and found["status"] == 503:
                continue
            k = int(found["stream"][1:])
            self.acknowledged[k], self.last[k] = found["points"], found["prediction"]


async def killed(trained, folder, *, kills: int, length: int, pause: float) -> Sender:
    """A server that is killed again and again while streams are sent to it."""
    X, rng = walks(20, length, seed=5), random.Random(0)
    arguments = [trained.files[0], "--state", folder / "state", "--batch", 16]
    server = await asyncio.to_thread(start, folder, *arguments)
    port = int(server.address.split(":")[1])
    sender = Sender(server.url, X, pause=pause)
    task = asyncio.create_task(sender.run())
    try:
        for kill in range(kills):
            wanted = length * (kill + 1) // (kills + 2)
            while np.mean(sender.acknowledged) < wanted and not task.done():
                await asyncio.sleep(0.01)
            await asyncio.sleep(rng.random() * 0.05)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(10)
            server = await asyncio.to_thread(start, folder, *arguments, port=port)
        await asyncio.wait_for(task, 120)
        assert sender.reconnected >= kills
        assert np.allclose(np.array(sender.last), trained.rate.predict(X), **TOLERANCE)
    finally:
        task.cancel()
        server.process.kill()
        server.process.wait(10)
    return sender


def test_nothing_acknowledged_is_lost_by_a_kill(trained, tmp_path):
    asyncio.run(killed(trained, tmp_path, kills=1, length=700, pause=0.005))


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_twenty_kills(trained, tmp_path):
    asyncio.run(killed(trained, tmp_path, kills=20, length=7000, pause=0.005))


def test_streams_survive_a_stop(trained, tmp_path):
    """SIGTERM: states are written, and nothing is left to push again."""
    X = walks(3, 40, seed=8)
    arguments = [trained.files[0], "--state", tmp_path / "state", "--batch", 4]
    server = start(tmp_path, *arguments)
    for k, x in enumerate(X):
        assert server.infer("rate", x[None, :25], sequence_id=f"t{k}", sequence_start=True)[0] == 200
    began = time.monotonic()
    server.end(signal.SIGTERM)
    assert time.monotonic() - began < 10
    server = start(tmp_path, *arguments)
    try:
        assert server.ask("/v2/models/rate/streams")[2]["streams"] == ["t0", "t1", "t2"]
        for k, x in enumerate(X):
            status, found = server.infer("rate", x[None, 25:], sequence_id=f"t{k}")
            assert (status, found["points"]) == (200, [40])
            assert np.allclose(found["prediction"], trained.rate.predict(x[None]), **TOLERANCE)
    finally:
        server.process.kill()
        server.process.wait(10)
