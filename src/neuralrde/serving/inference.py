"""What requests of the Open Inference Protocol say of series and streams, and what responses say of predictions."""

from typing import Any

import numpy as np

from .errors import Refused
from .hosted import Hosted
from .jobs import Outcome
from .protocol import InferRequest, Output

VERSION = "1"


def metadata_of(hosted: Hosted) -> dict[str, Any]:
    """The protocol's description of a model, and what else a client may want to know of it."""
    kind = "BYTES" if hosted.classes is not None else "FP64"
    outputs = [("prediction", kind), ("points", "INT64")]
    outputs += [("probabilities", "FP64")] if hosted.classes is not None else []
    outputs += [("interval", "FP64")] if hosted.interval is not None else []
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
                    for name, type_ in outputs],
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
    answers = [outcome.answer or {} for outcome in outcomes]
    outputs = [Output("points", "INT64", np.array([outcome.points for outcome in outcomes], np.int64))]
    if not all(answers):  # a stream without a point has no prediction
        return outputs
    predictions = [one["prediction"] for one in answers]
    if hosted.classes is not None:
        outputs.insert(0, Output("prediction", "BYTES", np.array(predictions, object)))
        shares = np.array([list(one["probabilities"].values()) for one in answers])
        outputs.append(Output("probabilities", "FP64", shares))
        return outputs
    outputs.insert(0, Output("prediction", "FP64", np.array(predictions, np.float64)))
    if hosted.interval is not None:
        outputs.append(Output("interval", "FP64", np.array([one["interval"] for one in answers], np.float64)))
    return outputs


def inputs_of(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
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
    if values.ndim != 3 or (times is not None and times.shape != values.shape[:2]):
        raise Refused(
            400,
            f"Got values of shape {list(values.shape)}, times {None if times is None else list(times.shape)}; "
            "expected (series, length, channels), and one time per point.",
        )
    return values, times, arrays.get("lengths")


def sequence_of(asked: InferRequest) -> tuple[str, bool, bool] | None:
    """The stream's name, and whether it starts and ends; None for whole series. Triton's clients send 0 for none."""
    given = asked.parameters.get("sequence_id", 0)
    start, end = (asked.parameters.get(f"sequence_{what}", False) for what in ("start", "end"))
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise Refused(400, f"Got sequence_id={str(given)[:40]!r}; expected a number or a string.")
    if not (isinstance(start, bool) and isinstance(end, bool)):
        told = f"Got sequence_start={str(start)[:40]!r} and sequence_end={str(end)[:40]!r}"
        raise Refused(400, f"{told}; expected true or false.")
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
