"""A service in this process, with a model that is a sum: what tests of the service need, without compiling anything."""

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from neuralrde.estimators.inputs import InputDescription
from neuralrde.estimators.targets import TargetCoding
from neuralrde.online import StreamBatch
from neuralrde.tools.serving import Limits, Service, create_app
from neuralrde.transforms import Resample

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it asks for the next httpx
    from starlette.testclient import TestClient, WebSocketDenialResponse

__all__ = ["Client", "Tiny", "WebSocketDenialResponse", "asked", "predicted", "serving"]
MOST = 1e100  # beyond it there is no prediction


def predicted(values: Any, times: Any = None) -> float:
    """What the model predicts. Each point and its place count, and each time."""
    points = np.nan_to_num(np.asarray(values, float))
    clock = np.arange(len(points)) if times is None else np.asarray(times)
    return float((points * np.arange(1, len(points) + 1)[:, None]).sum() + clock.sum())


class FittedSum:
    """What a regressor has learned, as far as streams and the service look at it."""

    inputs, targets = InputDescription(("x0", "x1"), 2), TargetCoding(1, one_dimensional=True)
    transform, members = Resample(), 1
    scores = threshold = neural_model = windows = blend = None
    model: ClassVar = {"weight": np.ones(1)}

    @property
    def closed_form(self) -> "FittedSum":
        return self

    def blended(self, neural: None, closed: np.ndarray) -> np.ndarray:
        return closed

    def one_per_series(self, outputs: np.ndarray) -> np.ndarray:
        return outputs

    def whole_outputs(self, series: Any, static: None = None) -> np.ndarray:
        found = np.zeros((len(series), 1))
        for k, length in enumerate(series.lengths):
            values = series.values[k, :length]
            found[k] = predicted(values, None if series.times is None else series.times[k, :length])
            if np.nanmax(np.abs(values)) > MOST:
                found[k] = np.inf
        return found

    def predictions(self, outputs: np.ndarray, interval: None = None) -> np.ndarray:
        return outputs[:, 0]


class Tiny:
    """A fitted regressor."""

    fitted_ = FittedSum()

    def streams(self, *, last: int | None = None) -> StreamBatch:
        return StreamBatch(self.fitted_, last=last)


@contextlib.contextmanager
def serving(state: Path | None = None, *, token: str | None = None, **limits: Any) -> Iterator["Client"]:
    """The service of this model, by the name of `m`, while the block runs."""
    service = Service({"m": Tiny()}, state=state, limits=Limits(**{"batch": 8, **limits}))
    with TestClient(create_app(service, token=token), base_url="http://localhost") as http:
        service.engine.ready.wait(30)
        yield Client(service, http)


class Client(SimpleNamespace):
    """Asks the service by REST and WebSocket."""

    def __init__(self, service: Service, http: TestClient):
        super().__init__(service=service, http=http)

    def infer(self, values: Any, *, outputs: Any = (), times: Any = None, shape: Any = None, **parameters: Any):
        """Status and body of a push, or of a whole series."""
        array = np.asarray(values, float)
        tensor = lambda name, x, shape: {
            "name": name, "shape": shape, "datatype": "FP64", "data": np.ravel(np.asarray(x, float)).tolist()
        }  # fmt: skip
        inputs = [tensor("values", array, shape or [1, *array.shape])]
        inputs += [] if times is None else [tensor("times", times, [1, len(times)])]
        body = {"inputs": inputs, "parameters": parameters, "outputs": [{"name": name} for name in outputs]}
        response = self.http.post("/v2/models/m/infer", content=json.dumps(body))
        return response.status_code, response.json()

    def points(self, name: str) -> int | None:
        """Of a stream; None if there is none."""
        found = self.http.get(f"/v2/models/m/streams/{name}")
        return found.json()["points"] if found.status_code == 200 else None

    def socket(self, headers: dict[str, str] | None = None):
        return self.http.websocket_connect("ws://localhost/v2/models/m/streams", headers=headers or {})


def asked(socket: Any, message: Any) -> Any:
    """The answer to a message, or to a list of them."""
    if isinstance(message, bytes):
        socket.send_bytes(message)
    else:
        socket.send_text(json.dumps(message))
    return socket.receive_json()
