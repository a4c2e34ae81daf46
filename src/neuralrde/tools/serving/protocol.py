"""The Open Inference Protocol (KServe and Triton, version 2): its messages, and what they say of series and streams.

Tensors are JSON, or bytes after the JSON. The OpenAPI document is made from the messages' types.

See https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol and Triton's extension for binary
data: the header `Inference-Header-Content-Length` says where the JSON ends; the tensors follow in the order in which
they are named.
"""

import math
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from ..._write import Values
from .jobs import USUAL, Ahead, Job
from .limits import wrong
from .served import ServedModel

VERSION = "1"
HEADER = "Inference-Header-Content-Length"
_TYPES = {
    "BOOL": "?", "INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "<u1", "UINT16": "<u2",
    "UINT32": "<u4", "UINT64": "<u8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_MOST_AXES, _MOST_TIMES = 3, 1_000
_Static = dict[str, float | str | bool | None]
_Number = Annotated[int, Meta(ge=0)]
_Times = Annotated[
    list[float], Meta(min_length=1, max_length=_MOST_TIMES, description="Of a forecast, after the last point.")
]
_Span = Annotated[float, Meta(gt=0, description="How far ahead a forecast reaches.")]
_Data = Annotated[
    msgspec.Raw,
    Meta(extra_json_schema={
        "type": "array", "description": "Numbers, flat or nested as in `shape`; null is a missing value."
    }),
]  # fmt: skip


# What clients send.


class InputParameters(Struct):
    binary_data_size: _Number | None = None


class Input(Struct):
    """A tensor; its data are here, or follow the JSON as bytes."""

    name: Literal["values", "times", "lengths"]
    shape: Annotated[list[_Number], Meta(min_length=1, max_length=_MOST_AXES)]
    datatype: Literal[
        "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64"
    ]
    data: _Data = msgspec.field(default_factory=msgspec.Raw)
    parameters: InputParameters = msgspec.field(default_factory=InputParameters)


class WantedParameters(Struct):
    binary_data: bool | None = None


class Wanted(Struct):
    """An output that is asked for."""

    name: str
    parameters: WantedParameters = msgspec.field(default_factory=WantedParameters)


class Parameters(Struct):
    sequence_id: Annotated[int | str, Meta(description="The stream; 0 or none for whole series.")] = 0
    sequence_start: bool = False
    sequence_end: bool = False
    at: Annotated[_Number | None, Meta(description="The number of the first point, to send it safely again.")] = None
    truth: Annotated[float | str | None, Meta(description="What is true, if you know it; the page shows it.")] = None
    static: Annotated[
        _Static | list[_Static] | None,
        Meta(description="What is known of a stream as a whole, with its start; or of each whole series."),
    ] = None
    explain: Annotated[bool, Meta(description="Say what each channel contributed; of a closed form.")] = False
    times: _Times | None = None
    horizon: _Span | None = None
    binary_data_output: bool = False


class Request(Struct):
    """The body of `infer`."""

    inputs: Annotated[list[Input], Meta(min_length=1)]
    id: str = ""
    parameters: Parameters = msgspec.field(default_factory=Parameters)
    outputs: list[Wanted] = []

    @property
    def ahead(self) -> Ahead:
        return Ahead(self.parameters.times, self.parameters.horizon)

    @property
    def stream(self) -> str | None:
        """The stream's name; None for whole series. Triton's clients send 0 for none."""
        given = self.parameters.sequence_id
        return None if given in (0, "") else str(given)


class Put(Struct):
    """A stream as GET gives it; only its state is read."""

    state: Values
    stream: str = ""
    points: int = 0


# What they get.


class Error(Struct):
    error: str


class Server(Struct):
    name: str
    version: str
    extensions: list[str]


class Tensor(Struct):
    name: str
    datatype: str
    shape: list[int]


class Model(Struct):
    name: str
    versions: list[str]
    platform: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    parameters: Values


class Config(Struct):
    name: str
    platform: str
    max_batch_size: int
    sequence_batching: dict[str, int]


class Indexed(Struct):
    name: str
    version: str
    state: str


class OutputTensor(Tensor, omit_defaults=True):
    data: list[Any] | None = None
    parameters: dict[str, int] = {}


class Response(Struct, omit_defaults=True):
    model_name: str
    model_version: str
    outputs: list[OutputTensor]
    id: str = ""
    parameters: Values = {}


class Streams(Struct):
    count: int
    live: int
    streams: list[str]


class Stream(Struct):
    stream: str
    points: int
    state: Values


class Taken(Struct):
    stream: str
    points: int


_REQUEST = msgspec.json.Decoder(Request)
_DATA = {  # by the kind of a datatype and the number of axes; null is a missing value
    kind: [msgspec.json.Decoder(axes) for axes in (list[one], list[list[one]], list[list[list[one]]])]
    for kind, one in {"b": bool, "i": int, "u": int, "f": float | None}.items()
}


def parse(body: bytes, header_length: str | None) -> tuple[Request, dict[str, np.ndarray]]:
    """A request, and its inputs as arrays."""
    most = len(body)
    size = str(most) if header_length is None else header_length
    if not (size.isdecimal() and size.isascii() and len(size) < 20 and int(size) <= most):
        raise wrong(f"Got {HEADER}: {size[:40]!r}; expected a number up to {most}, the bytes of the body.")
    try:
        request, rest = _REQUEST.decode(body[: int(size)]), body[int(size) :]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise wrong(f"Got a body that is no inference request: {error}.") from None
    arrays = {}
    for tensor in request.inputs:
        if tensor.name in arrays:
            raise wrong(f"Got the input {tensor.name!r} twice; expected each once.")
        arrays[tensor.name], rest = _array(tensor, rest)
    if rest:
        raise wrong(f"Got {len(rest)} bytes after the last tensor; expected none.")
    return request, arrays


def _array(tensor: Input, rest: bytes) -> tuple[np.ndarray, bytes]:
    """A tensor's numbers, from its `data` or from the bytes, and the bytes that are left."""
    name, shape, kind = tensor.name, tensor.shape, np.dtype(_TYPES[tensor.datatype])
    count, size, data = math.prod(shape), tensor.parameters.binary_data_size, bytes(tensor.data)
    if size is not None:
        if size != count * kind.itemsize or size > len(rest):
            raise wrong(
                f"Got binary_data_size={size} for {name!r} and {len(rest)} bytes; expected {count * kind.itemsize}, "
                f"because its shape is {shape} and its datatype {tensor.datatype}."
            )
        values, rest = np.frombuffer(rest, kind, count), rest[size:]
    elif not data:
        raise wrong(f"Got no data for {name!r}; expected `data`, or `binary_data_size` and bytes after the JSON.")
    else:
        depth = data[: len(data) - len(data.lstrip(b"[ \t\r\n"))].count(b"[")  # flat or nested
        decoder = _DATA[kind.kind][min(max(depth, 1), _MOST_AXES) - 1]
        try:
            with np.errstate(over="raise"):
                values = np.array(decoder.decode(data), kind)
        except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError) as error:
            raise wrong(f"Got data of {name!r} that are no tensor of {tensor.datatype}: {error}.") from None
        if values.size != count or (values.ndim > 1 and list(values.shape) != shape):
            got = f"Got data of shape {list(values.shape)} for {name!r}"
            raise wrong(f"{got}; expected {shape}, as `shape` says.")
    try:
        return values.reshape(shape), rest
    except (ValueError, OverflowError):  # one side is 0, and the others are beyond all bounds
        raise wrong(f"Got the shape {shape} of {name!r}; expected sizes that an array can have.") from None


def inputs_of(arrays: dict[str, np.ndarray], channels: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Values `(series, length, channels)`, times and lengths, or an error."""
    if "values" not in arrays:
        raise wrong(f"Got the inputs {list(arrays)}; expected `values`, and perhaps `times`, `lengths`.")
    values, times = np.asarray(arrays["values"], np.float64), arrays.get("times")
    values = values[None] if values.ndim == 2 else values
    if times is not None:
        times = np.asarray(times, np.float64)
        times = times[None] if times.ndim == 1 else times
    if values.ndim != 3 or values.shape[2] != channels or (times is not None and times.shape != values.shape[:2]):
        raise wrong(
            f"Got values of shape {list(values.shape)}, times {None if times is None else list(times.shape)}; "
            f"expected (series, length, {channels}), as the model has {channels} channels, and one time per point."
        )
    return values, times, arrays.get("lengths")


def output_types(served: ServedModel) -> dict[str, str]:
    """The outputs of a model, and their datatypes."""
    if served.forecasts:
        ends = {} if served.interval is None else {"interval": "FP64"}
        return {"forecast": "FP64", "times": "FP64", "points": "INT64"} | ends
    if served.classes is not None:
        return {"prediction": "BYTES", "points": "INT64", "probabilities": "FP64"}
    return {"prediction": "FP64", "points": "INT64"} | ({} if served.interval is None else {"interval": "FP64"})


def check_outputs(served: ServedModel, request: Request) -> None:
    """Refuse to give what the model has not."""
    if request.ahead != USUAL and not served.forecasts:
        raise wrong(f"Got times or a horizon for {served.name!r}, which makes no forecasts; expected neither.")
    there = output_types(served)
    for output in request.outputs:
        if output.name not in there:
            raise wrong(f"Got the output {output.name[:100]!r}; expected some of {list(there)}.")


def metadata_of(served: ServedModel) -> Model:
    """The protocol's description of a model, and what else a client may want to know of it."""
    return Model(
        served.name,
        [VERSION],
        "neuralrde",
        [
            Tensor("values", "FP64", [-1, -1, len(served.channels)]),
            Tensor("times", "FP64", [-1, -1]),
            Tensor("lengths", "INT64", [-1]),
        ],
        [Tensor(name, kind, [-1] * _axes(served, name)) for name, kind in output_types(served).items()],
        {
            "estimator": type(served.estimator).__name__,
            "channels": served.channels,
            "static": served.static,
            "classes": served.classes,
            "interval": served.interval,
            "window": served.window,
            "timed": served.timed,
            "ahead": served.ahead,
            "streams": served.whole_only is None,
        },
    )


def _axes(served: ServedModel, name: str) -> int:
    if served.forecasts:
        return {"forecast": 3, "times": 2, "interval": 4}.get(name, 1)
    return 1 if name in ("points", "prediction") else 2


def outputs_of(served: ServedModel, jobs: list[Job]) -> dict[str, np.ndarray]:
    """Outputs by name, one row per series; only `points` of a stream that has none, and so no prediction."""
    outputs: dict[str, np.ndarray] = {"points": np.array([job.points for job in jobs], np.int64)}
    answers = [job.prediction for job in jobs if job.prediction is not None]
    if len(answers) == len(jobs) and served.forecasts:
        if len({len(answer.times or ()) for answer in answers}) > 1:
            raise wrong("Got series whose forecasts have different numbers of times; expected one, or `times`.")
        outputs |= {name: np.array([getattr(answer, name) for answer in answers], np.float64)
                    for name in ("forecast", "times", "interval") if name in output_types(served)}  # fmt: skip
    elif len(answers) == len(jobs):
        outputs["prediction"] = np.array([answer.prediction for answer in answers], object)
        if served.classes is not None:
            outputs["probabilities"] = np.array([list((answer.probabilities or {}).values()) for answer in answers])
        elif served.interval is not None:
            outputs["interval"] = np.array([answer.interval for answer in answers], np.float64)
    return {name: outputs[name] for name in output_types(served) if name in outputs}


def respond(
    model: str, request: Request, types: dict[str, str], outputs: dict[str, np.ndarray], parameters: Values
) -> tuple[bytes, dict[str, str]]:
    """Body and headers: outputs that were asked for as bytes follow the JSON."""
    wanted = {output.name: output.parameters.binary_data for output in request.outputs}
    tensors, blobs = [], []
    for name, values in outputs.items():
        if wanted and name not in wanted:
            continue
        tensor, as_bytes = OutputTensor(name, types[name], list(values.shape)), wanted.get(name)
        if request.parameters.binary_data_output if as_bytes is None else as_bytes:
            blobs.append(_bytes(values, tensor.datatype))
            tensor.parameters = {"binary_data_size": len(blobs[-1])}
        else:
            tensor.data = values.ravel().tolist()
        tensors.append(tensor)
    json = msgspec.json.encode(Response(model, VERSION, tensors, request.id, parameters))
    if not blobs:
        return json, {"Content-Type": "application/json"}
    return b"".join([json, *blobs]), {"Content-Type": "application/octet-stream", HEADER: str(len(json))}


def _bytes(values: np.ndarray, datatype: str) -> bytes:
    if datatype != "BYTES":
        return np.ascontiguousarray(values, _TYPES[datatype]).tobytes()
    words = [str(word).encode() for word in values.ravel()]
    return b"".join(len(word).to_bytes(4, "little") + word for word in words)
