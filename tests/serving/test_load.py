"""The load of the stress tests, and what compiles and a full disk do to a whole service."""

import asyncio
import os
import signal
import threading
import time

import jax
import numpy as np
import pytest

from benchmarks.stress import load
from neuralrde.tools.serving import Limits, Service
from neuralrde.tools.serving.jobs import Job

from .conftest import walks
from .test_rest import TOLERANCE

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("server")]


def test_every_push_is_answered_and_latency_counts_from_when_it_was_due(server):
    """The service stands still for a second: every push that was due meanwhile is late, not only the first."""
    before = server.metric("neuralrde_points_total")

    def pause() -> None:
        while server.metric("neuralrde_points_total") == before:
            time.sleep(0.02)
        os.kill(server.process.pid, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(server.process.pid, signal.SIGCONT)

    # From the first push on: how long connecting takes depends on the machine.
    threading.Thread(target=pause, daemon=True).start()
    found = asyncio.run(load.run(server.url, streams=12, seconds=3, rate=100, connections=3))
    assert (found["streams"], found["connections"], found["pushes"]) == (12, 3, 360)
    assert (found["errors"], found["unanswered"]) == (0, 0)
    assert found["latency_ms"]["max"] > 800
    # A third of all pushes fell into the pause.
    assert found["refused"] > 36 or found["latency_ms"]["p99"] > 600


def test_nothing_is_compiled_after_it_is_ready(trained):
    """Whole series of any length and streams in batches of any size, in one process, with JAX's own count."""
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, seconds, **_: compiled.append(name) if name.endswith("backend_compile_duration") else None
    )

    async def run() -> None:
        service = Service({"rate": trained.rate}, limits=Limits(batch=8))
        await service.start()
        while not service.ready:
            await asyncio.sleep(0.05)
        assert compiled  # the listener hears
        compiled.clear()
        rng = np.random.default_rng(0)
        for length in rng.permutation(np.arange(1, 400, 13)):
            [x] = walks(1, int(length))
            found = await service.ask(Job("rate", service.whole_name(), kind="whole", values=x))
            assert np.isfinite(found.prediction.prediction)
        for size in (1, 3, 8, 20):
            jobs = [
                Job("rate", f"s{k}", values=walks(1, int(n), seed=k)[0])
                for k, n in enumerate(rng.integers(1, 90, size))
            ]
            await asyncio.gather(*map(service.ask, jobs))
        assert compiled == []
        await service.stop()

    asyncio.run(run())
    jax.monitoring.clear_event_listeners()


def test_a_full_disk_loses_nothing_that_was_acknowledged(trained, tmp_path):
    """The push that could not be kept is refused, and may be sent again when there is room."""
    [x] = walks(1, 400, seed=2)

    async def run() -> None:
        service = Service({"rate": trained.rate}, limits=Limits(batch=1), state=tmp_path)
        await service.start()
        while not service.ready:
            await asyncio.sleep(0.05)
        database = service.store._database
        await service.ask(Job("rate", "s", values=x[:50]))
        service.store._call(lambda: database.execute("PRAGMA max_page_count = 6"))
        big = Job("rate", "s", values=np.repeat(x[50:51], 5_000, axis=0))
        with pytest.raises(Exception, match="could not be kept"):
            await service.ask(big)
        service.store._call(lambda: database.execute("PRAGMA max_page_count = 100000"))
        for _ in range(20):  # until the engine has taken notice
            try:
                found = await service.ask(Job("rate", "s", values=x[50:], at=50))
                break
            except Exception:
                await asyncio.sleep(0.1)
        assert found.points == 400
        assert np.allclose(found.prediction.prediction, trained.rate.predict(x[None])[0], **TOLERANCE)
        await service.stop()

    asyncio.run(run())
