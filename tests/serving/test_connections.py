"""What a stranger can do to the service: send without end, say nothing, open many connections."""

import contextlib
import logging
import resource
import socket
import threading
import time

import pytest
import uvicorn

from neuralrde.tools.serving import security as connections
from neuralrde.tools.serving.security import BoundedHttp, Guard


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@contextlib.contextmanager
def listening(protocol=BoundedHttp, app=hello):
    """An address of this machine where the protocol answers."""
    config = uvicorn.Config(app, port=0, http=protocol, lifespan="off", log_level="error")
    server, door = uvicorn.Server(config), config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield door.getsockname()
    finally:
        server.should_exit = True
        thread.join(10)


def connect(address) -> socket.socket:
    found = socket.create_connection(address[:2], timeout=5)
    found.settimeout(5)
    return found


def answer(client: socket.socket) -> bytes:
    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client.recv(1000)


def closed(client: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        return client.recv(1000) == b""
    return True


@pytest.mark.parametrize("endless", [b"x-a: " + b"b" * 1000 + b"\r\n", b"b" * 1000])
def test_a_head_without_end_is_refused(endless):
    with listening() as address, connect(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + (b"x-b: " if b"\r" not in endless else b""))
        with contextlib.suppress(ConnectionError):
            for _ in range(20_000):  # 20 MB
                client.sendall(endless)
            pytest.fail("all of it was read")


def test_half_a_head_is_not_waited_for():
    quick = type("Quick", (BoundedHttp,), {"seconds": 0.2})
    with listening(quick) as address, connect(address) as silent, connect(address) as half, connect(address) as good:
        assert b"200" in answer(good)
        half.sendall(b"GET / HT")
        assert closed(silent)
        assert closed(half)
        with connect(address) as later:
            assert b"200" in answer(later)


def test_silent_connections_keep_nobody_out():
    few = type("Few", (BoundedHttp,), {"most": 5})
    with listening(few) as address:
        silent = [connect(address) for _ in range(40)]
        for _ in range(3):
            with connect(address) as client:
                assert b"200" in answer(client)
        assert closed(silent[0])
        for one in silent:
            one.close()


def test_open_files_are_raised_as_far_as_allowed(monkeypatch):
    limits = [64, 500]
    monkeypatch.setattr(resource, "getrlimit", lambda what: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda what, new: limits.__setitem__(0, new[0]))
    assert connections.allow_connections() == 500 - 128
    assert limits == [500, 500]
    limits[1] = resource.RLIM_INFINITY
    assert connections.allow_connections() == connections.CONNECTIONS


def test_a_refused_websocket_writes_nothing_into_the_log(caplog):
    connections.be_quiet_about_strangers()
    logger = logging.getLogger("uvicorn.error")
    with listening(app=Guard(hello, token="secret", loopback=True)) as address, connect(address) as client:
        logger.addHandler(caplog.handler)
        client.sendall(
            b"GET /watch HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert b"401" in client.recv(1000)
        assert closed(client)
    logger.removeHandler(caplog.handler)
    assert "handshake" not in caplog.text
