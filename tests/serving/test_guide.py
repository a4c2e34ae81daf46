"""The guide's client runs as it stands, against a real server."""

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command
from websockets.sync.client import connect

from neuralrde.tools.cli.app import app

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("server")]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "serving.md"


def test_the_client_of_the_guide(server):
    code = "\n".join(re.findall(r"^```py\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    code = code.replace("127.0.0.1:8000", server.address).replace("heart-rate", "rate")
    names: dict = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    assert names["whole"].shape == (1,)
    points = names["points"][0]
    with connect(f"ws://{server.address}/v2/models/rate/streams") as socket:
        socket.send(names["frame"]({"guide a": points, "guide b": points[:20]}))
        found = json.loads(socket.recv(30))
    assert [one["points"] for one in found] == [500, 20]
    assert found[0]["prediction"] == pytest.approx(names["whole"].item(), rel=1e-3, abs=1e-3)
    assert server.ask("/v2/models/rate/streams/7", method="DELETE")[0] == 204


def test_the_guides_options_and_metrics_exist(server):
    options = {option for one in get_command(app).commands["serve"].params for option in one.opts}
    text = GUIDE.read_text("utf-8")
    named = set(re.findall(r"`(--[a-z-]+)", text))
    assert named
    assert named <= options
    for name in re.findall(r"`(neuralrde_\w+)`", text):
        assert name in server.ask("/metrics")[2] or name.removesuffix("_total") in server.ask("/metrics")[2]
