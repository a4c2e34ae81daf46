"""Connections of strangers: how much they may send, how long they may take, and how many there may be."""

import contextlib
import itertools
import logging
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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
            idle: list[Any] = [one for one in self.connections if isinstance(one, BoundedHttp) and not one._busy]
            idle = [one for one in idle if not one.transport.is_closing()]
            min(idle, key=lambda one: one._number).transport.abort()  # this one at least is idle

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
