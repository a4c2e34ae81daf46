"""What is known of a series as a whole, and explanations, asked of a real server."""

import asyncio
import json
import signal

import numpy as np
import pytest
from websockets.asyncio.client import connect

from neuralrde import LogSignatureClassifier

from .conftest import walks
from .servers import start

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("beside")]


@pytest.fixture(scope="module")
def stays(tmp_path_factory):
    """A model in closed form, fitted with a table, in a file; and what it was fitted to."""
    X, rng = walks(80, 40), np.random.default_rng(0)
    table = {"sex": rng.choice(["f", "m"], 80), "age": rng.normal(60, 10, 80)}
    ill = np.where((table["sex"] == "m") & (X[:, -1, 0] > -0.5), "ill", "well")
    file = tmp_path_factory.mktemp("beside") / "stays.nrde"
    model = LogSignatureClassifier(draws=8).fit(X, ill, static=table)
    model.save(file)
    return model, file


def test_a_stream_with_a_table_survives_and_is_explained(stays, tmp_path):
    model, file = stays
    [x] = walks(1, 60, seed=3)
    known = {"sex": "m", "age": None}
    server = start(tmp_path, file, "--state", tmp_path / "state")
    try:
        expected = lambda end: model.predict_proba(x[None, :end], static={"sex": ["m"]})[0]
        status, found = server.infer("stays", x[None, :20], sequence_id=7, sequence_start=True, static=known)
        assert status == 200
        np.testing.assert_allclose(found["probabilities"], expected(20), rtol=1e-9)
        assert server.infer("stays", x[None, 20:30], sequence_id=7)[0] == 200
        server.end(signal.SIGKILL)
        server = start(tmp_path, file, "--state", tmp_path / "state")
        status, found = server.infer("stays", x[None, 30:], sequence_id=7)
        np.testing.assert_allclose(found["probabilities"], expected(60), rtol=1e-9)

        # Nothing new is pushed: it only explains what is there.
        tensor = {"name": "values", "shape": [1, 0, 2], "datatype": "FP64", "data": []}
        asked = {"inputs": [tensor], "parameters": {"sequence_id": 7, "explain": True}}
        _, _, found = server.ask("/v2/models/stays/infer", asked)
        [said] = found["parameters"]["explanations"]
        offline = model.explain(x[None], bins=12, static={"sex": ["m"]})
        assert (said["output"], len(said["times"])) == ("well", 13)
        assert set(said["contributions"]) <= set(offline.channels)
        for name, parts in said["contributions"].items():
            place = offline.channels.index(name)
            np.testing.assert_allclose(parts, offline.contributions[0, place, :, 0], rtol=1e-9, atol=1e-12)
        total = sum(map(sum, said["contributions"].values()))
        np.testing.assert_allclose(total, said["value"] - said["baseline"], rtol=1e-5)  # to rounding, in float32

        async def by_websocket():
            async with connect(server.url.replace("http", "ws") + "/v2/models/stays/streams") as socket:
                message = {"stream": "a", "values": x.tolist(), "static": known, "explain": True, "answer": True}
                await socket.send(json.dumps(message))
                return json.loads(await socket.recv())

        assert asyncio.run(by_websocket())["explanation"] == said
    finally:
        server.end()


def test_whole_series_and_refusals(stays, tmp_path):
    model, file = stays
    X = walks(2, 30, seed=4)
    server = start(tmp_path, file)
    try:
        known = [{"sex": "m", "age": 70}, {"sex": "f"}]
        status, found = server.infer("stays", X, static=known)
        assert status == 200
        offline = model.predict_proba(X, static={"sex": ["m", "f"], "age": [70, np.nan]})
        np.testing.assert_allclose(found["probabilities"], offline.ravel(), rtol=1e-9)
        begin = {"sequence_id": "p", "sequence_start": True}
        for parameters, what in (
            (begin, "no static"),
            (begin | {"static": {"aeg": 1}}, "'aeg'"),
            (begin | {"static": {"age": "old"}}, "'old'"),
            (begin | {"static": known}, "a list"),
            ({"static": known[:1]}, "another number than 2"),
        ):
            values = X if "sequence_id" not in parameters else X[:1]
            status, error = server.infer("stays", values, **parameters)
            assert (status, what in error) == (400, True), error
        assert server.infer("stays", X[:1], **begin, static={})[0] == 200  # nothing is known of it
        again = server.infer("stays", X[:1], sequence_id="p", static={"sex": "f"})
        assert again[0] == 400
        assert "has begun" in again[1]
        assert server.ask("/v2/models/stays")[2]["parameters"]["static"] == ["sex", "age"]
    finally:
        server.end()
