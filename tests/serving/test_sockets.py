"""Streams by WebSocket: order, errors of one stream only, mutated messages, readers that do not read."""

import json
import random
import socket as sockets
import struct
import threading
import time

import numpy as np
import pytest
from websockets.sync.client import connect

from .conftest import walks
from .test_rest import TOLERANCE

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("server")]


def open_socket(server, model: str = "rate"):
    return connect(f"ws://{server.address}/v2/models/{model}/streams", max_size=None)


def asked(socket, message) -> dict:
    socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return json.loads(socket.recv(30))


def binary(messages: list[dict], *arrays: np.ndarray) -> bytes:
    """A binary frame: the JSON's length, the JSON, the points."""
    text = json.dumps(messages).encode()
    return len(text).to_bytes(4, "little") + text + b"".join(array.tobytes() for array in arrays)


def plain(values: np.ndarray) -> list:
    return [[None if x != x else x for x in row] for row in values.tolist()]


def test_a_stream_gets_what_the_whole_series_would(server, trained):
    [x] = walks(1, 90, seed=1)
    x[30:33, 0] = np.nan
    with open_socket(server) as socket:
        for start in range(0, 90, 15):
            part = plain(x[start : start + 15])
            found = asked(socket, {"stream": "p7", "values": part, "start": start == 0, "id": start, "truth": 1.5})
            assert (found["stream"], found["id"], found["points"]) == ("p7", start, start + 15)
            predicted, ends = trained.rate.predict(x[None, : start + 15], interval=0.9)
            assert np.allclose(found["prediction"], predicted[0], **TOLERANCE)
            assert np.allclose(found["interval"], ends[0], **TOLERANCE)
        assert asked(socket, {"stream": "p7"})["prediction"] == found["prediction"]  # asks, and pushes nothing
        asked(socket, {"stream": "p7", "end": True})
        assert asked(socket, {"stream": "p7"})["status"] == 400


def test_classes_have_probabilities(server, trained):
    [x] = walks(1, 40, seed=2)
    with open_socket(server, "kind") as socket:
        found = asked(socket, {"stream": "c", "values": x.tolist(), "end": True})
    shares = dict(zip(["down", "up"], trained.kind.predict_proba(x[None])[0], strict=True))
    assert found["prediction"] == max(shares, key=shares.get)
    assert found["probabilities"] == pytest.approx(shares, rel=1e-4)


def test_many_streams_on_one_connection_keep_their_order(server, trained):
    """Sent without waiting for answers: points in another order would give other predictions."""
    X = walks(40, 60, seed=3)
    with open_socket(server) as socket:
        for start in range(0, 60, 6):
            batch = [{"stream": f"m{k}", "values": x[start : start + 6].tolist(), "id": start} for k, x in enumerate(X)]
            socket.send(json.dumps(batch))
        answers = [json.loads(socket.recv(30)) for _ in range(10)]
        socket.send(json.dumps([{"stream": f"m{k}", "end": True} for k in range(40)]))
        socket.recv(30)
    for k in range(40):
        assert [answer[k]["points"] for answer in answers] == list(range(6, 61, 6))
        assert answers[0][k]["stream"] == f"m{k}"
    last = [answer["prediction"] for answer in answers[-1]]
    assert np.allclose(last, trained.rate.predict(X), **TOLERANCE)


def test_an_error_is_that_of_its_own_stream(server):
    [x] = walks(1, 10)
    with open_socket(server) as socket:
        good = {"stream": "good", "values": x.tolist()}
        bad = [{"stream": "bad", "values": values} for values in ([[1.0]], [[1.0, 2.0], [3.0]], [[1e308, 1.0]] * 3, [])]
        found = asked(socket, [good, *bad])
        assert found[0]["points"] == 10
        assert "prediction" in found[0]
        assert [one.get("status") for one in found[1:3]] == [400, 400]
        assert found[4]["status"] == 400
        assert asked(socket, {"stream": "good", "end": True})["points"] == 10


def test_points_that_leave_a_gap_are_refused(server):
    with open_socket(server) as socket:
        assert asked(socket, {"stream": "g", "values": [[0, 0]] * 4, "at": 0})["points"] == 4
        assert asked(socket, {"stream": "g", "values": [[0, 0]] * 4, "at": 2})["points"] == 6
        assert asked(socket, {"stream": "g", "values": [[0, 0]], "at": 7})["status"] == 409
        asked(socket, {"stream": "g", "end": True})


def test_an_unknown_model_is_told(server):
    with open_socket(server, "absent") as socket:
        assert "There is no model 'absent'" in json.loads(socket.recv(10))["error"]


@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_points_as_bytes_get_what_points_in_json_do(server, trained, datatype):
    X = walks(2, 90, seed=4).astype(np.float32 if datatype == "FP32" else np.float64)
    X[0, 30:33, 0] = np.nan
    names = [f"bytes {datatype} {k}" for k in range(2)]
    with open_socket(server) as socket:
        for start in range(0, 90, 30):
            parts = X[:, start : start + 30]
            socket.send(binary([{"stream": n, "count": 30, "datatype": datatype, "id": n} for n in names], *parts))
            found = json.loads(socket.recv(30))
            assert [(one["id"], one["points"]) for one in found] == [(name, start + 30) for name in names]
        assert np.allclose([one["prediction"] for one in found], trained.rate.predict(X.astype(float)), **TOLERANCE)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "0 bytes whose first 4 say that 0"),
        (b'{"stream": "a"}', "Send JSON alone as text"),
        (
            binary([{"stream": "a", "count": 2}], np.ones((1, 2), np.float32)),
            "Got 8 bytes for 2 points of 2 channels; ex",
        ),
        (binary([{"stream": "a", "count": 1}], np.ones((2, 2), np.float32)), "Got 8 bytes after the last point"),
        (binary([{"stream": "a", "values": [[1, 2]]}]), "expected `count`"),
        (binary([{"stream": "a", "count": 0}]), ">= 1"),
        ('{"stream": "a", "count": 1}', "need a binary frame"),
    ],
)
def test_frames_that_are_none(server, data, told):
    with open_socket(server) as socket:
        found = asked(socket, data)
        assert found["status"] == 400
        assert told in found["error"]
        assert "points" in asked(socket, {"stream": "after", "values": [[0, 0]], "end": True})


FULL = {"times": [0.0, 1.0], "at": 3, "truth": 7, "answer": True, "start": False, "end": False, "id": 12}
SEED = json.dumps(
    [{"stream": "victim", "values": [[0.5, -1.25], [None, 3.0]], **FULL}, {"stream": "b", "values": [[1, 2]]}]
)
PIECES = [
    *'"[]{},:-é\0',
    "null",
    "true",
    "1e999",
    "1e308",
    "NaN",
    "\\ud800",
    "0" * 30,
    '"stream"',
    '"values"',
    '"at"',
    "-1",
]
PIECES += ["99999999999999999999", "[[]]", "[[[1]]]", '"\\u0000"', " " * 50]


def mutated(rng: random.Random) -> str | bytes:
    """A message with some letters changed, left out, doubled or replaced by pieces that are likely to hurt."""
    text = (
        SEED
        if rng.random() < 0.7
        else json.dumps({"stream": "victim", "values": [[rng.gauss(0, 1)] * rng.randint(0, 4)]})
    )
    for _ in range(rng.randint(1, 6)):
        k, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        end = min(end, k + 12)
        piece = rng.choice([*PIECES, text[k:end] * 2, "", chr(rng.randrange(1, 255))])
        text = text[:k] + piece + text[end:]
    if rng.random() < 0.3:
        return mutated_frame(rng, text.encode(errors="surrogatepass"))
    return text.encode(errors="replace").decode()


def mutated_frame(rng: random.Random, text: bytes) -> bytes:
    """Bytes that are no frame, or one with some bytes changed, doubled or cut off."""
    if rng.random() < 0.2:
        return text
    head = {"stream": "victim", "count": rng.choice([1, 2, 2, 3, 2**31]), "timed": rng.random() < 0.2}
    data = bytearray(binary([{**head, "id": 1}, {"stream": "b", "count": 1}], np.ones((3, 2), np.float32)))
    for _ in range(rng.randint(0, 4)):
        k = rng.randrange(len(data)) if rng.random() < 0.7 else rng.randrange(6)
        data[k : k + rng.randint(0, 3)] = rng.choice(
            [b"", b"\0", b"\xff\xff\xff\x7f", rng.randbytes(3), data[k : k + 9] * 2]
        )
        data = data or bytearray(b"\0")
    return bytes(data)


def fuzz(server, trained, count: int) -> None:
    """Mutated messages on one connection, a healthy stream on another."""
    rng, [x] = random.Random(0), walks(1, 200, seed=9)
    every = max(1, count // 40)
    with open_socket(server) as bad, open_socket(server) as good:
        for number in range(count):
            bad.send(mutated(rng))
            if number % every == 0 and (step := number // every) < 40:
                found = asked(
                    good, {"stream": "healthy", "values": x[5 * step : 5 * step + 5].tolist(), "at": 5 * step}
                )
                assert found["points"] == 5 * step + 5
            statuses = drained(bad)
            assert 500 not in statuses
        assert asked(good, {"stream": "healthy", "end": True})["prediction"] == pytest.approx(
            float(trained.rate.predict(x[None])[0]), rel=1e-4, abs=1e-4
        )
        bad.send('{"stream": "still there", "values": [[0, 0]], "end": true, "id": "last"}')
        until = time.monotonic() + 60
        while time.monotonic() < until and not any(one.get("id") == "last" for one in answers_in(bad.recv(60))):
            pass
        assert time.monotonic() < until
    assert server.ask("/v2/health/live")[0] == 200
    assert server.process.poll() is None
    assert "Traceback" not in server.log.read_text("utf-8")


def answers_in(message: str) -> list[dict]:
    found = json.loads(message)
    return found if isinstance(found, list) else [found]


def drained(socket) -> list[int]:
    """Statuses of the answers that are there."""
    found = []
    while True:
        try:
            found += [one.get("status", 200) for one in answers_in(socket.recv(0))]
        except TimeoutError:
            return found


def test_mutated_messages(server, trained):
    fuzz(server, trained, 400)


@pytest.mark.slow
def test_ten_thousand_mutated_messages(server, trained):
    fuzz(server, trained, 10_000)


def handshake(server, path: str) -> sockets.socket:
    """A bare connection, so that nothing in the client reads on its own; with small buffers."""
    host, port = server.address.split(":")
    connection = sockets.socket()
    connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {server.address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b"101" in connection.recv(4096)
    return connection


def frame(text: bytes) -> bytes:
    """A masked text frame, with a mask of zeros."""
    size = struct.pack("!BBH", 0x81, 0x80 | 126, len(text))
    return size + b"\0\0\0\0" + text


def latencies(server, name: str, count: int = 60) -> np.ndarray:
    found = []
    with open_socket(server) as socket:
        for _ in range(count):
            began = time.perf_counter()
            asked(socket, {"stream": name, "values": [[0.1, 0.2]] * 5})
            found.append(time.perf_counter() - began)
        asked(socket, {"stream": name, "end": True})
    return np.array(found)


def test_a_slow_reader_holds_up_nobody(server):
    """Two connections send and never read. Each is read from until its answers fill the buffers, and no further."""
    before = latencies(server, "quick")
    message = frame(json.dumps([{"stream": f"slow{k}", "values": [[0.5, 0.5]]} for k in range(100)]).encode())
    slow = [handshake(server, "/v2/models/rate/streams") for _ in range(2)]
    sent = [0] * len(slow)

    def flood(k: int) -> None:
        slow[k].settimeout(1.0)
        try:
            while sent[k] < 20_000_000:
                sent[k] += slow[k].send(message)
        except TimeoutError:
            return

    threads = [threading.Thread(target=flood, args=[k]) for k in range(len(slow))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert max(sent) < 20_000_000  # it was not read any further
    while server.metric("neuralrde_queue") > 0:
        time.sleep(0.05)
    after = latencies(server, "quick")
    for one in slow:
        one.close()
    # Nothing waits for the slow ones: three times the usual, and 50 ms for a machine that does other things as well.
    assert np.median(after) < 3 * np.median(before) + 0.05, (np.median(before), np.median(after))


def test_a_client_that_goes_while_it_is_waited_for_leaves_nothing(server):
    """It sends more than may be in flight, reads nothing and closes: its connection ends, and others go on."""
    before = latencies(server, "before", 20)
    message = frame(json.dumps([{"stream": f"gone{k}", "values": [[0.5, 0.5]]} for k in range(100)]).encode())
    for _ in range(5):
        connection = handshake(server, "/v2/models/rate/streams")
        for _ in range(30):
            connection.sendall(message)
        connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # with a reset
    until = time.monotonic() + 30
    while server.metric("neuralrde_queue") > 0 and time.monotonic() < until:
        time.sleep(0.05)
    assert server.metric("neuralrde_queue") == 0
    assert np.median(latencies(server, "after", 20)) < 3 * np.median(before) + 0.05
    assert "Traceback" not in server.log.read_text("utf-8"), server.log.read_text("utf-8")
