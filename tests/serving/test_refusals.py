"""A request that is refused has changed nothing: in memory, on the disk, by REST and by WebSocket."""

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from .tiny import asked, predicted, serving

TEN = np.arange(20.0).reshape(10, 2)


@pytest.fixture(scope="module")
def client():
    with serving() as found:
        yield found


@pytest.fixture
def begun(client):
    """A stream of ten points."""
    assert client.infer(TEN, sequence_id="s", sequence_start=True)[0] == 200
    return client


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (400, {"outputs": ["nonsense"]}),
        (400, {"outputs": ["nonsense"], "sequence_end": True}),
        (409, {"sequence_start": True, "at": 5}),
        (400, {"sequence_start": True, "values": np.zeros((3, 3))}),
        (400, {"sequence_start": True, "values": np.full((3, 2), 1e200)}),
        (400, {"sequence_start": True, "values": np.zeros((2, 2)), "times": [2.0, 1.0]}),
        (400, {"sequence_start": True, "values": np.zeros((0, 2))}),
        (400, {"values": np.full((3, 2), 1e200)}),
        (400, {"values": np.full((3, 2), 1e200), "sequence_end": True}),
    ],
)
def test_rest(begun, status, request_):
    found, told = begun.infer(**{"values": TEN, "sequence_id": "s", **request_})
    assert (found, "error" in told) == (status, True)
    assert begun.points("s") == 10
    status, found = begun.infer(np.ones((1, 2)), sequence_id="s")
    assert found["outputs"][0]["data"] == [predicted([*TEN, [1, 1]])]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, {"start": True, "values": [[1.0, 2.0, 3.0]]}),
        (400, {"start": True}),
        (409, {"start": True, "at": 5, "values": [[1.0, 2.0]]}),
        (409, {"start": True, "at": 5, "values": [[1.0, 2.0]], "end": True}),
        (400, {"values": [[1e200, 0.0]]}),
        (400, {"values": [[1e200, 0.0]], "end": True}),
        (400, {"values": [[1.0, 0.0]], "times": [1.0], "end": True}),
        (400, {"at": -3, "values": [[1.0, 2.0]] * 10}),
    ],
)
def test_websocket(begun, status, message):
    with begun.socket() as socket:
        assert asked(socket, {"stream": "s", **message})["status"] == status
        assert asked(socket, {"stream": "s"})["points"] == 10
        found = asked(socket, {"stream": "s", "values": [[1.0, 1.0]]})
    assert found["prediction"] == predicted([*TEN, [1, 1]])


@pytest.mark.parametrize("message", [{"at": 7, "values": [[1.0, 2.0]]}, {"start": True}, {"values": [[1e200, 1.0]]}])
def test_a_refused_first_push_leaves_no_stream(client, message):
    with client.socket() as socket:
        assert asked(socket, {"stream": "ghost", **message})["status"] in (400, 409)
        assert client.points("ghost") is None
        assert client.service.models["m"].known.keys() <= {"s"}


def test_a_state_without_points_is_no_stream(client):
    state = client.service.models["m"].estimator.streams()
    state.open("a")
    response = client.http.put("/v2/models/m/streams/empty", json={"state": state.state("a")})
    assert response.status_code == 400
    assert client.points("empty") is None


def test_a_retry_with_times_goes_on_where_it_was(client):
    values, times = np.arange(8.0).reshape(4, 2), [0.5, 1.0, 4.0, 4.5]
    client.infer(values[:3], times=times[:3], sequence_id="timed", sequence_start=True)
    _, found = client.infer(values[1:], times=times[1:], sequence_id="timed", at=1, sequence_end=True)
    assert found["outputs"][0]["data"] == [predicted(values, times)]


class Requests(RuleBasedStateMachine):
    """Random requests, right and wrong, beside a plain dict of what should be there: points and their times."""

    names = st.sampled_from(["a", "b", "c"])
    sizes = st.integers(0, 4)

    def __init__(self):
        super().__init__()
        self.open = contextlib.ExitStack()
        self.folder = Path(self.open.enter_context(tempfile.TemporaryDirectory()))
        self.model: dict[str, tuple[list, list | None]] = {}
        self.ended: dict[str, tuple[int, float]] = {}
        self.count = 0.0
        self.run()

    def run(self):
        self.service = contextlib.ExitStack()
        self.client = self.service.enter_context(serving(self.folder, idle=1e6))
        self.socket = self.service.enter_context(self.client.socket())

    def teardown(self):
        self.service.close()
        self.open.close()

    def fresh(self, size: int, damage: str) -> tuple[list, list | None]:
        """Points that nobody has sent before, and perhaps times."""
        points = [[self.count + k, -self.count] for k in range(size)]
        self.count += size
        times = [self.count + 0.5 * k for k in range(size)] if "timed" in damage else None
        if "wide" in damage:
            points = [[*point, 0.0] for point in points]
        if "huge" in damage and points:
            points[-1][0] = 1e200
        if "backwards" in damage and times is not None:
            times = times[::-1]
        return points, times

    def expected(self, name, points, times, *, at, start, end, create):
        """What the answer should be, None for a refusal; the dict is changed accordingly."""
        there = None if start else self.model.get(name)
        if there is None and not start and end and name in self.ended:
            total, prediction = self.ended[name]
            if (at is None and not points) or (at is not None and at + len(points) == total):
                return total, prediction
        if there is None and not (points and (start or create)):
            return None
        if start and not points:
            return None
        if points and any(len(point) != 2 for point in points):
            return None
        old, clock = there or ([], None)
        if points and at is not None:
            if at > len(old):
                return None
            past = len(old) - at
            points, times = points[past:], None if times is None else times[past:]
        if points:
            if old and (clock is None) != (times is None):
                return None
            if times is not None and (np.diff([*(clock or [])[-1:], *times]) <= 0).any():
                return None
            old, clock = [*old, *points], None if times is None else [*(clock or []), *times]
        if max(abs(x) for point in old for x in point) > 1e100:
            return None
        answer = len(old), predicted(old, clock)
        self.ended.pop(name, None)
        self.model[name] = old, clock
        if end:
            self.model.pop(name)
            self.ended[name] = answer
        return answer

    requests = rule(
        name=names, size=sizes, at=st.none() | st.integers(-1, 9), start=st.booleans(), end=st.booleans(),
        damage=st.sampled_from([""] * 5 + ["timed", "timed", "timed backwards", "wide", "huge", "outputs"]),
    )  # fmt: skip

    @requests
    def rest(self, name, size, at, start, end, damage):
        points, times = self.fresh(size, damage)
        given = {} if at is None else {"at": at}
        outputs = ["nonsense"] if "outputs" in damage else ["prediction", "points"]
        shape = [1, size, 3 if "wide" in damage else 2]
        status, found = self.client.infer(
            points, times=times, outputs=outputs, shape=shape, sequence_id=name, sequence_start=start,
            sequence_end=end, **given,
        )  # fmt: skip
        wrong = "outputs" in damage or (at or 0) < 0 or ("wide" in damage and not size)
        known = {"at": at, "start": start, "end": end, "create": False}
        expected = None if wrong else self.expected(name, points, times, **known)
        if expected is None:
            assert status in (400, 409), found
        else:
            got = {one["name"]: one["data"] for one in found["outputs"]}
            assert (got["points"], got["prediction"]) == ([expected[0]], [expected[1]])

    @requests
    def websocket(self, name, size, at, start, end, damage):
        points, times = self.fresh(size, damage)
        message = {"stream": name, "start": start, "end": end} | ({} if at is None else {"at": at})
        message |= ({"values": points} if points else {}) | ({"times": times} if times else {})
        found = asked(self.socket, message | ({"nonsense": 1} if "outputs" in damage else {}))
        wrong = "outputs" in damage or (at or 0) < 0
        known = {"at": at, "start": start, "end": end, "create": True}
        expected = None if wrong else self.expected(name, points, times, **known)
        if expected is None:
            assert found["status"] in (400, 409), found
        else:
            assert (found["points"], found["prediction"]) == expected

    @rule()
    def restart(self):
        self.service.close()
        self.run()

    @invariant()
    def what_is_there_is_what_should_be(self):
        listed = self.client.http.get("/v2/models/m/streams").json()["streams"]
        assert sorted(listed) == sorted(self.model)
        assert sorted(name for _, _, name, _ in self.client.service.store.known()) == sorted(self.model)
        for name, (points, clock) in self.model.items():
            found = asked(self.socket, {"stream": name})
            assert (found["points"], found["prediction"]) == (len(points), predicted(points, clock))


@pytest.mark.parametrize("examples", [5, pytest.param(100, marks=pytest.mark.long)])
def test_random_requests(examples):
    checks = settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        phases=[Phase.generate],  # shrinking takes minutes
    )
    run_state_machine_as_test(Requests, settings=checks)
