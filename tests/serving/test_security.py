"""Who may ask: the token, the page's cookie, and pages from elsewhere."""

import http.client
import urllib.parse

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from neuralrde.tools.cli import main

from .conftest import walks
from .servers import running

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("server")]

TOKEN = "korrekt & geheim"


@pytest.fixture(scope="module")
def guarded(trained, tmp_path_factory):
    with running(tmp_path_factory.mktemp("guarded"), trained.files[0], "--batch", 1, token=TOKEN) as server:
        yield server


def raw(server, method: str, path: str, body: str | None = None, **headers: str) -> http.client.HTTPResponse:
    """A request with exactly these headers."""
    connection = http.client.HTTPConnection(server.address, timeout=10)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    return connection.getresponse()


PATHS = ["/", "/page.js", "/metrics", "/openapi.json", "/nowhere", "/v2", "/v2/models/rate"]
PATHS += [f"/v2/models/rate/{name}" for name in ("ready", "streams", "streams/a")]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Cookie": "neuralrde=x"}]
)
def test_without_the_token_nothing_answers(guarded, path, header):
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert raw(guarded, method, path, **header).status == 401


def test_health_answers_everybody(guarded):
    assert raw(guarded, "GET", "/v2/health/live").status == 200
    assert raw(guarded, "GET", "/v2/health/ready").status == 200


def test_with_the_token_everything_answers(guarded):
    assert guarded.infer("rate", walks(1, 5))[0] == 200
    with connect(
        f"ws://{guarded.address}/v2/models/rate/streams", additional_headers={"Authorization": f"Bearer {TOKEN}"}
    ) as socket:
        socket.send('{"stream": "a", "values": [[0.1, 0.2]]}')
        assert '"points":1' in socket.recv(10)


@pytest.mark.parametrize("path", ["/v2/models/rate/streams", "/watch"])
def test_websockets_need_it_too(guarded, path):
    with pytest.raises(InvalidStatus) as error:
        connect(f"ws://{guarded.address}{path}")
    assert error.value.response.status_code == 401


def test_the_page_takes_the_token_once(guarded):
    assert b"<form" in raw(guarded, "GET", "/").read()
    assert raw(guarded, "POST", "/login", "token=wrong").status == 401
    response = raw(guarded, "POST", "/login", urllib.parse.urlencode({"token": TOKEN}))
    assert response.status == 303
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "geheim" not in cookie
    assert raw(guarded, "GET", "/", Cookie=cookie.partition(";")[0]).status == 200


def test_pages_from_elsewhere_are_refused(server):
    assert raw(server, "GET", "/v2", Origin="http://evil.example").status == 403
    assert raw(server, "GET", "/v2", Origin="null").status == 403
    assert raw(server, "GET", "/v2", Host="evil.example").status == 403  # a name that was bound to 127.0.0.1 later
    fine = raw(server, "GET", "/v2", Origin=server.url)
    assert fine.status == 200
    assert not [name for name in fine.headers if name.lower().startswith("access-control")]
    with pytest.raises(InvalidStatus) as error:
        connect(f"ws://{server.address}/watch", origin="http://evil.example")
    assert error.value.response.status_code == 403


def test_the_page_loads_nothing_from_elsewhere(server):
    policy = raw(server, "GET", "/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    for path in ("/", "/page.js", "/trace.js", "/style.css"):
        text = raw(server, "GET", path).read().decode()
        assert "http://" not in text
        assert "https://" not in text


def test_other_addresses_need_a_token(trained, capsys, monkeypatch):
    monkeypatch.delenv("NEURALRDE_TOKEN", raising=False)
    assert main(["serve", str(trained.files[0]), "--host", "0.0.0.0"]) == 2
    assert "Got --host 0.0.0.0 and no token" in capsys.readouterr().err


def test_two_models_of_one_name_are_refused(trained, capsys):
    assert main(["serve", str(trained.files[0]), str(trained.files[0])]) == 2
    assert "two models called 'rate'" in capsys.readouterr().err
