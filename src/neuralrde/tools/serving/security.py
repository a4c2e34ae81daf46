"""Who may ask, and how much a stranger may send: the token, the page of origin, heads and connections."""

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
import itertools
import logging
import resource
import time
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .page import LOGIN

OPEN_PATHS = ("/v2/health/live", "/v2/health/ready", "/login")
COOKIE = "neuralrde"
_GUESSES = 20  # wrong tokens that are answered per second; the right one never waits
_LONGEST_WAIT = 10.0  # seconds


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("[::1]"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def cookie_of(token: str) -> str:
    """What the page's cookie holds: it opens the service, and does not tell the token."""
    return hmac.new(token.encode(), b"neuralrde page", hashlib.sha256).hexdigest()


def same(given: str, expected: str) -> bool:
    """Whether two secrets are equal, in a time that does not tell how much of them is."""
    return hmac.compare_digest(
        hashlib.sha256(given.encode(errors="replace")).digest(), hashlib.sha256(expected.encode()).digest()
    )


class Guard:
    """Lets in who has the token, and no page from elsewhere.

    Without a token the service listens on loopback only, and a browser on this machine may be showing somebody else's
    page. Browsers say where a request comes from (`Origin`) and whom it is for (`Host`): both must be this service.
    """

    def __init__(self, app: Any, *, token: str | None, loopback: bool):
        self.app, self.token, self.loopback = app, token or None, loopback
        self._next_guess = 0.0

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "lifespan":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            if refusal := self._refusal(scope["path"], headers):
                if refusal[0] == 401 and ("authorization" in headers or "cookie" in headers):
                    await self.wait_after_guess()
                return await _refuse(scope, receive, send, *refusal)
        await self.app(scope, receive, send)

    async def wait_after_guess(self) -> None:
        """Keep whoever sent a wrong token waiting, in a line with all others who did."""
        now = time.monotonic()
        self._next_guess = min(max(self._next_guess, now) + 1 / _GUESSES, now + _LONGEST_WAIT)
        await asyncio.sleep(self._next_guess - now)

    def _refusal(self, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        # A name may have been bound to this machine by somebody else's page; an address cannot.
        if self.loopback and self.token is None and not is_loopback(_split(f"//{host}").hostname or ""):
            expected = "localhost or an address of this machine only, where it listens"
            return 403, f"Got a request for the host {host[:100]!r}; expected {expected}."
        if origin is not None and _split(origin).netloc != host:
            expected = "none, because only the service's own may ask"
            return 403, f"Got a request from the page {origin[:100]!r}; expected {expected}."
        if path in OPEN_PATHS or self.token is None or self._has_token(self.token, headers):
            return None
        return 401, "Got no token, or a wrong one; expected the header `Authorization: Bearer TOKEN`."

    def _has_token(self, token: str, headers: dict[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and same(given.strip(), token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and same(cookie.value, cookie_of(token))


def _split(address: str) -> SplitResult:
    """The parts of an address; all are empty if it is none.

    >>> _split("//[0:0::1]:80").hostname, _split("http://localhost:8000").netloc, _split("//a]b").netloc
    ('0:0::1', 'localhost:8000', '')
    """
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


async def _refuse(scope: Any, receive: Any, send: Any, status: int, message: str) -> None:
    """An error, before anything else has looked at the request."""
    body, kind, start = msgspec.json.encode({"error": message}), b"application/json", scope["type"]
    if status == 401 and start == "http" and scope["path"] == "/" and scope["method"] == "GET":
        body, kind = LOGIN, b"text/html; charset=utf-8"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    if start == "websocket":
        start = "websocket.http"
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": message[:100]})
            return
    await send({"type": f"{start}.response.start", "status": status, "headers": headers})
    await send({"type": f"{start}.response.body", "body": b"" if scope.get("method") == "HEAD" else body})


_HEAD_BYTES = 2**15
_HEAD_SECONDS = 10.0
CONNECTIONS = 4_096
_OTHER_FILES = 128  # that the process has open
_NUMBERS = itertools.count()


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which alone would read a head without end, and wait for it for ever.

    When there are too many connections, the oldest that is not being answered goes. So those who open many and say
    nothing take the place of each other, and not of WebSockets or of requests that are worked on.
    """

    most = CONNECTIONS
    seconds = _HEAD_SECONDS
    _head, _timer = 0, None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._number = next(_NUMBERS)  # not the time, which many may share
        self._await_head()
        if len(self.connections) > self.most:
            others = [other for other in self.connections if isinstance(other, BoundedHttp)]
            idle = [other for other in others if not other._busy and not other.transport.is_closing()]
            min(idle, key=lambda other: other._number).transport.abort()  # this one at least is idle

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._timer is not None:
            self._head += len(data)
            if self._head > _HEAD_BYTES:
                self.send_400_response(f"Got a head of more than {_HEAD_BYTES} bytes; expected fewer.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        if self._timer is None:
            self._head, self._timer = 0, self.loop.call_later(self.seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def allow_connections() -> int:
    """Raise the number of open files as far as this process may; how many connections that allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(CONNECTIONS, soft - _OTHER_FILES))


def be_quiet_about_strangers() -> None:
    """Let nobody without a token fill the log: uvicorn writes a line for each WebSocket that the service refuses."""
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "without completing handshake" not in record.getMessage()
    )
