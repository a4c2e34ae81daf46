"""The ASGI application: which address leads where."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from .errors import Refused
from .openapi import document
from .page import FILES
from .recording import Recording
from .replaying import Replay, ReplayRequest
from .rest import Rest, body_of, json_response
from .security import COOKIE, Guard, cookie_of, same
from .service import Service
from .sockets import Connection, refusal

# Only what this service sends itself is loaded or run by the page.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)


def create_app(
    service: Service, *, token: str | None = None, loopback: bool = True, replay: tuple[str, Recording] | None = None
) -> Any:
    """An ASGI application of a service.

    Args:
        service: which models, with which limits.
        token: what clients must send; None, or an empty one, asks for none.
        loopback: whether it listens on this machine only; then requests for another host are refused.
        replay: the name of a model, and what the page can play to it.
    """
    token = token or None
    rest, extras = Rest(service), Extras(service, token, replay)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        yield
        if extras.replay is not None:
            await extras.replay.stop()
        await service.stop()

    one, versioned = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
    routes: list[Any] = [
        Route("/v2", rest.server),
        Route("/v2/health/live", rest.live),
        Route("/v2/health/ready", rest.ready),
        Route("/v2/repository/index", rest.index, methods=["POST"]),
        Route(one + "/streams", rest.streams),
        WebSocketRoute(one + "/streams", extras.stream),
        Route(one + "/streams/{stream:path}", _by_method(GET=rest.read, PUT=rest.write, DELETE=rest.drop),
              methods=["GET", "PUT", "DELETE"]),
        Route("/metrics", rest.metrics),
        Route("/openapi.json", extras.openapi),
        Route("/replay", _by_method(GET=extras.replay_status, POST=extras.replay_change), methods=["GET", "POST"]),
        Route("/login", extras.login, methods=["POST"]),
        WebSocketRoute("/watch", extras.watch),
        *(Route(path, _file(*file)) for path, file in FILES.items()),
    ]  # fmt: skip
    for prefix in (one, versioned):
        routes += [
            Route(prefix, rest.metadata),
            Route(prefix + "/ready", rest.model_ready),
            Route(prefix + "/config", rest.config),
            Route(prefix + "/infer", rest.infer, methods=["POST"]),
        ]
    handlers: Any = {Refused: _refused, HTTPException: _http_error, Exception: _failed}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    extras.guard = Guard(app, token=token, loopback=loopback)
    return extras.guard


class Extras:
    """What is not the protocol's: WebSockets, the replay, the page's token."""

    def __init__(self, service: Service, token: str | None, replay: tuple[str, Recording] | None):
        self.service, self.token = service, token
        self.guard: Guard | None = None
        self.replay = None if replay is None else Replay(service, *replay)
        if self.replay is not None:
            service.hub.replay = self.replay.status

    async def stream(self, socket: WebSocket) -> None:
        """A connection of streams."""
        try:
            hosted = self.service.model(socket.path_params["model"])
        except Refused as error:
            await socket.accept()
            await socket.send_text(msgspec.json.encode(refusal(error)).decode())
            await socket.close(1008)
            return
        # Cancelled: the service stops, and does not wait for clients that do not go.
        with contextlib.suppress(WebSocketDisconnect, asyncio.CancelledError):
            await Connection(self.service, socket, hosted.name).run()

    async def watch(self, socket: WebSocket) -> None:
        """The page's frames."""
        await self.service.hub.serve(socket)

    async def openapi(self, request: Request) -> Response:
        return json_response(document(list(self.service.models)))

    async def replay_status(self, request: Request) -> Response:
        return json_response(self._replay().status())

    async def replay_change(self, request: Request) -> Response:
        replay, body = self._replay(), await body_of(request, self.service.limits.message_bytes)
        try:
            asked = msgspec.json.decode(body, type=ReplayRequest)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise Refused(
                400, f'Got no request to replay: {error}. Expected JSON such as {{"running": true, "speed": 2}}.'
            ) from None
        replay.change(asked)
        return json_response(replay.status())

    def _replay(self) -> Replay:
        if self.replay is None:
            raise Refused(404, "This service has nothing to replay; start it with `--replay FILE`.")
        return self.replay

    async def login(self, request: Request) -> Response:
        """The page's form: the right token becomes a cookie."""
        form = parse_qs((await body_of(request, 4096)).decode("latin-1"))
        if self.token is None or not same(form.get("token", [""])[0], self.token):
            if self.guard is not None:
                await self.guard.wait_after_guess()
            raise Refused(401, "Got a wrong token; expected the one that the service was started with.")
        response = Response(status_code=303, headers={"Location": "/"})
        response.set_cookie(
            COOKIE, cookie_of(self.token), httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return response


def _by_method(**handlers: Callable) -> Callable:
    async def endpoint(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _file(content: bytes, kind: str) -> Callable:
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind, headers=headers)

    return endpoint


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    response = json_response(error.body, error.status)
    response.headers.update(error.headers)
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own: there is no such address, or it takes another method."""
    assert isinstance(error, HTTPException)
    response = json_response({"error": f"{error.detail}."}, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _failed(request: Request, error: Exception) -> Response:
    return json_response({"error": "Something went wrong that should not have."}, 500)
