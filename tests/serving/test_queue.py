"""The queue: order within a stream, no two jobs of a stream in a batch, bounds."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde.tools.serving import Limits, RequestError
from neuralrde.tools.serving.jobs import Job, JobQueue


@given(st.lists(st.tuples(st.sampled_from("mn"), st.integers(0, 5)), max_size=60), st.integers(1, 7))
def test_order_and_batches(names, most):
    queue, given, taken = JobQueue(Limits()), [Job(model, str(name)) for model, name in names], []
    for job in given:
        queue.put(job)
    while batch := queue.take(most, timeout=0):
        assert len(batch) <= most
        assert len({job.model for job in batch}) == 1
        assert len({job.stream for job in batch}) == len(batch)
        taken += batch
    assert len(queue) == 0
    for key in set(names):
        [put, got] = [[job for job in jobs if (job.model, int(job.stream)) == key] for jobs in (given, taken)]
        assert put == got


def test_a_greedy_stream_waits_behind_the_others():
    queue = JobQueue(Limits())
    for name in ["greedy"] * 10 + ["late"]:
        queue.put(Job("m", name))
    assert [job.stream for job in queue.take(2, timeout=0)] == ["greedy", "late"]


def test_bounds():
    queue = JobQueue(Limits(queue=3, per_stream=2))
    queue.put(Job("m", "a"))
    queue.put(Job("m", "a"))
    with pytest.raises(RequestError, match="wait for their answers") as one:
        queue.put(Job("m", "a"))
    queue.put(Job("m", "b"))
    with pytest.raises(RequestError, match="3 messages are waiting") as all_:
        queue.put(Job("m", "c"))
    assert (one.value.status, all_.value.status) == (429, 503)
    assert "Retry-After" in one.value.headers
    assert "Retry-After" in all_.value.headers
    assert len(queue) == 3


def test_it_waits_for_a_job():
    queue = JobQueue(Limits())
    threading.Timer(0.05, queue.put, [Job("m", "a")]).start()
    assert [job.stream for job in queue.take(4, timeout=10)] == ["a"]
    assert queue.take(4, timeout=0.01) == []
