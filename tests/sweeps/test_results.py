"""Keys, grids and groups of results."""

import json
import statistics
import subprocess
import sys

import numpy as np
import pytest

from neuralrde.tools.sweeps import content_key, grid_points, summarise


def line(key, value=None, *, status="done", metric="accuracy", **point):
    return {"key": key, "point": point, "status": status, "metric": metric, "value": value, "seconds": 1.0}


def test_a_grid_has_every_combination_once():
    found = grid_points({"data": ["a", "b"], "depth": [1, 2, 3], "windows.scales": [[1, 4]], "model": "log-ncde"})
    assert len(found) == len({json.dumps(point) for point in found}) == 6
    assert found[-1] == {"data": "b", "depth": 3, "windows.scales": [1, 4], "model": "log-ncde"}
    assert grid_points({}) == [{}]
    with pytest.raises(ValueError, match=r"Got no value for seed.*Leave seed out"):
        grid_points({"seed": []})


@pytest.mark.long
def test_a_key_is_that_of_the_content_on_any_machine():
    import numpy as np

    assert content_key({"a": np.float64(0.1), "b": [1, None]}) == content_key({"b": [1, None], "a": 0.1})
    # Another process, whose strings hash differently, finds the same.
    code = "from neuralrde.tools.sweeps import content_key; print(content_key({'b': {'x': 1, 'y': 'z'}, 'a': 2}))"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert content_key({"a": 2, "b": {"y": "z", "x": 1}}) == fresh
    assert len({content_key(one) for one in ({"x": 1}, {"x": 1.5}, {"x": "1"}, {"x": None}, {"y": 1})}) == 5
    with pytest.raises(TypeError, match="type object among what decides"):
        content_key({"x": object()})


def test_groups_are_over_seeds_and_the_best_comes_first():
    values = {0: [0.7, 0.8, 0.9], 1: [0.95, 0.85]}
    lines = [line(f"{d}{s}", v, data="x", depth=d, seed=s) for d, all in values.items() for s, v in enumerate(all)]
    lines += [
        line("f", status="failed", data="x", depth=2, seed=0),
    ]
    lines += [
        line("r", 3.0, metric="rmse", data="y", seed=0),
        line("q", 2.0, metric="rmse", data="y", model="m", seed=0),
    ]
    groups = summarise(lines)
    assert groups["data"].tolist() == ["x"] * 3 + ["y"] * 2
    assert groups["depth"][:3].tolist() == ["1", "0", "2"]
    assert groups["mean"][0] == pytest.approx(statistics.mean(values[1]), rel=1e-12)
    assert groups["deviation"][1] == pytest.approx(
        statistics.stdev(values[0]), rel=1e-12
    )  # the same sum in another order
    assert groups["failed"].tolist() == [0, 0, 1, 0, 0]
    assert np.isnan([groups["mean"][2], groups["deviation"][2]]).all()
    assert groups["mean"][3:].tolist() == [2.0, 3.0]  # of an error, less is better
