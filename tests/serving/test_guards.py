"""What must hold on any day, in this process and quickly: the token, the disk before the answer, overload, watchers."""

import asyncio
import json
import sqlite3
import threading
import time

import numpy as np
import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect

from benchmarks.stress import load
from neuralrde.tools.serving import Limits, RequestError, Service, jobs, security, service
from neuralrde.tools.serving.jobs import Job, JobQueue
from neuralrde.tools.serving.sockets import Connection

from .tiny import Tiny, WebSocketDenialResponse, asked, predicted, serving

BEARER = {"Authorization": "Bearer right"}


# Who may ask.


@pytest.fixture(scope="module")
def guarded():
    with serving(token="right") as client:
        yield client


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "neuralrde=x"}])
def test_nothing_answers_without_the_token(guarded, header):
    for path in ("/", "/v2", "/v2/models/m", "/v2/models/m/streams", "/metrics", "/watch", "/nowhere"):
        assert guarded.http.get(path, headers=header).status_code == 401
    for path in ("/v2/models/m/streams", "/watch"):
        door = guarded.http.websocket_connect(f"ws://localhost{path}", headers=dict(header))
        with pytest.raises(WebSocketDenialResponse) as refused, door:
            pass
        assert refused.value.status_code == 401
    assert guarded.http.get("/v2/health/live", headers=header).status_code == 200


def test_with_the_token_both_doors_open(guarded):
    assert guarded.http.get("/v2", headers=BEARER).status_code == 200
    with guarded.socket(dict(BEARER)) as socket:
        assert asked(socket, {"stream": "a", "values": [[1, 2]], "end": True})["points"] == 1


def test_guesses_wait_for_each_other_and_the_token_for_nobody(guarded):
    began = time.monotonic()
    for _ in range(5):
        assert guarded.http.post("/login", content="token=wrong").status_code == 401
        assert guarded.http.get("/v2", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert time.monotonic() - began > 9 / security._GUESSES
    began = time.monotonic()
    for _ in range(5):
        assert guarded.http.get("/v2", headers=BEARER).status_code == 200
    assert time.monotonic() - began < 0.2


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:80", 200), ("127.0.0.2:8000", 200), ("[0:0:0:0:0:0:0:1]:80", 200), ("evil.example", 403), ("", 403)],
)
def test_every_loopback_address_is_this_machine(host, status):
    with serving(token="") as client:  # an empty token is none, and does not switch the check off
        assert client.http.get("/v2", headers={"Host": host}).status_code == status
        assert client.http.get("/v2", headers={"Host": host, "Authorization": "Bearer "}).status_code == status


# The disk.


def test_an_answer_waits_for_the_disk(tmp_path):
    with serving(tmp_path) as client, client.socket() as socket:
        store, held = client.service.store, threading.Event()
        store.submit([], lambda error: held.wait(10))  # the store's thread stays here
        socket.send_text('{"stream": "s", "values": [[1, 2]]}')
        time.sleep(0.1)
        assert client.service.models["m"].live["s"].points == 1  # it is computed
        assert not socket.portal.call(lambda: socket._send_rx.statistics().current_buffer_used)
        held.set()
        assert socket.receive_json()["points"] == 1
        assert store.commits


def test_a_full_disk_stops_only_what_must_be_kept(tmp_path, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    with serving(tmp_path) as client:
        assert client.infer(np.ones((3, 2)), sequence_id="s", sequence_start=True)[0] == 200
        assert client.infer(np.ones((1, 2)), sequence_id="s")[0] == 200
        disk = monkeypatch.context()
        disk.__enter__().setattr("neuralrde.tools.serving.store._transaction", full)
        for _ in range(3):
            assert client.infer(np.ones((5, 2)), sequence_id="s")[0] == 503
            status, found = client.infer(np.ones((2, 2)))  # a whole series, which leaves nothing behind
            assert (status, found["outputs"][0]["data"]) == (200, [predicted(np.ones((2, 2)))])
            assert client.points("s") == 4
            with client.socket() as socket:
                assert asked(socket, {"stream": "s"})["prediction"] == predicted(np.ones((4, 2)))
        disk.__exit__(None, None, None)
        until = time.monotonic() + 5
        while client.infer(np.ones((2, 2)), sequence_id="s", at=4)[0] != 200:
            assert time.monotonic() < until
        assert client.points("s") == 6


def test_a_batch_that_fails_has_not_happened(tmp_path, monkeypatch):
    with serving(tmp_path) as client:
        assert client.infer(np.ones((3, 2)), sequence_id="s", sequence_start=True)[0] == 200
        model = client.service.models["m"]
        with monkeypatch.context() as patch:
            patch.setattr(model, "predictions", lambda names: 1 / 0)
            assert client.infer(np.ones((3, 2)), sequence_id="s")[0] == 500
        assert client.points("s") == 3


def test_a_damaged_stream_is_refused_by_name(tmp_path):
    with serving(tmp_path) as client:
        for name in ("good", "bad"):
            client.infer(np.ones((3, 2)), sequence_id=name, sequence_start=True)
    with serving(tmp_path) as client:
        store = client.service.store
        store._call(lambda: store._database.execute("UPDATE streams SET state = state || ' ' WHERE name = 'bad'"))
        status, told = client.infer(np.ones((1, 2)), sequence_id="bad")
        assert status == 409
        assert "The stream 'bad' was kept, and cannot be brought back: its state has another checksum" in told["error"]
        assert client.infer(np.ones((1, 2)), sequence_id="good")[1]["outputs"][1]["data"] == [4]
        assert client.infer(np.ones((1, 2)), sequence_id="bad", sequence_start=True)[0] == 200


def test_an_end_can_be_sent_again_after_a_restart(tmp_path):
    last = {"stream": "s", "values": [[5, 6]], "at": 2, "end": True}
    with serving(tmp_path) as client, client.socket() as socket:
        asked(socket, {"stream": "s", "values": [[1, 2], [3, 4]]})
        once = asked(socket, last)
    with serving(tmp_path) as client, client.socket() as socket:
        for message in (last, {"stream": "s", "end": True}, last):
            found = asked(socket, message)
            assert (found["points"], found["prediction"]) == (3, once["prediction"])
        assert asked(socket, last | {"at": 3})["status"] == 409  # another one
        assert client.service.models["m"].known == {}
        assert asked(socket, {"stream": "s", "values": [[1, 1]]})["points"] == 1  # a new stream of that name
        asked(socket, {"stream": "s", "end": True})
        assert asked(socket, last)["status"] == 409


# Overload.


def test_what_waits_too_long_is_shed_and_nothing_after_it_slips_in(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(jobs.time, "perf_counter", lambda: clock[0])
    queue, behind = JobQueue(Limits(wait=0.1, batch=2)), set()
    job = lambda name, **more: Job("m", name, values=np.zeros((1, 1)), behind=behind, arrived=clock[0], **more)
    for step in range(40):  # two come and one is taken, every 50 ms
        for name in (f"a{step % 10}", f"b{step % 10}"):
            if name in behind:
                with pytest.raises(RequestError, match="before these were refused"):
                    queue.put(job(name))
            else:
                queue.put(job(name))
        taken = queue.take(1, timeout=0)
        assert not queue.shed or all(clock[0] - one.arrived <= 0.1 for one in taken)
        clock[0] += 0.05
    shed = queue.shed
    assert shed
    assert all(one.error.status == 503 and repr(one.stream) in str(one.error) for one in shed)
    name = next(iter(behind))
    with pytest.raises(RequestError, match=r"expected `at`"):
        queue.put(job(name))
    queue.put(job(name, at=3))
    queue.put(job(name))  # it knows where it is again
    while queue.take(9, timeout=0):
        clock[0] += 0.01
    before = len(queue.shed)
    clock[0] += 10
    for _ in range(100):  # the load has gone: nothing is shed any more
        queue.put(job("calm", start=True))
        clock[0] += 0.05
        assert len(queue.take(9, timeout=0)) == 1
    assert len(queue.shed) == before


def test_one_client_that_sends_much_is_not_overload(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(jobs.time, "perf_counter", lambda: clock[0])
    queue = JobQueue(Limits(wait=0.1))
    for _ in range(60):
        queue.put(Job("m", "bulk", arrived=clock[0]))
    while queue.take(9, timeout=0):
        clock[0] += 0.05
    assert queue.shed == []


def test_overload_is_told_and_passes(monkeypatch):
    monkeypatch.setattr(jobs, "_LASTING", 0.1)
    monkeypatch.setattr(jobs, "_CALM", 0.3)
    with serving(batch=2, wait=0.05) as client, client.socket() as socket:
        model, names = client.service.models["m"], [f"s{k}" for k in range(60)]
        quick = model.predictions
        monkeypatch.setattr(model, "predictions", lambda names: time.sleep(0.02) or quick(names))
        found = asked(socket, [{"stream": name, "values": [[1, 2]], "id": name} for name in names])
        refused = {one["stream"]: one for one in found if "error" in one}
        assert 0 < len(refused) < 60
        assert all(one["status"] == 503 and name in one["error"] for name, one in refused.items())
        assert all(one["age_ms"] > 0 for one in found)
        answered = [one["age_ms"] for one in found if "error" not in one]
        assert max(answered) < 500
        name = next(iter(refused))
        assert asked(socket, {"stream": name, "values": [[3, 4]]})["status"] == 503  # it would come after a gap
        time.sleep(0.3)
        assert asked(socket, {"stream": name, "values": [[1, 2], [3, 4]], "at": 0})["points"] == 2
        assert asked(socket, {"stream": name, "values": [[3, 4]]})["points"] == 3
        assert client.infer([[1, 1]])[1]["parameters"]["age_ms"] > 0


def test_a_full_queue_refuses_websockets_too(monkeypatch):
    with serving(batch=1, queue=4) as client, client.socket() as socket:
        model = client.service.models["m"]
        quick = model.predictions
        monkeypatch.setattr(model, "predictions", lambda names: time.sleep(0.02) or quick(names))
        found = asked(socket, [{"stream": f"s{k}", "values": [[1, 2]]} for k in range(20)])
        full = [one for one in found if "messages are waiting already" in one.get("error", "")]
        assert full
        assert all(one["status"] == 503 and one["stream"] in one["error"] for one in full)


class Sending(WebSocket):
    """A client's side of a WebSocket: it sends the same text again and again, and reads so many answers."""

    def __init__(self, text, count, reads):
        super().__init__({"type": "websocket"}, self.receive, self.send)
        self.text, self.left, self.reads = text, count, reads
        self.sent, self.answers = 0, []

    async def accept(self, *_): ...

    async def receive(self):
        if not self.left:
            await asyncio.sleep(60)
        self.left, self.sent = self.left - 1, self.sent + 1
        return {"type": "websocket.receive", "text": self.text}

    async def send_text(self, data):
        if len(self.answers) == self.reads:
            await asyncio.sleep(60)
        self.answers.append(data)


# None of them asks the model for anything: of each it is known that it is wrong as soon as it is read.
@pytest.mark.parametrize("text", ["no JSON", '{"stream": "s", "values": [[]]}', '[{"stream": "s", "values": [[]]}]'])
@pytest.mark.parametrize("reads", [300, 5])
def test_a_connection_is_read_as_long_as_its_answers_are(text, reads):
    async def run() -> None:
        service = Service({"m": Tiny()}, limits=Limits(in_flight=4, message_bytes=10 * len(text)))
        service.engine.ready.set()
        socket = Sending(text, 300, reads)
        connection = asyncio.create_task(Connection(service, socket, "m").run())
        for _ in range(5000):
            await asyncio.sleep(0)
        connection.cancel()
        if reads == 5:
            assert 5 + 4 <= socket.sent <= 5 + 4 + 10 + 3  # read, in flight, in the inbox, and in hand
        assert len(socket.answers) == reads
        assert all("Got" in answer for answer in socket.answers)

    asyncio.run(run())


def test_the_generator_tells_refusals_from_silence():
    async def answers():
        yield '[{"id": 1, "prediction": 2}, {"id": 2, "status": 503, "error": "busy"}, {"id": 3, "status": 503}]'
        yield '{"id": 4, "status": 400, "error": "wrong"}'

    report, anew = load.Report(sent=9), set()
    asyncio.run(load.read(answers(), {k: (0.0, k) for k in range(1, 10)}, anew, report))
    found = report.summary(1.0)
    assert [found[name] for name in ("answered", "refused", "errors", "unanswered")] == [1, 2, 1, 5]
    assert (found["first_error"], anew) == ("wrong", {2, 3})  # these streams begin anew


# Watchers.


def test_a_page_that_does_not_read_is_given_up_and_keeps_nothing(monkeypatch):
    monkeypatch.setattr(service, "PATIENCE", 0.5)
    monkeypatch.setattr(service, "FRAME", 0.01)
    job = Job("m", "s", values=np.zeros((100, 2)))

    class Deaf:
        async def accept(self): ...

        async def send_text(self, text):
            await asyncio.sleep(60)

        async def receive(self):
            await asyncio.sleep(60)

    async def run() -> None:
        hub = service.Hub()
        page = asyncio.create_task(hub.serve(Deaf()))
        await asyncio.sleep(0.02)
        [watcher] = hub.watchers
        for _ in range(200):
            hub.note(job, 0.01)
            await asyncio.sleep(0.001)
        assert len(watcher.latencies) + sum(len(one["parts"]) for one in watcher.pending.values()) < 50
        await asyncio.wait_for(page, 2)
        assert not hub.watchers

    asyncio.run(run())


def test_watchers_are_not_without_number(monkeypatch):
    monkeypatch.setattr(service, "PAGES", 1)
    with serving() as client, client.http.websocket_connect("ws://localhost/watch") as first:
        first.send_text(json.dumps({"focus": "s"}))
        with client.http.websocket_connect("ws://localhost/watch") as second, pytest.raises(WebSocketDisconnect) as end:
            second.receive_text()
        assert end.value.code == 1013
