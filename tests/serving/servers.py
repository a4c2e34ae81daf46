"""Real servers in processes of their own, and what tests ask them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Server:
    """A service that runs."""

    process: subprocess.Popen
    url: str
    log: Path
    token: str | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return self.url.removeprefix("http://")

    def ask(self, path: str, body: Any = None, *, method: str | None = None, headers: dict | None = None):
        """Status, headers and JSON of a response, errors too."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        token = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.url + path, data, {**token, **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, response.headers, _parsed(response.read())
        except urllib.error.HTTPError as error:
            return error.code, error.headers, _parsed(error.read())

    def infer(self, model: str, values: Any, **parameters: Any):
        """Status and the outputs by name, or the error."""
        array = np.asarray(values, float)
        data = [None if x != x else x for x in array.ravel().tolist()]
        tensor = {"name": "values", "shape": list(array.shape), "datatype": "FP64", "data": data}
        status, _, found = self.ask(f"/v2/models/{model}/infer", {"inputs": [tensor], "parameters": parameters})
        return status, {one["name"]: one["data"] for one in found["outputs"]} if status == 200 else found["error"]

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        _, _, text = self.ask("/metrics")
        lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def wait(self, seconds: float = 120) -> None:
        """Until it is ready."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.process.poll() is None, self.log.read_text("utf-8")
            with contextlib.suppress(OSError):
                if self.ask("/v2/health/ready")[0] == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"not ready after {seconds} s: {self.log.read_text('utf-8')}")

    def end(self, how: int = signal.SIGTERM) -> None:
        """Stop it, and wait until it has gone."""
        self.process.send_signal(how)
        self.process.wait(30)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def start(folder: Path, *arguments: Any, port: int = 0, token: str | None = None, ready: bool = True) -> Server:
    """A server of these arguments; it writes into a log in the folder."""
    log = folder / f"server-{time.monotonic_ns()}.log"
    environment = {name: value for name, value in os.environ.items() if name != "NEURALRDE_TOKEN"}
    environment |= {"PYTHONUNBUFFERED": "1"} | ({} if token is None else {"NEURALRDE_TOKEN": token})
    command = [sys.executable, "-m", "neuralrde", "serve", *map(str, arguments), "--port", str(port)]
    with open(log, "w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    until = time.monotonic() + 180  # on a machine with much else to do
    while "http://" not in log.read_text("utf-8"):
        assert process.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < until, log.read_text("utf-8")
        time.sleep(0.05)
    url = next(word for word in log.read_text("utf-8").split() if word.startswith("http://"))
    server = Server(process, url, log, token)
    if ready:
        server.wait()
    return server


@contextlib.contextmanager
def running(folder: Path, *arguments: Any, **options: Any) -> Iterator[Server]:
    """A server, while the block runs."""
    server = start(folder, *arguments, **options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait(30)
