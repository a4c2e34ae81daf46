"""The REST side of a real server, asked by a client that nobody here wrote: NVIDIA's `tritonclient`."""

import itertools
import json
import time

import numpy as np
import pytest
import tritonclient.http as triton

from .conftest import walks
from .servers import running

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("server")]

# Online and offline add the same numbers in another order, in float32: a few units in the last place of the largest.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.address) as client:
        yield client


def tensor(name: str, values: np.ndarray, *, binary: bool = True) -> triton.InferInput:
    found = triton.InferInput(
        name, values.shape, {"float32": "FP32", "float64": "FP64", "int64": "INT64"}[str(values.dtype)]
    )
    found.set_data_from_numpy(values, binary_data=binary)
    return found


def test_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("rate")
    assert client.is_model_ready("rate", model_version="1")
    assert not client.is_model_ready("absent")
    assert client.get_server_metadata()["extensions"] == ["sequence", "binary_tensor_data"]
    assert [one["name"] for one in client.get_model_repository_index()] == ["rate", "kind"]
    assert client.get_model_config("kind")["max_batch_size"] == 32
    about = client.get_model_metadata("rate")
    assert about["inputs"][0] == {"name": "values", "datatype": "FP64", "shape": [-1, -1, 2]}
    assert {one["name"] for one in about["outputs"]} == {"prediction", "points", "interval"}
    assert about["parameters"]["window"] == {"step": 16}


@pytest.mark.parametrize("binary", [True, False])
def test_whole_series_get_the_estimators_predictions(client, trained, binary):
    X = walks(5, 70, seed=1)
    wanted = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("prediction", "interval")]
    found = client.infer("rate", [tensor("values", X, binary=binary)], outputs=wanted)
    predicted, ends = trained.rate.predict(X, interval=0.9)
    assert np.allclose(found.as_numpy("prediction"), predicted, **TOLERANCE)
    assert np.allclose(found.as_numpy("interval"), ends, **TOLERANCE)
    found = client.infer("kind", [tensor("values", X.astype(np.float32), binary=binary)])
    assert np.allclose(found.as_numpy("probabilities"), trained.kind.predict_proba(X), **TOLERANCE)
    labels = [label.decode() if isinstance(label, bytes) else label for label in found.as_numpy("prediction")]
    assert labels == trained.kind.predict(X).tolist()


def test_series_of_different_lengths(client, trained):
    X, lengths = walks(3, 50, seed=2), np.array([50, 1, 33])
    found = client.infer("rate", [tensor("values", X), tensor("lengths", lengths)])
    offline = [trained.rate.predict(one[None, :length])[0] for one, length in zip(X, lengths, strict=True)]
    assert np.allclose(found.as_numpy("prediction"), offline, **TOLERANCE)
    assert found.as_numpy("points").tolist() == lengths.tolist()


def test_a_sequence_gets_what_the_whole_series_would(client, trained):
    [x] = walks(1, 100, seed=3)
    x[40:43, 1] = np.nan
    cuts = [0, 1, 18, 60, 100]
    for start, end in itertools.pairwise(cuts):
        part = tensor("values", x[None, start:end])
        found = client.infer("rate", [part], sequence_id=7, sequence_start=start == 0, sequence_end=end == 100)
        assert np.allclose(found.as_numpy("prediction"), trained.rate.predict(x[None, :end]), **TOLERANCE)
        assert found.as_numpy("points").tolist() == [end]
    with pytest.raises(triton.InferenceServerException, match="There is no stream '7'"):
        client.infer("rate", [part], sequence_id=7)


def test_start_begins_anew(server, trained):
    first, second = walks(2, 20, seed=4)
    server.infer("rate", first[None], sequence_id="anew", sequence_start=True)
    status, found = server.infer("rate", second[None], sequence_id="anew", sequence_start=True, sequence_end=True)
    assert (status, found["points"]) == (200, [20])
    assert np.allclose(found["prediction"], trained.rate.predict(second[None]), **TOLERANCE)


def test_sending_again_does_no_harm(server):
    [x] = walks(1, 30, seed=5)
    server.infer("rate", x[None, :20], sequence_id="again", sequence_start=True, at=0)
    _, once = server.infer("rate", x[None, 10:], sequence_id="again", at=10)
    _, twice = server.infer("rate", x[None, 10:], sequence_id="again", at=10)
    assert once == twice
    assert once["points"] == [30]
    status, told = server.infer("rate", x[None, 10:], sequence_id="again", at=31)
    assert status == 409
    assert "expected number 30 next" in told
    assert server.ask("/v2/models/rate/streams/again", method="DELETE")[0] == 204


def test_a_stream_moves_to_another_server(server, strict, trained):
    [x] = walks(1, 60, seed=6)
    server.infer("rate", x[None, :37], sequence_id="mover", sequence_start=True)
    status, _, taken = server.ask("/v2/models/rate/streams/mover")
    assert (status, taken["points"]) == (200, 37)
    assert len(json.dumps(taken)) < 5_000  # one point, one log-signature, one hidden vector
    status, _, found = strict.ask("/v2/models/rate/streams/moved", {"state": taken["state"]}, method="PUT")
    assert (status, found) == (200, {"stream": "moved", "points": 37})
    _, found = strict.infer("rate", x[None, 37:], sequence_id="moved", sequence_end=True)
    assert np.allclose(found["prediction"], trained.rate.predict(x[None]), **TOLERANCE)
    status, _, told = server.ask("/v2/models/kind/streams/mover", {"state": taken["state"]}, method="PUT")
    assert status == 400
    assert "not made by this model" in told["error"]
    assert server.ask("/v2/models/rate/streams/mover", method="DELETE")[0] == 204
    assert server.ask("/v2/models/rate/streams/mover")[0] == 404


@pytest.fixture(scope="module")
def strict(trained, tmp_path_factory):
    """A server that allows little."""
    flags = [
        "--idle",
        0.5,
        "--live",
        3,
        "--streams-per-client",
        6,
        "--points-per-second",
        10,
        "--message-bytes",
        20_000,
    ]
    with running(tmp_path_factory.mktemp("strict"), trained.files[0], *flags, "--batch", 8) as server:
        yield server


def test_idle_streams_rest_and_come_back_without_loss(strict, trained):
    X, names = walks(6, 50, seed=7), [f"s{k}" for k in range(6)]
    evicted, restored = (strict.metric(f"neuralrde_{name}_total") for name in ("evicted", "restored"))
    for name, x in zip(names, X, strict=True):
        strict.infer("rate", x[None, :20], sequence_id=name, sequence_start=True)
    until = time.monotonic() + 20
    while strict.metric("neuralrde_live") > 0 and time.monotonic() < until:
        time.sleep(0.1)
    assert strict.metric("neuralrde_evicted_total") - evicted >= 6
    assert strict.metric("neuralrde_kept") == 6
    for name, x in zip(names, X, strict=True):
        status, found = strict.infer("rate", x[None, 20:], sequence_id=name, sequence_end=True)
        assert (status, found["points"]) == (200, [50])
        assert np.allclose(found["prediction"], trained.rate.predict(x[None]), **TOLERANCE)
    assert strict.metric("neuralrde_restored_total") - restored >= 6
    assert strict.metric("neuralrde_kept") == 0


def test_limits(strict):
    [x] = walks(1, 100)
    assert strict.infer("rate", x[None], sequence_id="a", sequence_start=True)[0] == 200
    status, headers, told = strict.ask("/v2/models/rate/infer", infer_body(x[:50], sequence_id="a"))
    assert status == 429
    assert int(headers["Retry-After"]) >= 1
    assert "at most 10 per second" in told["error"]
    assert strict.infer("rate", walks(1, 101), sequence_id="a")[0] == 413  # more than ten seconds' worth
    names = "bcdef"
    for name in names:
        assert strict.infer("rate", x[None, :1], sequence_id=name, sequence_start=True)[0] == 200
    status, told = strict.infer("rate", x[None, :1], sequence_id="g", sequence_start=True)
    assert status == 429
    assert "6 streams already" in told
    status, _, told = strict.ask("/v2/models/rate/infer", b"x" * 20_001)
    assert status == 413
    assert "at most 20000" in told["error"]
    assert strict.metric("neuralrde_refused_total") >= 2
    assert strict.infer("rate", x[None, :1], sequence_id="b")[0] == 200  # others are not disturbed
    for name in "abcdef":
        assert strict.ask(f"/v2/models/rate/streams/{name}", method="DELETE")[0] == 204


def infer_body(values, **parameters):
    values = np.asarray(values)[None]
    given = {"name": "values", "shape": list(values.shape), "datatype": "FP64", "data": values.ravel().tolist()}
    return {"inputs": [given], "parameters": parameters}


@pytest.mark.parametrize(
    ("values", "parameters", "told"),
    [
        (np.zeros((1, 5, 3)), {}, "2 channels"),
        (np.zeros((1, 0, 2)), {}, "at least one point"),
        (np.zeros((2, 5, 2)), {"sequence_id": 3, "sequence_start": True}, "expected one"),
        (
            np.zeros((1, 5, 2)),
            {"sequence_id": True},
            "Expected `int | str`, got `bool` - at `$.parameters.sequence_id`",
        ),
        (np.zeros((1, 5, 2)), {"sequence_id": 3, "sequence_start": "yes"}, "Expected `bool`, got `str`"),
        (np.zeros((1, 5, 2)), {"sequence_id": "a\nb", "sequence_start": True}, "can be printed"),
        (
            np.zeros((1, 5, 2)),
            {"sequence_id": 3, "sequence_start": True, "at": -1},
            "Expected `int` >= 0 - at `$.parameters.at`",
        ),
        (np.zeros((1, 5, 2)), {"sequence_id": 3, "truth": [1]}, "Expected `float | str | null`, got `array`"),
        (np.zeros((1, 5, 2)), {"sequence_id": "never started"}, "Send `sequence_start`"),
    ],
)
def test_what_is_wrong_is_said(server, values, parameters, told):
    status, error = server.infer("rate", values, **parameters)
    assert status == 400
    assert told in error


def test_a_refused_first_push_leaves_no_stream(server):
    assert server.infer("rate", np.zeros((1, 5, 3)), sequence_id="none", sequence_start=True)[0] == 400
    assert server.ask("/v2/models/rate/streams/none")[0] == 404


def test_hostile_states_are_refused(server):
    for state in ({}, {"format": 99}, {"stream": "neuralrde", "format": 1, "points": -1}, {"a": [[1] * 100] * 100}):
        status, _, told = server.ask("/v2/models/rate/streams/hostile", {"state": state}, method="PUT")
        assert status == 400, told
    for body in (b"", b"[]", b'{"state": 3}', b"[" * 9999, b"\xff"):
        assert server.ask("/v2/models/rate/streams/hostile", body, method="PUT")[0] == 400
    assert server.ask("/v2/models/rate/streams/hostile")[0] == 404


def test_warm_latency_is_small_for_any_length(server):
    """Must not depend on the length having been seen: half of the lengths are new."""
    rng, times = np.random.default_rng(0), []
    for length in rng.permutation(np.arange(5, 605, 3)):
        x = walks(1, int(length))
        began = time.perf_counter()
        assert server.infer("rate", x)[0] == 200
        times.append(time.perf_counter() - began)
    # A compilation takes tens of milliseconds at least. Other tests share the cores, hence ten times what is usual.
    assert np.median(times) < 0.05
