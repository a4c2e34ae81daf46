"""The ASGI application: which address leads where, the answers by REST, and the OpenAPI document of both."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
import numpy as np
from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..._version import __version__
from ..._write import Values
from . import protocol
from .jobs import Job, Kind
from .limits import RequestError, wrong
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


def create_app(service: Service, *, token: str | None = None, loopback: bool = True) -> Guard:
    """An ASGI application of a service.

    Args:
        service: which models, with which limits.
        token: what clients must send; None, or an empty one, asks for none.
        loopback: whether it listens on this machine only; then requests for another host are refused.
    """
    rest = Rest(service, token or None)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    methods: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        methods.setdefault(operation.path.replace("{stream}", "{stream:path}"), {})[operation.method] = operation
    routes: list[Any] = [
        *(Route(path, rest.answer(some), methods=list(some)) for path, some in methods.items()),
        WebSocketRoute("/v2/models/{model}/streams", rest.stream_socket),
        WebSocketRoute("/watch", service.hub.serve),
        Route("/openapi.json", lambda request: _json(document(list(service.models)))),
        Route("/login", rest.login, methods=["POST"]),
        *(Route(path, _file(*file)) for path, file in FILES.items()),
    ]
    handlers: Any = dict.fromkeys((RequestError, HTTPException, Exception), _refused)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    rest.guard = Guard(app, token=token, loopback=loopback)
    return rest.guard


class Operation(NamedTuple):
    """One method of one address, as the application routes it and the OpenAPI document describes it."""

    method: str
    path: str
    handle: "Callable[[Rest, Request], Awaitable[object]]"
    """Its docstring is the summary; what it returns is the answer's JSON, unless it is a response."""
    answer: object = None
    """The type of a good answer's JSON."""
    refusals: tuple[int, ...] = ()
    body: object = None
    """The type of the request's JSON."""
    status: int = 200
    also: str | None = None
    """Another media type of the answer."""


OPERATIONS: list[Operation] = []


def at(method: str, *paths: str, **about: Any) -> Callable:
    def add(handle):
        OPERATIONS.extend(Operation(method, path, handle, **about) for path in paths)
        return handle

    return add


def _of_model(path: str = "") -> tuple[str, str]:
    return f"/v2/models/{{model}}{path}", f"/v2/models/{{model}}/versions/{{version}}{path}"


_STREAMS = "/v2/models/{model}/streams"


class Rest:
    """Handlers of requests."""

    def __init__(self, service: Service, token: str | None):
        self.service, self.token = service, token
        self.guard: Guard | None = None

    def answer(self, operations: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            operation = operations["GET" if request.method == "HEAD" else request.method]
            found = await operation.handle(self, request)
            if isinstance(found, Response):
                return found
            return Response(status_code=operation.status) if found is None else _json(found)

        return endpoint

    # Health and metadata.

    @at("GET", "/v2", answer=protocol.Server)
    async def server(self, request: Request) -> protocol.Server:
        """The service"""
        return protocol.Server("neuralrde", __version__, ["sequence", "binary_tensor_data"])

    @at("GET", "/v2/health/live", refusals=(503,))
    async def live(self, request: Request) -> None:
        """Whether the service runs"""
        if self.service.engine.failure is not None:
            raise RequestError(503, "The thread that computes has stopped; restart the service.")

    @at("GET", "/v2/health/ready", refusals=(503,))
    async def ready(self, request: Request) -> None:
        """Whether everything is compiled"""
        self.service.check_ready()

    @at("POST", "/v2/repository/index", answer=list[protocol.Indexed], refusals=(413,))
    async def index(self, request: Request) -> list[protocol.Indexed]:
        """The models, as Triton's clients ask for them"""
        await self._body(request)
        state = "READY" if self.service.ready else "LOADING"
        return [protocol.Indexed(name, VERSION, state) for name in self.service.models]

    @at("GET", *_of_model(), answer=protocol.Model, refusals=(404,))
    async def metadata(self, request: Request) -> protocol.Model:
        """What a model takes and gives"""
        return protocol.metadata_of(self._model(request))

    @at("GET", *_of_model("/ready"), refusals=(404, 503))
    async def model_ready(self, request: Request) -> None:
        """Whether a model is ready"""
        self._model(request)
        self.service.check_ready()

    @at("GET", *_of_model("/config"), answer=protocol.Config, refusals=(404,))
    async def config(self, request: Request) -> protocol.Config:
        """A model's limits, as Triton's clients ask for them"""
        served, limits = self._model(request), self.service.limits
        idle = {"max_sequence_idle_microseconds": int(1e6 * limits.idle)}
        return protocol.Config(served.name, "neuralrde", limits.batch, idle)

    @at("GET", "/metrics", also="text/plain")
    async def metrics(self, request: Request) -> Response:
        """Metrics, for Prometheus"""
        text = generate_latest(self.service.metrics.registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def _model(self, request: Request) -> ServedModel:
        served, version = self.service.model(request.path_params["model"]), request.path_params.get("version", VERSION)
        if version != VERSION:
            raise RequestError(
                404, f"There is no version {version[:40]!r} of the model {served.name!r}; expected {VERSION!r}."
            )
        return served

    async def _body(self, request: Request, most: int | None = None) -> bytes:
        """The whole body, or an error as soon as it is too large."""
        most, length = most or self.service.limits.message_bytes, request.headers.get("content-length", "0")
        size, body = int(length) if length.isdecimal() else 0, bytearray()
        try:
            if size <= most:
                size = 0
                async with asyncio.timeout(_BODY_SECONDS):
                    async for part in request.stream():
                        if (size := size + len(part)) > most:
                            break
                        body += part
        except (ClientDisconnect, TimeoutError):
            raise wrong(f"Got half a body; expected a whole one within {_BODY_SECONDS:g} s.") from None
        if size > most:
            raise RequestError(413, f"Got a body of {size} bytes or more; expected at most {most}.")
        return bytes(body)

    async def _read(self, request: Request, kind: Any, what: str, example: str) -> Any:
        try:
            return msgspec.json.decode(await self._body(request), type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise wrong(f"Got {what}: {error}. Expected {example}.") from None

    # Inference.

    @at(
        "POST", *_of_model("/infer"), answer=protocol.Response, body=protocol.Request, also="application/octet-stream",
        refusals=(400, 404, 409, 413, 415, 429, 503),
    )  # fmt: skip
    async def infer(self, request: Request) -> Response:
        """Predict for whole series, or push points to a stream and predict"""
        served, arrived = self._model(request), time.perf_counter()
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RequestError(415, f"Got Content-Encoding: {request.headers['content-encoding'][:40]}; expected none.")
        asked, arrays = protocol.parse(await self._body(request), request.headers.get(HEADER))
        protocol.check_outputs(served, asked)
        values, times, lengths = protocol.inputs_of(arrays, len(served.channels))
        given, parameters = asked.parameters, {}
        if asked.stream is None:
            jobs = self._whole(served, values, times, lengths, given.static)
            for job in jobs:
                job.ahead = asked.ahead
        else:
            if isinstance(given.static, list):
                raise wrong('Got a list as `static` of a sequence; expected an object, such as {"age": 64}.')
            if len(values) != 1 or lengths is not None:
                raise wrong(
                    f"Got {len(values)} series for the sequence {asked.stream!r}; expected one, `(1, count, "
                    "channels)`, and no lengths.",
                )
            jobs = [
                Job(
                    served.name,
                    asked.stream,
                    owner=client_of(request),
                    values=values[0] if values.shape[1] else None,
                    times=None if times is None else times[0],
                    at=given.at,
                    ahead=asked.ahead,
                    create=False,
                    start=given.sequence_start,
                    end=given.sequence_end,
                    truth=given.truth,
                    static=given.static,
                )
            ]
            parameters["sequence_id"] = given.sequence_id
        for job in jobs:
            job.explain = given.explain
        await asyncio.gather(*map(self.service.ask, jobs))
        if given.explain:
            parameters["explanations"] = [job.prediction and job.prediction.explanation for job in jobs]
        parameters["age_ms"] = round(1000 * (time.perf_counter() - arrived), 1)
        types, outputs = protocol.output_types(served), protocol.outputs_of(served, jobs)
        content, headers = protocol.respond(served.name, asked, types, outputs, parameters)
        return Response(content, headers=headers)

    def _whole(
        self,
        served: ServedModel,
        values: np.ndarray,
        times: np.ndarray | None,
        lengths: np.ndarray | None,
        static: list[Values] | Values | None,
    ) -> list[Job]:
        """Series that come whole: each is a stream of one push that nobody keeps."""
        (count, longest, _), most = values.shape, self.service.limits.batch
        if not 1 <= count <= most or not longest:
            raise wrong(
                f"Got values of shape {list(values.shape)}; expected 1 to {most} series, each of at least one point.",
            )
        ends = np.full(count, longest) if lengths is None else lengths
        if ends.shape != (count,) or (ends < 1).any() or (ends > longest).any() or (ends % 1).any():
            raise wrong(
                f"Got lengths of shape {list(ends.shape)}; expected one whole number per series, from 1 to {longest}.",
            )
        known = static if isinstance(static, list) else [static] * count
        if len(known) != count or (isinstance(static, dict) and count > 1):
            raise wrong(f"Got `static` of another number than {count} series; expected a list with an object for each.")
        clocks = [None] * count if times is None else times
        return [
            Job(
                served.name,
                self.service.whole_name(),
                kind="whole",
                values=series[:end],
                times=None if clock is None else clock[:end],
                static=beside,
            )
            for series, clock, end, beside in zip(values, clocks, map(int, ends), known, strict=True)
        ]

    # Streams as resources.

    @at("GET", _STREAMS, answer=protocol.Streams, refusals=(404,))
    async def streams(self, request: Request) -> protocol.Streams:
        """Which streams there are"""
        served = self._model(request)
        known = list(served.known)
        return protocol.Streams(len(known), len(served.live), known[:_LISTED])

    @at("GET", _STREAMS + "/{stream}", answer=protocol.Stream, refusals=(400, 404, 409, 429, 503))
    async def read(self, request: Request) -> protocol.Stream:
        """The state of a stream, to move it"""
        job = await self.service.ask(self._job(request, "read"))
        return protocol.Stream(job.stream, job.points, job.state or {})

    @at("PUT", _STREAMS + "/{stream}", answer=protocol.Taken, body=protocol.Put, refusals=(400, 404, 413, 429, 503))
    async def write(self, request: Request) -> protocol.Taken:
        """A stream from a state"""
        job, example = self._job(request, "write"), '{"state": ...}, as GET gives it'
        job.state = (await self._read(request, protocol.Put, "a body that holds no state", example)).state
        await self.service.ask(job)
        return protocol.Taken(job.stream, job.points)

    @at("DELETE", _STREAMS + "/{stream}", refusals=(400, 404, 429, 503), status=204)
    async def drop(self, request: Request) -> None:
        """End a stream"""
        await self.service.ask(self._job(request, "drop"))

    def _job(self, request: Request, kind: Kind) -> Job:
        name, stream = self._model(request).name, request.path_params["stream"]
        return Job(name, stream, kind=kind, owner=client_of(request), predict=False, create=False)

    async def stream_socket(self, socket: WebSocket) -> None:
        """A connection of streams."""
        try:
            connection = Connection(self.service, socket, socket.path_params["model"])
        except RequestError as error:
            await socket.accept()
            await socket.send_text(msgspec.json.encode(refusal(error)).decode())
            await socket.close(1008)
            return
        # Cancelled: the service stops, and does not wait for clients that do not go.
        with contextlib.suppress(WebSocketDisconnect, asyncio.CancelledError):
            await connection.run()

    # The page.

    async def login(self, request: Request) -> Response:
        """The page's form: the right token becomes a cookie."""
        form = parse_qs((await self._body(request, 4096)).decode("latin-1"))
        if self.token is None or not same(form.get("token", [""])[0], self.token):
            if self.guard is not None:
                await self.guard.wait_after_guess()
            raise RequestError(401, "Got a wrong token; expected the one that the service was started with.")
        response = Response(status_code=303, headers={"Location": "/"})
        response.set_cookie(
            COOKIE, cookie_of(self.token), httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return response


def _json(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, headers=headers, media_type="application/json")


def _file(content: bytes, kind: str) -> Callable[[Request], Response]:
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
    return lambda request: Response(content, media_type=kind, headers=headers)


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestError):
        return _json(protocol.Error(error.message), error.status, error.headers)
    if isinstance(error, HTTPException):  # there is no such address, or it takes another method
        return _json(protocol.Error(f"{error.detail}."), error.status_code, dict(error.headers or {}))
    return _json(protocol.Error("Something went wrong that should not have."), 500)


_REFUSALS = {
    400: "Something is wrong with the request; `error` says what.",
    401: "No token, or a wrong one.",
    403: "The request comes from another page.",
    404: "There is no such model or stream.",
    409: "The points leave a gap, or the stream was kept by another model.",
    413: "Too large.",
    415: "Compressed.",
    429: "Too many points or streams; try again after `Retry-After` seconds.",
    503: "Not ready, or too busy; try again after `Retry-After` seconds.",
}


def document(models: list[str]) -> Values:
    """The OpenAPI 3.1 document of all operations, from the types of their messages."""
    types = [kind for operation in OPERATIONS for kind in (operation.answer, operation.body) if kind is not None]
    template = "#/components/schemas/{name}"
    found, schemas = msgspec.json.schema_components([protocol.Error, *types], ref_template=template)
    refusal, *rest = ({"application/json": {"schema": reference}} for reference in found)
    content = iter(rest)
    parameters = {
        "model": {"type": "string", "enum": models},
        "version": {"type": "string", "enum": [VERSION]},
        "stream": {"type": "string", "minLength": 1, "maxLength": 200},
    }
    paths: Values = {}
    for operation in OPERATIONS:
        good = {} if operation.answer is None else dict(next(content))
        good |= {} if operation.also is None else {operation.also: {"schema": {"type": "string"}}}
        responses = {str(operation.status): {"description": "Done."} | ({"content": good} if good else {})}
        for code in sorted({401, 403, *operation.refusals}):
            responses[str(code)] = {"description": _REFUSALS[code], "content": refusal}
        described: Values = {"summary": operation.handle.__doc__, "responses": responses}
        if operation.body is not None:
            described["requestBody"] = {"required": True, "content": next(content)}
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
