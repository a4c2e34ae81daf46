"""The page in a real browser: streams arrive, the trace moves, the prediction changes, in both colour schemes.

With NEURALRDE_SCREENSHOTS, a folder, pictures of the page are left there. With NEURALRDE_PAGE_MODEL and
NEURALRDE_PAGE_DATA, as `examples/heart_rate_live.py` makes them, they show that model: this is how the picture in the
docs was made.
"""

import io
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from neuralrde import Series
from neuralrde.datasets import Dataset, write_npz

from .conftest import walks
from .servers import running

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("page")]

CHROMIUM = shutil.which("chromium")
SEND = Path(__file__).parents[2] / "examples" / "serving" / "send.py"


@pytest.fixture(scope="module")
def shown(trained, tmp_path_factory):
    """A server to which the example sends twelve walks of two minutes, with the truth every three seconds."""
    folder = tmp_path_factory.mktemp("page")
    model, data = os.environ.get("NEURALRDE_PAGE_MODEL"), os.environ.get("NEURALRDE_PAGE_DATA")
    if not (model and data):
        X = walks(12, 15_000, seed=1)
        target = np.full((12, 15_000, 1), np.nan)
        target[:, 375::375, 0] = X[:, 375::375, 0]
        ids = np.array([f"walk {k + 1}" for k in range(12)])
        write_npz(Dataset(Series.from_array(X, ids=ids), target, task="regression", name="walks"), folder / "walks.npz")
        model, data = trained.files[0], folder / "walks.npz"
    with running(folder, model, "--batch", 16) as server:
        host, name = server.url.removeprefix("http://"), Path(model).stem
        script = [sys.executable, str(SEND), str(data), name, "--host", host, "--streams", "12"]
        sender = subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        yield server
        sender.kill()
        assert not sender.communicate()[0]


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium: `apt-get install chromium` on Debian")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def until(page, expression: str, seconds: float = 30) -> None:
    """Wait until it is true. (Playwright's own waiting evaluates strings in the page, which the page forbids.)"""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"not within {seconds} s: {expression}"
        page.wait_for_timeout(50)


def pixels(page, canvas: str) -> str:
    """A canvas as it looks now."""
    return page.evaluate(f"document.getElementById('{canvas}').toDataURL()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_streams_are_seen(shown, browser, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1360, "height": 900}, device_scale_factor=1.5)
    page, errors, asked = context.new_page(), [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(shown.url)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = np.mean([int(part) for part in ground[4:-1].split(",")])
    assert (brightness > 128) == (scheme == "light")
    until(page, "document.querySelectorAll('.tile').length >= 12")
    until(page, "!document.getElementById('numbers').hidden")
    before, drawn, said = page.evaluate("Number(document.body.dataset.cursor)"), pixels(page, "channels"), says(page)
    until(page, f"Number(document.body.dataset.cursor) > {before} + 100")  # it moves
    until(page, f"document.getElementById('answer').textContent !== {said!r}")
    assert pixels(page, "channels") != drawn
    until(page, "!document.getElementById('truth-box').hidden")
    second = page.locator(".tile").nth(1)
    second.click()
    until(page, f"document.getElementById('name').textContent === {second.get_attribute('title')!r}")
    if folder := os.environ.get("NEURALRDE_SCREENSHOTS"):
        page.wait_for_timeout(22_000)
        picture = Image.open(io.BytesIO(page.screenshot()))
        name = "serving.png" if scheme == "light" else f"serving-{scheme}.png"
        picture.convert("RGB").quantize(256).save(Path(folder) / name, optimize=True)
    assert errors == []
    assert all(url.startswith(shown.url) for url in asked)  # nothing from elsewhere
    context.close()


def says(page) -> str:
    return page.locator("#answer").text_content()
