"""The service's description of itself, as OpenAPI 3.1."""

from typing import Any

from .._version import __version__


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


def _list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


_TEXT, _WHOLE, _TRUE, _NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "number"}
_SIZES = _list({"type": "integer", "minimum": 0}, minItems=1, maxItems=3)
_TYPES = ["BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64"]
_JSON, _BYTES = "application/json", "application/octet-stream"
_DATA = {"type": "array", "description": "Numbers, flat or nested as in `shape`; null is a missing value."}
_SCHEMAS: dict[str, Any] = {
    "Error": _object(["error"], error=_TEXT),
    "Server": _object(["name", "version", "extensions"], name=_TEXT, version=_TEXT, extensions=_list(_TEXT)),
    "Tensor": _object(["name", "datatype", "shape"], name=_TEXT, datatype=_TEXT, shape=_list(_WHOLE)),
    "Model": _object(
        ["name", "versions", "platform", "inputs", "outputs"],
        name=_TEXT,
        versions=_list(_TEXT),
        platform=_TEXT,
        inputs=_list(_ref("Tensor")),
        outputs=_list(_ref("Tensor")),
        parameters={"type": "object"},
    ),
    "Config": _object(["name", "platform", "max_batch_size"], name=_TEXT, platform=_TEXT, max_batch_size=_WHOLE),
    "Index": _list(_object(["name", "version", "state"], name=_TEXT, version=_TEXT, state=_TEXT)),
    "Input": _object(
        ["name", "shape", "datatype", "data"],
        name={"enum": ["values", "times", "lengths"]},
        shape=_SIZES,
        datatype={"enum": _TYPES},
        data=_DATA,
    ),
    "Request": _object(
        ["inputs"],
        id=_TEXT,
        inputs=_list(_ref("Input"), minItems=1),
        outputs=_list(_object(["name"], name=_TEXT, parameters=_object(binary_data=_TRUE))),
        parameters=_object(
            sequence_id={"type": ["integer", "string"], "description": "The stream; 0 or none for whole series."},
            sequence_start=_TRUE,
            sequence_end=_TRUE,
            at={
                "type": "integer",
                "minimum": 0,
                "description": "The number of the first point, to send it safely again.",
            },
            truth={"type": ["number", "string"], "description": "What is true, if you know it; the page shows it."},
            binary_data_output=_TRUE,
        ),
    ),
    "Response": _object(
        ["model_name", "model_version", "outputs"],
        model_name=_TEXT,
        model_version=_TEXT,
        id=_TEXT,
        parameters={"type": "object"},
        outputs=_list(_object(["name", "datatype", "shape"], name=_TEXT, datatype=_TEXT, shape=_list(_WHOLE))),
    ),
    "Streams": _object(["count", "live", "streams"], count=_WHOLE, live=_WHOLE, streams=_list(_TEXT)),
    "Stream": _object(["stream", "points", "state"], stream=_TEXT, points=_WHOLE, state={"type": "object"}),
    "Put": _object(["state"], state={"type": "object"}, stream=_TEXT, points=_WHOLE),
    "Taken": _object(["stream", "points"], stream=_TEXT, points=_WHOLE),
    "ReplayRequest": {
        **_object(
            running=_TRUE,
            speed={"type": "number", "minimum": 0.1, "maximum": 100},
            streams={"type": "integer", "minimum": 1, "maximum": 64},
        ),
        "additionalProperties": False,
    },
    "Replay": _object(
        ["model", "data", "running", "speed", "streams"],
        model=_TEXT,
        data=_TEXT,
        running=_TRUE,
        speed=_NUMBER,
        streams=_WHOLE,
        series=_WHOLE,
    ),
}
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


def _operation(
    about: str,
    found: Any = None,
    *,
    refusals: tuple[int, ...] = (),
    body: Any = None,
    status: int = 200,
    media: str = _JSON,
) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done."}
    if found is not None:
        good["content"] = {media: {"schema": found}}
    content = {_JSON: {"schema": _ref("Error")}}
    responses = {str(status): good} | {
        str(code): {"description": _REFUSALS[code], "content": content} for code in sorted({401, 403, *refusals})
    }
    operation: dict[str, Any] = {"summary": about, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": body}}}
    return operation


def _parameter(name: str, schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def document(models: list[str]) -> dict[str, Any]:
    """The OpenAPI document of a service with these models.

    >>> document(["hearts"])["paths"]["/v2/models/{model}"]["parameters"][0]["schema"]["enum"]
    ['hearts']
    """
    infer = _operation(
        "Predict for whole series, or push points to a stream and predict",
        _ref("Response"),
        refusals=(400, 404, 409, 413, 415, 429, 503),
        body=_ref("Request"),
    )
    infer["responses"]["200"]["content"][_BYTES] = {"schema": {"type": "string", "format": "binary"}}
    one: dict[str, Any] = {
        "": {"get": _operation("What a model takes and gives", _ref("Model"), refusals=(404,))},
        "/ready": {"get": _operation("Whether a model is ready", refusals=(404, 503))},
        "/config": {
            "get": _operation("A model's limits, as Triton's clients ask for them", _ref("Config"), refusals=(404,))
        },
        "/infer": {"post": infer},
    }
    name = _parameter("model", {"type": "string", "enum": models})
    version = _parameter("version", {"type": "string", "enum": ["1"]})
    stream = _parameter("stream", {"type": "string", "minLength": 1, "maxLength": 200})
    text = {"type": "string"}
    streams = {
        "get": _operation("The state of a stream, to move it", _ref("Stream"), refusals=(400, 404, 409, 429, 503)),
        "put": _operation("A stream from a state", _ref("Taken"), refusals=(400, 404, 413, 429, 503), body=_ref("Put")),
        "delete": _operation("End a stream", status=204, refusals=(400, 404, 429, 503)),
    }
    paths: dict[str, Any] = {
        "/v2": {"get": _operation("The service", _ref("Server"))},
        "/v2/health/live": {"get": _operation("Whether the service runs", refusals=(503,))},
        "/v2/health/ready": {"get": _operation("Whether everything is compiled", refusals=(503,))},
        "/v2/repository/index": {
            "post": _operation("The models, as Triton's clients ask for them", _ref("Index"), refusals=(413,))
        },
    }
    for suffix, item in one.items():
        paths["/v2/models/{model}" + suffix] = {"parameters": [name], **item}
        paths["/v2/models/{model}/versions/{version}" + suffix] = {"parameters": [name, version], **item}
    paths |= {
        "/v2/models/{model}/streams": {
            "parameters": [name],
            "get": _operation("Which streams there are", _ref("Streams"), refusals=(404,)),
        },
        "/v2/models/{model}/streams/{stream}": {"parameters": [name, stream], **streams},
        "/metrics": {"get": _operation("Metrics, for Prometheus", text, media="text/plain")},
        "/replay": {
            "get": _operation("The replay", _ref("Replay"), refusals=(404,)),
            "post": _operation(
                "Start, pause or change it", _ref("Replay"), refusals=(400, 404, 413), body=_ref("ReplayRequest")
            ),
        },
    }
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
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }
