"""The guide's configuration of nginx, tried with a real nginx: requests, WebSockets, the page, and its bounds."""

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
import uvicorn
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from neuralrde.tools.serving import Limits, Service, create_app
from neuralrde.tools.serving.security import BoundedHttp

from .tiny import Tiny, predicted

NGINX, OPENSSL = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin"), shutil.which("openssl")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (NGINX and OPENSSL), reason="nginx and openssl are not installed"),
]

CONFIGURATION = Path(__file__).parents[2] / "examples" / "serving" / "nginx.conf"
NAME = "predictions.example.org"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def service():
    """The service, with a token, in a thread; its port."""
    app = create_app(Service({"m": Tiny()}, limits=Limits(batch=8)), token="right")
    config = uvicorn.Config(app, port=0, http=BoundedHttp, log_level="error", ws_per_message_deflate=False)
    server, door = uvicorn.Server(config), config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield door.getsockname()[1]
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def proxy(service, tmp_path_factory):
    """nginx with the guide's configuration, but for its ports and certificate; its port."""
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    command = [OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={NAME}"]
    command += ["-addext", f"subjectAltName=DNS:{NAME}", "-keyout", folder / "site.key", "-out", folder / "site.pem"]
    subprocess.run(command, check=True, capture_output=True)
    site = CONFIGURATION.read_text("utf-8")
    for old, new in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "127.0.0.1:8000;": f"127.0.0.1:{service};",
        f"/etc/ssl/{NAME}": str(folder / "site"),
    }.items():
        assert old in site
        site = site.replace(old, new)
    paths = "".join(
        f"{what}_temp_path {folder}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;"
        f"events {{}} http {{ access_log off; {paths} {site} }}"
    )
    process = subprocess.Popen([NGINX, "-p", folder, "-c", folder / "nginx.conf"], stderr=subprocess.PIPE)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        assert process.poll() is None, process.stderr.read()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    context = ssl.create_default_context(cafile=folder / "site.pem")
    yield port, context
    process.terminate()
    process.wait(10)


def asked(proxy, request: str, body: bytes = b"") -> bytes:
    port, context = proxy
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname=NAME) as client:
        head = f"{request}\r\nHost: {NAME}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode() + body)
        parts = []
        while part := client.recv(65536):
            parts.append(part)
        return b"".join(parts)


BEARER = "\r\nAuthorization: Bearer right"


def test_requests_pass_and_need_the_token(proxy):
    tensor = {"name": "values", "shape": [1, 2, 2], "datatype": "FP64", "data": [1, 2, 3, 4]}
    body = json.dumps({"inputs": [tensor]}).encode()
    assert b" 401 " in asked(proxy, "POST /v2/models/m/infer HTTP/1.1", body)
    found = asked(proxy, f"POST /v2/models/m/infer HTTP/1.1{BEARER}", body)
    assert json.loads(found.partition(b"\r\n\r\n")[2])["outputs"][0]["data"] == [predicted([[1, 2], [3, 4]])]
    assert b" 413 " in asked(proxy, f"POST /v2/models/m/infer HTTP/1.1{BEARER}", b"x" * (9 * 2**20))[:40]


def test_streams_pass_by_websocket(proxy):
    port, context = proxy
    door = {"ssl": context, "sock": socket.create_connection(("127.0.0.1", port)), "server_hostname": NAME}
    address = f"wss://{NAME}/v2/models/m/streams"
    with connect(address, additional_headers={"Authorization": "Bearer right"}, **door) as stream:
        for k in range(3):
            stream.send(json.dumps({"stream": "p", "values": [[k, k]]}))
            assert json.loads(stream.recv(10))["points"] == k + 1
    door["sock"] = socket.create_connection(("127.0.0.1", port))
    with pytest.raises(InvalidStatus) as refused:
        connect(address, **door)
    assert refused.value.response.status_code == 401


def test_the_page_and_its_own_requests_pass(proxy):
    assert b"<form" in asked(proxy, "GET / HTTP/1.1")
    found = asked(proxy, "POST /login HTTP/1.1", b"token=right")
    cookie = next(line for line in found.split(b"\r\n") if line.lower().startswith(b"set-cookie")).split()[1].decode()
    page = f"\r\nCookie: {cookie}\r\nOrigin: https://{NAME}"
    assert b" 200 " in asked(proxy, f"GET /v2 HTTP/1.1{page}")[:40]
    assert b" 403 " in asked(proxy, f"GET /v2 HTTP/1.1\r\nCookie: {cookie}\r\nOrigin: https://evil.example")[:40]
