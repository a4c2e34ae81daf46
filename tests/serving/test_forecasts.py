"""Forecasts of a real server: by REST and WebSocket what `predict` says, with the guards there are; and the fan."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from neuralrde import LogSignatureForecaster
from neuralrde.paths import Series

from .servers import running
from .test_page import browser, pixels, until

__all__ = ["browser"]
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("page")]


def waves(samples: int, points: int = 150) -> Series:
    """Two noisy waves at random times, the second seen at half of them."""
    random, values, clocks = np.random.default_rng(0), [], []
    for _ in range(samples):
        times = np.cumsum(random.uniform(0.2, 0.8, points))
        phase = times + random.uniform(0, 6)
        seen = np.stack([np.sin(phase), 50 + 10 * np.cos(phase / 2)], axis=1) + 0.1 * random.normal(size=(points, 2))
        seen[random.random(points) < 0.5, 1] = np.nan
        values.append(seen)
        clocks.append(times)
    return Series.from_arrays(values, times=clocks, channels=["pulse", "pressure"])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> tuple[LogSignatureForecaster, Path]:
    file = tmp_path_factory.mktemp("forecaster") / "beds.nrde"
    model = LogSignatureForecaster(horizon=6.0, lookback=12.0, examples=1500).fit(waves(60))
    model.save(file)
    return model, file


@pytest.fixture(scope="module")
def served(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    with running(folder, fitted[1], "--batch", 8, "--state", folder / "streams") as server:
        yield server


def tensors(values, times) -> list[dict]:
    plain = [None if x != x else x for x in np.ravel(values).tolist()]
    return [
        {"name": "values", "shape": [1, *np.shape(values)], "datatype": "FP64", "data": plain},
        {"name": "times", "shape": [1, len(times)], "datatype": "FP64", "data": list(map(float, times))},
    ]


def asked(server, values, clock, **parameters):
    body = {"inputs": tensors(values, clock), "parameters": parameters}
    status, _, found = server.ask("/v2/models/beds/infer", body)
    if status != 200:
        return status, found["error"]
    return status, {one["name"]: np.reshape(np.array(one["data"], float), one["shape"]) for one in found["outputs"]}


def test_rest_says_what_predict_says(served, fitted):
    series = waves(3)[2]
    values, clock = series.values[0], series.clock[0]
    moments = (clock[-1] + np.array([0.5, 2.0, 6.0])).tolist()
    expected, ends = fitted[0].predict(series, moments, interval=0.9)
    status, whole = asked(served, values, clock, times=moments)
    assert status == 200
    np.testing.assert_allclose(whole["forecast"], expected, rtol=1e-9)  # the same sums, through JSON
    np.testing.assert_allclose(whole["interval"], ends, rtol=1e-9)
    assert whole["times"].tolist() == [moments]
    # A stream, in two pushes.
    start = {"sequence_id": "bed 1", "sequence_start": True}
    asked(served, values[:100], clock[:100], **start)
    status, found = asked(served, values[100:], clock[100:], sequence_id="bed 1", at=100, times=moments)
    np.testing.assert_allclose(found["forecast"], expected, rtol=1e-9)
    assert found["points"].tolist() == [150]
    # Without times, the whole horizon.
    status, found = asked(served, values, clock, horizon=3.0)
    assert found["times"].max() == pytest.approx(clock[-1] + 3.0)
    # It can be moved, and comes back.
    _, _, moved = served.ask("/v2/models/beds/streams/bed%201")
    status, _, taken = served.ask("/v2/models/beds/streams/bed%202", {"state": moved["state"]}, method="PUT")
    assert (status, taken["points"]) == (200, 150)
    later = [clock[-1] + 7.0]
    both = [asked(served, [[0.5, np.nan]], [clock[-1] + 1], sequence_id=f"bed {k}", times=later)[1] for k in (1, 2)]
    np.testing.assert_array_equal(both[0]["forecast"], both[1]["forecast"])


def test_what_is_refused(served):
    [values], [clock] = waves(1).values, waves(1).clock
    for parameters, message in (
        ({"times": [clock[-1] + 7.0]}, "at most the horizon 6 of `fit` ahead"),
        ({"times": [clock[-1] - 1.0]}, "expected them above 0"),
        ({"horizon": 9.0}, "at most the horizon"),
        ({"horizon": 3.0, "times": [clock[-1] + 1]}, "expected one of them"),
        ({"horizon": -1.0}, "no inference request"),
        ({"times": [1.0] * 2000}, "no inference request"),
    ):
        status, found = asked(served, values, clock, **parameters)
        assert status == 400
        assert message in found
    # A push whose forecast is refused has not happened.
    asked(served, values, clock, sequence_id="undone", sequence_start=True)
    status, _ = asked(served, [[1.0, 2.0]], [clock[-1] + 1], sequence_id="undone", horizon=9.0)
    assert status == 400
    assert served.ask("/v2/models/beds/streams/undone")[2]["points"] == 150
    about = served.ask("/v2/models/beds")[2]
    assert [output["name"] for output in about["outputs"]] == ["forecast", "times", "points", "interval"]
    assert about["parameters"]["ahead"]["horizon"] == 6.0


def test_websockets_and_the_fan_on_the_page(served, fitted, browser):
    client = pytest.importorskip("websockets.sync.client")
    series = waves(4)[3]
    values, clock = series.values[0], series.clock[0]
    pages = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, viewport={"width": 1360, "height": 900})
        page, errors = context.new_page(), []
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        page.goto(served.url)
        until(page, "document.getElementById('link').textContent === 'live'")
        pages[scheme] = page, errors
    before = {scheme: pixels(page, "channels") for scheme, (page, _) in pages.items()}

    with client.connect(f"ws://{served.address}/v2/models/beds/streams") as socket:
        for k in range(0, 150, 5):
            plain = [[None if x != x else x for x in row] for row in values[k : k + 5].tolist()]
            message = {"stream": "ward 3", "values": plain, "times": clock[k : k + 5].tolist(), "horizon": 6.0}
            socket.send(json.dumps(message))
            last = json.loads(socket.recv())
            pages["light"][0].wait_for_timeout(50)
    expected, ends = fitted[0].predict(series, last["times"], interval=0.9)
    np.testing.assert_allclose(last["forecast"], expected[0], rtol=1e-9)
    np.testing.assert_allclose(np.array(last["interval"], float), ends[0], rtol=1e-9)
    assert last["now"] == clock[-1]
    for scheme, (page, errors) in pages.items():
        until(page, "document.getElementById('points').textContent === '150'")
        assert page.locator("#answer-title").text_content() == "Forecast of pulse, 6 ahead"
        page.wait_for_timeout(2000)
        assert pixels(page, "channels") != before[scheme]
        # Right of the present, in the second half of the picture's last third, there is the fan.
        drawn = "(() => { const c = document.getElementById('channels'), g = c.getContext('2d'); const d = "
        drawn += "g.getImageData(Math.round(0.8 * c.width), 0, 20, c.height).data; let n = 0; "
        drawn += "for (let k = 3; k < d.length; k += 4) n += d[k] > 0; return n; })()"
        assert page.evaluate(drawn) > 500
        if folder := os.environ.get("NEURALRDE_SCREENSHOTS"):
            picture = Image.open(io.BytesIO(page.screenshot()))
            picture.convert("RGB").quantize(256).save(Path(folder) / f"forecasts-{scheme}.png", optimize=True)
        assert errors == []
        page.context.close()
