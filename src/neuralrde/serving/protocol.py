"""The Open Inference Protocol (KServe and Triton, version 2): its tensors, and what they say of series and streams.

Tensors are JSON, or bytes after the JSON.

See https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol and Triton's extension for binary
data: the header `Inference-Header-Content-Length` says where the JSON ends; the tensors follow in the order in which
they are named.
"""

import math
from typing import Any

import msgspec
import numpy as np

from .errors import Refused
from .hosted import Hosted
from .jobs import Outcome

_TYPES = {
    "BOOL": "?",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
VERSION = "1"
HEADER = "Inference-Header-Content-Length"
_MOST_AXES = 3


class Tensor(msgspec.Struct):
    """An input; its data are here, or follow the JSON as bytes."""

    name: str
    shape: list[int]
    datatype: str
    data: msgspec.Raw = msgspec.Raw()
    parameters: dict[str, Any] = {}


class Wanted(msgspec.Struct):
    """An output that is asked for."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct):
    """The body of `infer`."""

    inputs: list[Tensor]
    id: str = ""
    parameters: dict[str, Any] = {}
    outputs: list[Wanted] = []


_REQUEST = msgspec.json.Decoder(InferRequest)
_DATA = {  # by the kind of a datatype and the number of axes; null is a missing value
    kind: [msgspec.json.Decoder(axes) for axes in (list[one], list[list[one]], list[list[list[one]]])]
    for kind, one in {"b": bool, "i": int, "u": int, "f": float | None}.items()
}


def parse(body: bytes, header_length: str | None) -> tuple[InferRequest, dict[str, np.ndarray]]:
    """A request, and its inputs as arrays."""
    json, rest = body, b""
    if header_length is not None:
        if not (header_length.isdecimal() and header_length.isascii() and int(header_length) <= len(body)):
            raise Refused(
                400,
                f"Got {HEADER}: {header_length[:40]!r}; expected a number up to {len(body)}, the bytes of the body.",
            )
        json, rest = body[: int(header_length)], body[int(header_length) :]
    try:
        request = _REQUEST.decode(json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"Got a body that is no inference request: {error}.") from None
    arrays = {}
    for tensor in request.inputs:
        if tensor.name in arrays:
            raise Refused(400, f"Got the input {tensor.name[:100]!r} twice; expected each once.")
        arrays[tensor.name], rest = _array(tensor, rest)
    if rest:
        raise Refused(400, f"Got {len(rest)} bytes after the last tensor; expected none.")
    return request, arrays


def _array(tensor: Tensor, rest: bytes) -> tuple[np.ndarray, bytes]:
    name, shape = tensor.name[:100], tensor.shape
    if tensor.datatype not in _TYPES:
        raise Refused(400, f"Got the datatype {tensor.datatype[:40]!r} of {name!r}; expected one of {list(_TYPES)}.")
    if not 1 <= len(shape) <= _MOST_AXES or any(side < 0 for side in shape):
        raise Refused(400, f"Got the shape {shape[:8]} of {name!r}; expected 1 to {_MOST_AXES} sizes, none below 0.")
    count, kind = math.prod(shape), np.dtype(_TYPES[tensor.datatype])
    size = tensor.parameters.get("binary_data_size")
    if size is not None:
        if type(size) is not int or size != count * kind.itemsize or size > len(rest):
            raise Refused(
                400,
                f"Got binary_data_size={str(size)[:40]} for {name!r} and {len(rest)} bytes; expected "
                f"{count * kind.itemsize}, because its shape is {shape} and its datatype {tensor.datatype}.",
            )
        return _shaped(np.frombuffer(rest, kind, count), shape, name), rest[size:]
    if not bytes(tensor.data):
        raise Refused(
            400, f"Got no data for {name!r}; expected `data`, or `binary_data_size` and bytes after the JSON."
        )
    values = _numbers(bytes(tensor.data), name, tensor.datatype)
    if values.size != count or (values.ndim > 1 and list(values.shape) != shape):
        raise Refused(400, f"Got data of shape {list(values.shape)} for {name!r}; expected {shape}, as `shape` says.")
    return _shaped(values, shape, name), rest


def _shaped(values: np.ndarray, shape: list[int], name: str) -> np.ndarray:
    try:
        return values.reshape(shape)
    except (ValueError, OverflowError):  # one side is 0, and the others are beyond all bounds
        raise Refused(400, f"Got the shape {shape} of {name!r}; expected sizes that an array can have.") from None


def _numbers(data: bytes, name: str, datatype: str) -> np.ndarray:
    """Numbers, flat or nested, which are what their datatype can hold."""
    depth = len(data) - len(data.lstrip(b"[ \t\r\n"))
    axes = min(max(data[:depth].count(b"["), 1), _MOST_AXES)
    kind = np.dtype(_TYPES[datatype])
    try:
        with np.errstate(over="raise"):
            return np.array(_DATA[kind.kind][axes - 1].decode(data), kind)
    except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError) as error:
        raise Refused(400, f"Got data of {name!r} that are no tensor of {datatype}: {error}.") from None


class Output(msgspec.Struct):
    """An output with its data."""

    name: str
    datatype: str
    values: np.ndarray


def respond(
    model: str, version: str, request: InferRequest, outputs: list[Output], parameters: dict[str, Any]
) -> tuple[bytes, dict[str, str]]:
    """Body and headers: outputs that were asked for as bytes follow the JSON."""
    wanted = {one.name: one.parameters for one in request.outputs}
    as_bytes = request.parameters.get("binary_data_output") is True
    tensors, blobs = [], []
    for output in outputs:
        if wanted and output.name not in wanted:
            continue
        tensor: dict[str, Any] = {"name": output.name, "datatype": output.datatype, "shape": list(output.values.shape)}
        if wanted.get(output.name, {}).get("binary_data", as_bytes) is True:
            blobs.append(_bytes(output))
            tensor["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            tensor["data"] = output.values.ravel().tolist()
        tensors.append(tensor)
    body: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": tensors}
    if request.id:
        body["id"] = request.id
    if parameters:
        body["parameters"] = parameters
    json = msgspec.json.encode(body)
    if not blobs:
        return json, {"Content-Type": "application/json"}
    return b"".join([json, *blobs]), {"Content-Type": "application/octet-stream", HEADER: str(len(json))}


def _bytes(output: Output) -> bytes:
    if output.datatype != "BYTES":
        return np.ascontiguousarray(output.values, _TYPES[output.datatype]).tobytes()
    words = [str(word).encode() for word in output.values.ravel()]
    return b"".join(len(word).to_bytes(4, "little") + word for word in words)


def output_types(hosted: Hosted) -> dict[str, str]:
    """What a model gives, and of which datatype."""
    found = {"prediction": "FP64" if hosted.classes is None else "BYTES", "points": "INT64"}
    if hosted.classes is not None:
        found["probabilities"] = "FP64"
    if hosted.interval is not None:
        found["interval"] = "FP64"
    return found


def check_outputs(hosted: Hosted, asked: InferRequest) -> None:
    """Refuse to give what the model has not."""
    there = output_types(hosted)
    strange = [one.name for one in asked.outputs if one.name not in there]
    if strange:
        raise Refused(400, f"Got the output {strange[0][:100]!r}; expected some of {list(there)}.")


def metadata_of(hosted: Hosted) -> dict[str, Any]:
    """The protocol's description of a model, and what else a client may want to know of it."""
    return {
        "name": hosted.name,
        "versions": [VERSION],
        "platform": "neuralrde",
        "inputs": [
            {"name": "values", "datatype": "FP64", "shape": [-1, -1, len(hosted.channels)]},
            {"name": "times", "datatype": "FP64", "shape": [-1, -1]},
            {"name": "lengths", "datatype": "INT64", "shape": [-1]},
        ],
        "outputs": [{"name": name, "datatype": type_, "shape": [-1] if name in ("points", "prediction") else [-1, -1]}
                    for name, type_ in output_types(hosted).items()],
        "parameters": {
            "estimator": type(hosted.estimator).__name__,
            "channels": hosted.channels,
            "classes": hosted.classes,
            "interval": hosted.interval,
            "window": hosted.window,
            "timed": hosted.timed,
            "streams": hosted.whole_only is None,
        },
    }  # fmt: skip


def outputs_of(hosted: Hosted, outcomes: list[Outcome]) -> list[Output]:
    """Tensors, one row per series."""
    found = [outcome.prediction or {} for outcome in outcomes]
    outputs = [Output("points", "INT64", np.array([outcome.points for outcome in outcomes], np.int64))]
    if not all(found):  # a stream without a point has no prediction
        return outputs
    predictions = [one["prediction"] for one in found]
    if hosted.classes is not None:
        outputs.insert(0, Output("prediction", "BYTES", np.array(predictions, object)))
        shares = np.array([list(one["probabilities"].values()) for one in found])
        outputs.append(Output("probabilities", "FP64", shares))
        return outputs
    outputs.insert(0, Output("prediction", "FP64", np.array(predictions, np.float64)))
    if hosted.interval is not None:
        outputs.append(Output("interval", "FP64", np.array([one["interval"] for one in found], np.float64)))
    return outputs


def inputs_of(arrays: dict[str, np.ndarray], channels: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Values, times and lengths, or a refusal."""
    strange = sorted(set(arrays) - {"values", "times", "lengths"})
    if strange or "values" not in arrays:
        raise Refused(
            400,
            f"Got the inputs {[name[:40] for name in arrays][:8]}; expected `values`, and perhaps `times`, `lengths`.",
        )
    values, times = np.asarray(arrays["values"], np.float64), arrays.get("times")
    values = values[None] if values.ndim == 2 else values
    times = None if times is None else np.asarray(times, np.float64)
    times = times[None] if times is not None and times.ndim == 1 else times
    if values.ndim != 3 or values.shape[2] != channels or (times is not None and times.shape != values.shape[:2]):
        raise Refused(
            400,
            f"Got values of shape {list(values.shape)}, times {None if times is None else list(times.shape)}; "
            f"expected (series, length, {channels}), as the model has {channels} channels, and one time per point.",
        )
    return values, times, arrays.get("lengths")


def sequence_of(asked: InferRequest) -> tuple[str, bool, bool] | None:
    """The stream's name, and whether it starts and ends; None for whole series. Triton's clients send 0 for none."""
    given = asked.parameters.get("sequence_id", 0)
    start, end = (asked.parameters.get(f"sequence_{what}", False) for what in ("start", "end"))
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise Refused(400, f"Got sequence_id={str(given)[:40]!r}; expected a number or a string.")
    if not (isinstance(start, bool) and isinstance(end, bool)):
        got = f"Got sequence_start={str(start)[:40]!r} and sequence_end={str(end)[:40]!r}"
        raise Refused(400, f"{got}; expected true or false.")
    return None if given in (0, "") else (str(given), start, end)


def number_of(asked: InferRequest, name: str) -> int | None:
    """A parameter that is a whole number."""
    value = asked.parameters.get(name)
    if value is not None and (type(value) is not int or value < 0):
        raise Refused(400, f"Got {name}={str(value)[:40]!r}; expected a whole number, not below 0.")
    return value


def truth_of(asked: InferRequest) -> float | str | None:
    """What the client knows to be true."""
    value = asked.parameters.get("truth")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float | str)):
        raise Refused(400, f"Got truth={str(value)[:40]!r}; expected a number or a string.")
    return value
