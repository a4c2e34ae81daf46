"""The examples run: each script with --quick, in a folder of its own, as the pages tell."""

import json
import os
import subprocess
import sys

import pytest


def run(root, folder, script, *arguments) -> str:
    command = [sys.executable, str(root / "examples" / script), str(folder), *arguments]
    source = os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | {"PYTHONPATH": source})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_order_matters(root, tmp_path):
    out = run(root, tmp_path, "order_matters.py", "--quick")
    depths = [float(cell.strip(" %")) for cell in out.splitlines()[-1].split("|")[2:4]]
    # 1000 test series of two classes: four standard deviations of guessing are 6.3 %.
    assert abs(depths[0] - 50) < 6.3
    assert depths[1] > 95
    assert (tmp_path / "order_matters.png").exists()


def test_the_demo(root, tmp_path):
    out = run(root, tmp_path, "demo.py", "--quick")
    assert "closed form" in out
    results = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert results["closed form"]["order_of_events"]["accuracy"] > 0.9
    assert len(results["order_of_events"]["accuracies"]) == 3
    assert results["tanks"].keys() == {"last value", "closed form", "neural RDE"}
    assert {file.name for file in tmp_path.glob("*.png")} == {"accuracy.png", "forecast.png"}


@pytest.mark.slow
def test_what_the_demo_must_show(root, tmp_path, real_data, monkeypatch):
    # What is fetched must not be written beside the real data.
    (tmp_path / "data").mkdir()
    for folder in real_data.glob("uea_*"):
        (tmp_path / "data" / folder.name).symlink_to(folder)
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path / "data"))
    run(root, tmp_path, "demo.py")
    results = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert sum(results["SelfRegulationSCP1"]["accuracies"]) / 3 >= 0.89  # published: LinOSS 87.8
    assert results["tanks"]["neural RDE"] < results["tanks"]["closed form"] / 2
    if "BasicMotions" in results["closed form"]:  # there is a network, or an index of packages
        assert results["closed form"]["BasicMotions"]["accuracy"] >= 0.95
        assert (tmp_path / "motions.png").exists()


def test_heart_rate(root, tmp_path, real_data):
    out = run(root, tmp_path, "heart_rate.py", "--quick")
    assert "patients apart" in out
    assert (tmp_path / "heart_rate.png").exists()


def test_forecast(root, tmp_path, real_data):
    out = run(root, tmp_path, "forecast.py", "--quick")
    assert "coverage 0.9" in out or "coverage 0.8" in out
    assert {file.name for file in tmp_path.glob("*.png")} == {"forecast.png", "forecast_errors.png"}


def test_heart_rate_live(root, tmp_path, real_data):
    assert "Mean absolute error" in run(root, tmp_path, "heart_rate_live.py", "--quick")
    assert (tmp_path / "heart-rate.nrde").exists()
    assert (tmp_path / "bidmc.npz").exists()


def test_igbm(root, tmp_path):
    out = run(root, tmp_path, "igbm.py", "--quick")
    ratio = float(out.partition("Ratio ")[2].split(".\n")[0])
    assert ratio < 1  # 25 steps of depth 3 beat 1000 with increments only
    assert (tmp_path / "igbm.png").exists()


@pytest.mark.parametrize("script", ["how_it_works.py", "windows.py"])
def test_pictures(script, root, tmp_path):
    run(root, tmp_path, script)
    assert list(tmp_path.glob("*.png"))
