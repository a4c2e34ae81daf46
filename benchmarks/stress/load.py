"""Many streams sent to a running service at their own rate, whatever it does, and how long its answers take.

`python -m benchmarks.stress.load http://127.0.0.1:8000 --streams 1000 --seconds 300`

A push is due when its last point would have been measured, and its latency counts from then. Refused (503) is not
unanswered: the stream begins anew with its next push. The token is in the variable NEURALRDE_TOKEN, if there is one.
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import random
import time
import urllib.request
from array import array
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

TICK = 0.02  # seconds; pushes that are due within one are sent together
AFTER = 5.0  # seconds that answers may take after the last push
BLOCKS = 64  # different pushes, whose points are one wave without an end


class Answer(msgspec.Struct):
    id: int = 0
    error: str | None = None
    status: int = 200


ANSWERS = msgspec.json.Decoder(list[Answer] | Answer)


@dataclass
class Report:
    """What a run has counted; times in milliseconds."""

    sent: int = 0
    latencies: array = field(default_factory=lambda: array("d"))
    lags: array = field(default_factory=lambda: array("d"))
    """How late this generator itself sent."""
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def summary(self, seconds: float) -> dict[str, Any]:
        marks = {"p50": 50, "p99": 99, "p99_9": 99.9, "max": 100}
        latencies, lags = np.array(self.latencies or [np.nan]), np.array(self.lags or [np.nan])
        return {
            "pushes": self.sent,
            "pushes_per_second": round(self.sent / seconds),
            "answered": len(self.latencies),
            "refused": len(self.refused),
            "errors": len(self.errors),
            "unanswered": self.sent - len(self.latencies) - len(self.refused) - len(self.errors),
            "first_error": next(iter(self.errors + self.refused), None),
            "latency_ms": {name: round(float(np.percentile(latencies, mark)), 1) for name, mark in marks.items()},
            "generator_lag_p99_ms": round(float(np.percentile(lags, 99)), 1),
        }


async def run(
    url: str, *, streams: int, seconds: float, model: str | None = None, rate: float = 125, points: int = 10,
    connections: int | None = None, token: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Send `points` at a time of each stream, which has `rate` points per second; over one WebSocket per 50 streams."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def asked(path: str, method: str) -> Any:
        with urllib.request.urlopen(urllib.request.Request(url + path, method=method, headers=headers)) as response:
            return json.load(response)

    name = quote(model or asked("/v2/repository/index", "POST")[0]["name"], safe="")
    about = asked(f"/v2/models/{name}", "GET")["parameters"]
    phase = 2 * np.pi * np.arange(BLOCKS * points)[:, None] / (BLOCKS * points)
    wave = np.sin(phase * np.arange(1, len(about["channels"]) + 1) * 8).astype("<f4")
    blocks = [block.tobytes() for block in np.split(wave, BLOCKS)]
    address, report = f"{url.replace('http', 'ws', 1)}/v2/models/{name}/streams", Report()
    count = min(connections or -(-streams // 50), streams)
    door = {"additional_headers": headers, "max_size": None, "compression": None}
    sockets = await asyncio.gather(*(connect(address, **door) for _ in range(count)))
    gc.collect()
    gc.freeze()  # it shares its cores with the service, and none of this is garbage
    start = time.perf_counter() + 0.2

    async def send(socket: ClientConnection, names: list[int]) -> None:
        waiting: dict[int, tuple[float, int]] = {}
        anew = set(names)
        reader = asyncio.create_task(read(socket, waiting, anew, report))
        period, draw = points / rate, random.Random(names[0])
        # By their turn within a period, so that pushes are due in order.
        offsets = sorted((draw.random() * period, name) for name in names)
        numbers = itertools.count(1)
        turns = ((turn, *one) for turn in itertools.count() for one in offsets)
        pushes = ((start + offset + turn * period, name, turn) for turn, offset, name in turns)
        push = next(pushes)
        try:
            while push[0] < start + seconds:
                now = time.perf_counter()
                if push[0] > now:
                    await asyncio.sleep(max(push[0] - now, TICK if len(names) > 1 else 0))
                    continue
                heads, bodies = [], []
                while push[0] <= min(now, start + seconds):
                    (due, name, turn), number = push, next(numbers)
                    begins = ',"start":true' if name in anew else ""
                    anew.discard(name)
                    timed = "true" if about["timed"] else "false"
                    heads.append(f'{{"stream":"load {name}","id":{number},"count":{points},"timed":{timed}{begins}}}')
                    bodies.append(blocks[(turn + name) % BLOCKS])
                    if about["timed"]:
                        bodies.append((np.arange(turn * points, (turn + 1) * points) / rate).tobytes())
                    waiting[number] = due, name
                    report.lags.append(1000 * (now - due))
                    push = next(pushes)
                report.sent += len(heads)
                head = f"[{','.join(heads)}]".encode()
                await socket.send(b"".join([len(head).to_bytes(4, "little"), head, *bodies]))
            ended = time.perf_counter()
            while waiting and not reader.done() and time.perf_counter() - ended < AFTER:
                await asyncio.sleep(0.05)
        except ConnectionClosed as error:
            report.errors.append(f"The service closed the connection: {error}")
        finally:
            reader.cancel()

    try:
        parts = [list(range(k, streams, count)) for k in range(count)]
        await asyncio.gather(*map(send, sockets, parts))
    finally:
        await asyncio.gather(*(socket.close() for socket in sockets), return_exceptions=True)
    return {"streams": streams, "connections": count, "seconds": seconds} | report.summary(seconds)


async def read(socket: Any, waiting: dict[int, tuple[float, int]], anew: set[int], report: Report) -> None:
    """Count answers as they come; whoever is refused begins anew."""
    async for message in socket:
        now, found = time.perf_counter(), ANSWERS.decode(message)
        for answer in found if isinstance(found, list) else [found]:
            due, name = waiting.pop(answer.id, (now, -1))
            if answer.status == 503:
                report.refused.append(answer.error or "")
                anew.add(name)
            elif answer.error is not None:
                report.errors.append(answer.error)
            else:
                report.latencies.append(1000 * (now - due))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="such as http://127.0.0.1:8000")
    parser.add_argument("--model", help="its name; the first")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=125, help="points per second of one stream")
    parser.add_argument("--points", type=int, default=10, help="in one push")
    parser.add_argument("--connections", type=int, help="WebSockets; one per 50 streams")
    options = vars(parser.parse_args())
    found = asyncio.run(run(options.pop("url"), token=os.environ.get("NEURALRDE_TOKEN"), **options))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
