"""The demo: what it must show, and what it says where the real data cannot be had."""

import json

import numpy as np
import pytest

from neuralrde.cli.demo import damaged
from neuralrde.datasets import DatasetUnavailable
from neuralrde.paths import Series

MODULE = "neuralrde.cli.demo"


def test_without_the_real_data_the_simulated_part_remains(run, tmp_path, monkeypatch):
    def refuse(name):
        raise DatasetUnavailable("Could not download it.")

    monkeypatch.setattr(f"{MODULE}.load", refuse)
    monkeypatch.setattr(f"{MODULE}.depth", lambda: {"depth 1": 0.5, "depth 2": 1.0})
    outcome = run("demo", "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    assert "BasicMotions is left out" in outcome.out
    assert "Could not download it." in outcome.out
    results = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert not {"closed form", "SelfRegulationSCP1"} & set(results)
    assert results["depth"]["depth 1"] == 0.5
    assert [file.name for file in tmp_path.glob("*.png")] == ["depth_and_scale.png"]


def test_half_of_the_points_and_of_these_some_values_are_lost():
    series = Series.from_array(np.arange(200.0).reshape(2, 50, 2))
    found = damaged(series, seed=0)
    assert found.lengths.tolist() == [25, 25]
    kept = found.values[0]
    # What is left is what was there at that time.
    expected = series.values[0][found.times[0].astype(int)]
    assert np.array_equal(kept[~np.isnan(kept)], expected[~np.isnan(kept)])
    # Of 100 values, a share of 0.3 has a standard error of 0.046; four of them.
    assert abs(np.isnan(found.values).mean() - 0.3) < 0.18


@pytest.mark.slow
def test_what_the_demo_must_show(run, real_data, tmp_path, monkeypatch):
    # What is fetched must not be written beside the real data.
    (tmp_path / "data").mkdir()
    for folder in real_data.glob("uea_*"):
        (tmp_path / "data" / folder.name).symlink_to(folder)
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path / "data"))
    out = tmp_path / "demo"
    outcome = run("demo", "--out", out)
    assert outcome.code == 0, outcome.err
    results = json.loads((out / "results.json").read_text("utf-8"))
    accuracies = results["SelfRegulationSCP1"]["accuracies"]
    assert [len(values) for values in accuracies.values()] == [3, 3]
    assert np.mean(accuracies["closed form"]) >= 0.89
    assert np.mean(accuracies["neural default"]) >= 0.84  # published: NRDE 80.9, Log-NCDE 83.1
    assert results["depth"]["depth 2"] > 0.95
    # 1000 test samples of two classes: four standard deviations of guessing are 0.063.
    assert abs(results["depth"]["depth 1"] - 0.5) < 0.063
    pictures = {"accuracy.png", "learning_curves.png", "windows.png", "depth_and_scale.png"}
    if "BasicMotions" in results["closed form"]:  # there is a network, or an index of packages
        assert results["closed form"]["BasicMotions"]["accuracy"] >= 0.95
        assert results["closed form"]["BasicMotions"]["damaged"] >= 0.9
        pictures |= {"motions.png", "speakers.png"}
    assert {file.name for file in out.glob("*.png")} == pictures
