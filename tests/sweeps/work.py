"""What the tests' sweeps run: functions that workers import, without JAX."""

import json
import os
import time
from pathlib import Path
from typing import Any


def squares(settings: dict[str, Any], data: Any, folder: Path) -> dict[str, Any]:
    """Ten epochs that come nearer to a square; counts how often it was begun."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "begun").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if settings.get("error"):
        raise ValueError(settings["error"])
    if settings.get("die") and len((folder / "begun").read_text("utf-8").splitlines()) <= settings["die"]:
        os.kill(os.getpid(), 9)
    value, curve = float(settings["x"]) ** 2, []
    for epoch in range(1, 11):
        curve.append(value + 1 / epoch)
        time.sleep(settings.get("sleep", 0.0))
    scale = 1 if data is None else sum(data)
    return {"metric": "rmse", "value": value * scale, "objective": curve[-1], "curve": curve, "cores": cores_here()}


def cores_here() -> int:
    from neuralrde._cores import cores

    return cores()


def begun(folder: Path) -> dict[str, int]:
    """How often each task was begun."""
    return {file.parent.name: len(file.read_text("utf-8").splitlines()) for file in folder.glob("*/begun")}


def results_in(folder: Path) -> list[dict[str, Any]]:
    """All results in a sweep's folder, as they came."""
    found = [json.loads(file.read_text("utf-8")) for file in (folder / "results").glob("*.json")]
    return sorted(found, key=lambda result: result["point"].get("x", 0))
