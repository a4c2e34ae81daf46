"""The service keeps to its own OpenAPI document: Schemathesis asks what the document allows, and what it does not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("server")]

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def schemathesis(server, examples: int, folder) -> str:
    """All phases that make up requests; bounded in count, and the same each time."""
    command = [
        Path(sys.executable).parent / "schemathesis",
        "run",
        f"{server.url}/openapi.json",
        "--checks", CHECKS,
        "--max-examples", str(examples),
        "--phases", "examples,coverage,fuzzing",
        "--generation-deterministic",
        "--workers", "1",
        "--no-color",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=folder)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Traceback" not in server.log.read_text("utf-8")
    assert server.ask("/v2/health/live")[0] == 200
    return done.stdout


def test_schemathesis_finds_nothing(server, tmp_path):
    told = schemathesis(server, 5, tmp_path)
    [generated] = re.findall(r"(\d+) generated", told)
    assert int(generated) > 200  # it has asked


@pytest.mark.slow
def test_schemathesis_finds_nothing_for_longer(server, tmp_path):
    schemathesis(server, 200, tmp_path)


def test_every_address_is_described(server):
    """What the application routes is in the document, but for the page's files and WebSockets."""
    from starlette.routing import Route

    from neuralrde.tools.serving import Limits, Service, create_app
    from neuralrde.tools.serving.page import FILES

    service = Service({}, limits=Limits(batch=1))
    routes = [route for route in create_app(service).app.routes if isinstance(route, Route)]
    service.store.close()
    paths = {route.path.replace(":path", "") for route in routes} - set(FILES) - {"/openapi.json", "/login"}
    status, _, found = server.ask("/openapi.json")
    assert (status, found["openapi"]) == (200, "3.1.0")
    assert paths == set(found["paths"])


def test_metrics_are_there(server):
    names = ("queue_wait_seconds_count", "batch_size_count", "step_seconds_count", "answer_age_seconds_count")
    server.infer("rate", [[[0.0, 0.0]]])
    for name in names:
        assert server.metric(f"neuralrde_{name}") > 0
    _, headers, text = server.ask("/metrics")
    assert headers["Content-Type"].startswith("text/plain")
    for name in ("live", "kept", "queue", "evicted_total", "refused_total"):
        assert f"# HELP neuralrde_{name.removesuffix('_total')}" in text
