"""The Open Inference Protocol over HTTP, and the state of a stream as a resource."""

import asyncio
import time
from typing import Any

import msgspec
import numpy as np
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from .._version import __version__
from .errors import Refused
from .hosted import Hosted
from .jobs import Job, Outcome
from .protocol import (
    HEADER,
    VERSION,
    check_outputs,
    inputs_of,
    metadata_of,
    number_of,
    outputs_of,
    parse,
    respond,
    sequence_of,
    truth_of,
)
from .service import Service
from .sockets import client_of

_LISTED = 1_000  # names of streams in one response
_BODY_SECONDS = 60.0


class Rest:
    """Handlers of requests."""

    def __init__(self, service: Service):
        self.service = service

    # Health and metadata.

    async def live(self, request: Request) -> Response:
        if self.service.engine.failure is not None:
            raise Refused(503, "The thread that computes has stopped; restart the service.")
        return Response()

    async def ready(self, request: Request) -> Response:
        if not self.service.ready:
            raise Refused(503, "The models are being compiled.", retry_after=2)
        return Response()

    async def model_ready(self, request: Request) -> Response:
        self._model(request)
        return await self.ready(request)

    async def server(self, request: Request) -> Response:
        return json_response(
            {"name": "neuralrde", "version": __version__, "extensions": ["sequence", "binary_tensor_data"]}
        )

    async def index(self, request: Request) -> Response:
        """Triton's list of models."""
        await body_of(request, self.service.limits.message_bytes)
        state = "READY" if self.service.ready else "LOADING"
        return json_response([{"name": name, "version": VERSION, "state": state} for name in self.service.models])

    async def metadata(self, request: Request) -> Response:
        return json_response(metadata_of(self._model(request)))

    async def config(self, request: Request) -> Response:
        hosted, limits = self._model(request), self.service.limits
        return json_response(
            {
                "name": hosted.name,
                "platform": "neuralrde",
                "max_batch_size": limits.batch,
                "sequence_batching": {"max_sequence_idle_microseconds": int(1e6 * limits.idle)},
            }
        )

    # Inference.

    async def infer(self, request: Request) -> Response:
        hosted, arrived = self._model(request), time.perf_counter()
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refused(415, f"Got Content-Encoding: {request.headers['content-encoding'][:40]}; expected none.")
        body = await body_of(request, self.service.limits.message_bytes)
        asked, arrays = parse(body, request.headers.get(HEADER))
        check_outputs(hosted, asked)
        values, times, lengths = inputs_of(arrays, len(hosted.channels))
        sequence = sequence_of(asked)
        if sequence is None:
            outcomes = await self._whole(hosted, values, times, lengths)
            parameters: dict[str, Any] = {}
        else:
            name, start, end = sequence
            if len(values) != 1 or lengths is not None:
                raise Refused(
                    400,
                    f"Got {len(values)} series for the sequence {name!r}; expected one, `(1, count, channels)`, and "
                    "no lengths.",
                )
            job = Job(
                hosted.name,
                name,
                owner=client_of(request),
                values=values[0] if values.shape[1] else None,
                times=None if times is None else times[0],
                at=number_of(asked, "at"),
                create=False,
                start=start,
                end=end,
                truth=truth_of(asked),
            )
            outcomes = [await self.service.ask(job)]
            parameters = {"sequence_id": asked.parameters["sequence_id"]}
        parameters["age_ms"] = round(1000 * (time.perf_counter() - arrived), 1)
        content, headers = respond(hosted.name, VERSION, asked, outputs_of(hosted, outcomes), parameters)
        return Response(content, headers=headers)

    async def _whole(
        self, hosted: Hosted, values: np.ndarray, times: np.ndarray | None, lengths: np.ndarray | None
    ) -> list[Outcome]:
        """Series that come whole: each is a stream of one push that nobody keeps."""
        if not 1 <= len(values) <= self.service.limits.batch or not values.shape[1]:
            raise Refused(
                400,
                f"Got values of shape {list(values.shape)}; expected 1 to {self.service.limits.batch} series, each of "
                "at least one point.",
            )
        ends = np.full(len(values), values.shape[1]) if lengths is None else lengths
        if ends.shape != (len(values),) or (ends < 1).any() or (ends > values.shape[1]).any() or (ends % 1).any():
            raise Refused(
                400,
                f"Got lengths of shape {list(ends.shape)}; expected one whole number per series, from 1 to "
                f"{values.shape[1]}.",
            )
        jobs = [
            Job(
                hosted.name,
                self.service.whole_name(),
                kind="whole",
                owner="",
                values=series[: int(end)],
                times=None if times is None else times[k][: int(end)],
            )
            for k, (series, end) in enumerate(zip(values, ends, strict=True))
        ]
        return list(await asyncio.gather(*map(self.service.ask, jobs)))

    # Streams as resources.

    async def streams(self, request: Request) -> Response:
        hosted = self._model(request)
        known, live = list(hosted.known), set(hosted.live)
        return json_response({"count": len(known), "live": len(live), "streams": known[:_LISTED]})

    async def read(self, request: Request) -> Response:
        outcome = await self.service.ask(self._job(request, "read"))
        return json_response(
            {"stream": request.path_params["stream"], "points": outcome.points, "state": outcome.state}
        )

    async def write(self, request: Request) -> Response:
        job = self._job(request, "write")
        body = await body_of(request, self.service.limits.message_bytes)
        try:
            job.state = msgspec.json.decode(body, type=_Put).state
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise Refused(
                400, f'Got a body that holds no state: {error}. Expected {{"state": ...}}, as GET gives it.'
            ) from None
        outcome = await self.service.ask(job)
        return json_response({"stream": job.stream, "points": outcome.points})

    async def drop(self, request: Request) -> Response:
        await self.service.ask(self._job(request, "drop"))
        return Response(status_code=204)

    def _job(self, request: Request, kind: Any) -> Job:
        hosted = self._model(request)
        return Job(
            hosted.name, request.path_params["stream"], kind=kind, owner=client_of(request), predict=False, create=False
        )

    def _model(self, request: Request) -> Hosted:
        hosted, version = self.service.model(request.path_params["model"]), request.path_params.get("version", VERSION)
        if version != VERSION:
            raise Refused(
                404, f"There is no version {version[:40]!r} of the model {hosted.name!r}; expected {VERSION!r}."
            )
        return hosted

    async def metrics(self, request: Request) -> Response:
        return Response(self.service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


class _Put(msgspec.Struct):
    state: dict[str, Any]
    stream: str = ""
    points: int = 0


def json_response(body: Any, status: int = 200) -> Response:
    """A response in JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


async def body_of(request: Request, most: int) -> bytes:
    """The whole body, or a refusal as soon as it is too large."""
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
        raise Refused(400, f"Got half a body; expected a whole one within {_BODY_SECONDS:g} s.") from None
    if size > most:
        raise Refused(413, f"Got a body of {size} bytes or more; expected at most {most}.")
    return b"".join(parts)
