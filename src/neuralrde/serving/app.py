"""The ASGI application: which address leads where, the answers by REST, and the OpenAPI document of both."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import parse_qs

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from .._version import __version__
from . import protocol
from .jobs import Job, Kind, Outcome
from .limits import RequestError
from .loadtest import Recording, Replay, ReplayRequest, ReplayStatus
from .page import FILES
from .protocol import HEADER, VERSION
from .security import COOKIE, Guard, cookie_of, same
from .served import ServedModel
from .service import Service
from .sockets import Connection, client_of, refusal

_LISTED = 1_000  # names of streams in one response
_BODY_SECONDS = 60.0
# Only what this service sends itself is loaded or run by the page.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)


def create_app(
    service: Service, *, token: str | None = None, loopback: bool = True, replay: tuple[str, Recording] | None = None
) -> Guard:
    """An ASGI application of a service.

    Args:
        service: which models, with which limits.
        token: what clients must send; None, or an empty one, asks for none.
        loopback: whether it listens on this machine only; then requests for another host are refused.
        replay: the name of a model, and what the page can play to it.
    """
    rest = Rest(service, token or None, replay)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        yield
        if rest.replay is not None:
            await rest.replay.stop()
        await service.stop()

    methods: dict[str, dict[str, Handler]] = {}
    for operation in rest.operations():
        methods.setdefault(operation.path.replace("{stream}", "{stream:path}"), {})[operation.method] = operation.handle
    routes: list[Any] = [
        *(Route(path, _by_method(handlers), methods=list(handlers)) for path, handlers in methods.items()),
        WebSocketRoute("/v2/models/{model}/streams", rest.stream_socket),
        WebSocketRoute("/watch", rest.watch_socket),
        Route("/openapi.json", rest.openapi),
        Route("/login", rest.login, methods=["POST"]),
        *(Route(path, _file(*file)) for path, file in FILES.items()),
    ]
    handlers: Any = {RequestError: _refused, HTTPException: _http_error, Exception: _failed}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    rest.guard = Guard(app, token=token, loopback=loopback)
    return rest.guard


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    """One method of one address, as the application routes it and the OpenAPI document describes it."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    handle: Handler
    summary: str
    answer: Any = None
    """The type of a good answer's JSON."""
    refusals: tuple[int, ...] = ()
    body: Any = None
    """The type of the request's JSON."""
    status: int = 200
    also: str | None = None
    """Another media type of the answer."""


class Rest:
    """Handlers of requests."""

    def __init__(self, service: Service, token: str | None, replay: tuple[str, Recording] | None):
        self.service, self.token = service, token
        self.guard: Guard | None = None
        self.replay = None if replay is None else Replay(service, *replay)
        if self.replay is not None:
            service.hub.replay = self.replay.status

    def operations(self) -> list[Operation]:
        busy = (400, 404, 409, 413, 415, 429, 503)
        one, streams = "/v2/models/{model}", "/v2/models/{model}/streams"
        of_model = [
            Operation("GET", "", self.metadata, "What a model takes and gives", protocol.Model, (404,)),
            Operation("GET", "/ready", self.model_ready, "Whether a model is ready", None, (404, 503)),
            Operation(
                "GET", "/config", self.config, "A model's limits, as Triton's clients ask for them",
                protocol.Config, (404,),
            ),
            Operation(
                "POST", "/infer", self.infer, "Predict for whole series, or push points to a stream and predict",
                protocol.Response, busy, protocol.Request, also="application/octet-stream",
            ),
        ]  # fmt: skip
        return [
            Operation("GET", "/v2", self.server, "The service", protocol.Server),
            Operation("GET", "/v2/health/live", self.live, "Whether the service runs", None, (503,)),
            Operation("GET", "/v2/health/ready", self.ready, "Whether everything is compiled", None, (503,)),
            Operation(
                "POST", "/v2/repository/index", self.index, "The models, as Triton's clients ask for them",
                list[protocol.Indexed], (413,),
            ),
            Operation("GET", streams, self.streams, "Which streams there are", protocol.Streams, (404,)),
            Operation(
                "GET", streams + "/{stream}", self.read, "The state of a stream, to move it", protocol.Stream,
                (400, 404, 409, 429, 503),
            ),
            Operation(
                "PUT", streams + "/{stream}", self.write, "A stream from a state", protocol.Taken,
                (400, 404, 413, 429, 503), protocol.Put,
            ),
            Operation(
                "DELETE", streams + "/{stream}", self.drop, "End a stream", None, (400, 404, 429, 503), status=204
            ),
            Operation("GET", "/metrics", self.metrics, "Metrics, for Prometheus", also="text/plain"),
            Operation("GET", "/replay", self.replay_status, "The replay", ReplayStatus, (404,)),
            Operation(
                "POST", "/replay", self.replay_change, "Start, pause or change it", ReplayStatus, (400, 404, 413),
                ReplayRequest,
            ),
            *(
                replace(operation, path=prefix + operation.path)
                for prefix in (one, one + "/versions/{version}")
                for operation in of_model
            ),
        ]  # fmt: skip

    # Health and metadata.

    async def live(self, request: Request) -> Response:
        if self.service.engine.failure is not None:
            raise RequestError(503, "The thread that computes has stopped; restart the service.")
        return Response()

    async def ready(self, request: Request) -> Response:
        if not self.service.ready:
            raise RequestError(503, "The models are being compiled.", retry_after=2)
        return Response()

    async def model_ready(self, request: Request) -> Response:
        self._model(request)
        return await self.ready(request)

    async def server(self, request: Request) -> Response:
        return json_response(protocol.Server("neuralrde", __version__, ["sequence", "binary_tensor_data"]))

    async def index(self, request: Request) -> Response:
        await body_of(request, self.service.limits.message_bytes)
        state = "READY" if self.service.ready else "LOADING"
        return json_response([protocol.Indexed(name, VERSION, state) for name in self.service.models])

    async def metadata(self, request: Request) -> Response:
        return json_response(protocol.metadata_of(self._model(request)))

    async def config(self, request: Request) -> Response:
        served, limits = self._model(request), self.service.limits
        idle = {"max_sequence_idle_microseconds": int(1e6 * limits.idle)}
        return json_response(protocol.Config(served.name, "neuralrde", limits.batch, idle))

    async def metrics(self, request: Request) -> Response:
        return Response(self.service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        return json_response(document(self.operations(), list(self.service.models)))

    def _model(self, request: Request) -> ServedModel:
        served, version = self.service.model(request.path_params["model"]), request.path_params.get("version", VERSION)
        if version != VERSION:
            raise RequestError(
                404, f"There is no version {version[:40]!r} of the model {served.name!r}; expected {VERSION!r}."
            )
        return served

    # Inference.

    async def infer(self, request: Request) -> Response:
        served, arrived = self._model(request), time.perf_counter()
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RequestError(415, f"Got Content-Encoding: {request.headers['content-encoding'][:40]}; expected none.")
        body = await body_of(request, self.service.limits.message_bytes)
        asked, arrays = protocol.parse(body, request.headers.get(HEADER))
        protocol.check_outputs(served, asked)
        values, times, lengths = protocol.inputs_of(arrays, len(served.channels))
        given, parameters = asked.parameters, {}
        if asked.stream is None:
            outcomes = await self._whole(served, values, times, lengths)
        else:
            if len(values) != 1 or lengths is not None:
                raise RequestError(
                    400,
                    f"Got {len(values)} series for the sequence {asked.stream!r}; expected one, `(1, count, "
                    "channels)`, and no lengths.",
                )
            job = Job(
                served.name,
                asked.stream,
                owner=client_of(request),
                values=values[0] if values.shape[1] else None,
                times=None if times is None else times[0],
                at=given.at,
                create=False,
                start=given.sequence_start,
                end=given.sequence_end,
                truth=given.truth,
            )
            outcomes = [await self.service.ask(job)]
            parameters["sequence_id"] = given.sequence_id
        parameters["age_ms"] = round(1000 * (time.perf_counter() - arrived), 1)
        outputs = protocol.outputs_of(served, outcomes)
        content, headers = protocol.respond(served.name, VERSION, asked, outputs, parameters)
        return Response(content, headers=headers)

    async def _whole(
        self, served: ServedModel, values: np.ndarray, times: np.ndarray | None, lengths: np.ndarray | None
    ) -> list[Outcome]:
        """Series that come whole: each is a stream of one push that nobody keeps."""
        if not 1 <= len(values) <= self.service.limits.batch or not values.shape[1]:
            raise RequestError(
                400,
                f"Got values of shape {list(values.shape)}; expected 1 to {self.service.limits.batch} series, each of "
                "at least one point.",
            )
        ends = np.full(len(values), values.shape[1]) if lengths is None else lengths
        if ends.shape != (len(values),) or (ends < 1).any() or (ends > values.shape[1]).any() or (ends % 1).any():
            raise RequestError(
                400,
                f"Got lengths of shape {list(ends.shape)}; expected one whole number per series, from 1 to "
                f"{values.shape[1]}.",
            )
        jobs = [
            Job(
                served.name,
                self.service.whole_name(),
                kind="whole",
                values=series[: int(end)],
                times=None if times is None else times[k][: int(end)],
            )
            for k, (series, end) in enumerate(zip(values, ends, strict=True))
        ]
        return list(await asyncio.gather(*map(self.service.ask, jobs)))

    # Streams as resources.

    async def streams(self, request: Request) -> Response:
        served = self._model(request)
        known = list(served.known)
        return json_response(protocol.Streams(len(known), len(served.live), known[:_LISTED]))

    async def read(self, request: Request) -> Response:
        job = self._job(request, "read")
        outcome = await self.service.ask(job)
        return json_response(protocol.Stream(job.stream, outcome.points, outcome.state or {}))

    async def write(self, request: Request) -> Response:
        job = self._job(request, "write")
        body = await body_of(request, self.service.limits.message_bytes)
        job.state = _decoded(body, protocol.Put, "a body that holds no state", '{"state": ...}, as GET gives it').state
        outcome = await self.service.ask(job)
        return json_response(protocol.Taken(job.stream, outcome.points))

    async def drop(self, request: Request) -> Response:
        await self.service.ask(self._job(request, "drop"))
        return Response(status_code=204)

    def _job(self, request: Request, kind: Kind) -> Job:
        name, stream = self._model(request).name, request.path_params["stream"]
        return Job(name, stream, kind=kind, owner=client_of(request), predict=False, create=False)

    async def stream_socket(self, socket: WebSocket) -> None:
        """A connection of streams."""
        try:
            served = self.service.model(socket.path_params["model"])
        except RequestError as error:
            await socket.accept()
            await socket.send_text(msgspec.json.encode(refusal(error)).decode())
            await socket.close(1008)
            return
        # Cancelled: the service stops, and does not wait for clients that do not go.
        with contextlib.suppress(WebSocketDisconnect, asyncio.CancelledError):
            await Connection(self.service, socket, served.name).run()

    # The page.

    async def watch_socket(self, socket: WebSocket) -> None:
        await self.service.hub.serve(socket)

    async def replay_status(self, request: Request) -> Response:
        return json_response(self._replay().status())

    async def replay_change(self, request: Request) -> Response:
        replay, body = self._replay(), await body_of(request, self.service.limits.message_bytes)
        example = 'JSON such as {"running": true, "speed": 2}'
        replay.change(_decoded(body, ReplayRequest, "no request to replay", example))
        return json_response(replay.status())

    def _replay(self) -> Replay:
        if self.replay is None:
            raise RequestError(404, "This service has nothing to replay; start it with `--replay FILE`.")
        return self.replay

    async def login(self, request: Request) -> Response:
        """The page's form: the right token becomes a cookie."""
        form = parse_qs((await body_of(request, 4096)).decode("latin-1"))
        if self.token is None or not same(form.get("token", [""])[0], self.token):
            if self.guard is not None:
                await self.guard.wait_after_guess()
            raise RequestError(401, "Got a wrong token; expected the one that the service was started with.")
        response = Response(status_code=303, headers={"Location": "/"})
        response.set_cookie(
            COOKIE, cookie_of(self.token), httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return response


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, headers=headers, media_type="application/json")


def _decoded(body: bytes, kind: type[Any], wrong: str, example: str) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RequestError(400, f"Got {wrong}: {error}. Expected {example}.") from None


async def body_of(request: Request, most: int) -> bytes:
    """The whole body, or an error as soon as it is too large."""
    length = request.headers.get("content-length", "0")
    parts, size = [], int(length) if length.isdecimal() else 0
    try:
        if size <= most:
            size = 0
            async with asyncio.timeout(_BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        break
                    parts.append(part)
    except (ClientDisconnect, TimeoutError):
        raise RequestError(400, f"Got half a body; expected a whole one within {_BODY_SECONDS:g} s.") from None
    if size > most:
        raise RequestError(413, f"Got a body of {size} bytes or more; expected at most {most}.")
    return b"".join(parts)


def _by_method(handlers: dict[str, Handler]) -> Handler:
    async def endpoint(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _file(content: bytes, kind: str) -> Handler:
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind, headers=headers)

    return endpoint


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return json_response(protocol.Error(error.message), error.status, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own: there is no such address, or it takes another method."""
    assert isinstance(error, HTTPException)
    return json_response(protocol.Error(f"{error.detail}."), error.status_code, dict(error.headers or {}))


async def _failed(request: Request, error: Exception) -> Response:
    return json_response(protocol.Error("Something went wrong that should not have."), 500)


# The OpenAPI document.

_REFUSALS = {
    400: "Something is wrong with the request; `error` says what.",
    401: "No token, or a wrong one.",
    403: "The request comes from another page.",
    404: "There is no such model or stream.",
    405: "This address takes another method.",
    409: "The points leave a gap, or the stream was kept by another model.",
    413: "Too large.",
    415: "Compressed.",
    429: "Too many points or streams; try again after `Retry-After` seconds.",
    503: "Not ready, or too busy; try again after `Retry-After` seconds.",
}


def document(operations: list[Operation], models: list[str]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these operations, from the types of their messages."""
    types = [
        protocol.Error,
        *(kind for operation in operations for kind in (operation.answer, operation.body) if kind is not None),
    ]
    references, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    reference = iter(references)
    refusal = {"application/json": {"schema": next(reference)}}
    parameters = {
        "model": {"type": "string", "enum": models},
        "version": {"type": "string", "enum": [VERSION]},
        "stream": {"type": "string", "minLength": 1, "maxLength": 200},
    }
    paths: dict[str, Any] = {}
    for operation in operations:
        content = {} if operation.answer is None else {"application/json": {"schema": next(reference)}}
        content |= {} if operation.also is None else {operation.also: {"schema": {"type": "string"}}}
        responses = {str(operation.status): {"description": "Done."} | ({"content": content} if content else {})}
        for code in sorted({401, 403, *operation.refusals}):
            responses[str(code)] = {"description": _REFUSALS[code], "content": refusal}
        described: dict[str, Any] = {"summary": operation.summary, "responses": responses}
        if operation.body is not None:
            described["requestBody"] = {"required": True, "content": {"application/json": {"schema": next(reference)}}}
        path = paths.setdefault(operation.path, {})
        path[operation.method.lower()] = described
        path["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": schema}
            for name, schema in parameters.items()
            if f"{{{name}}}" in operation.path
        ]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "neuralrde",
            "version": __version__,
            "description": "Predictions while the data arrive. The Open Inference Protocol (version 2) with Triton's "
            "sequence and binary tensor extensions. Streams can also be sent by WebSocket, to the address of a model's "
            "streams.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }
