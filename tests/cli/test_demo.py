"""The demo: what it must show, and what it shows where the real data cannot be had."""

import json

import numpy as np
import pytest

from neuralrde.datasets import DatasetUnavailable

MODULE = "neuralrde.tools.cli.demo"


def test_without_the_real_data_it_shows_simulated_ones(run, tmp_path, monkeypatch):
    def refuse(name):
        raise DatasetUnavailable("Could not download it.")

    monkeypatch.setattr(f"{MODULE}.load", refuse)
    monkeypatch.setattr(f"{MODULE}.SPLITS", 2)
    monkeypatch.setitem(__import__(MODULE, fromlist=["SETTINGS"]).SETTINGS, "epochs", 1)
    outcome = run("demo", "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    assert "BasicMotions is left out" in outcome.out
    assert "Could not download it." in outcome.out
    results = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert set(results["closed form"]) == {"order_of_events"}
    assert results["closed form"]["order_of_events"]["accuracy"] > 0.9
    assert [len(values) for values in results["order_of_events"]["accuracies"].values()] == [2, 2]
    assert [file.name for file in tmp_path.glob("*.png")] == ["accuracy.png"]


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
    pictures = {"accuracy.png"}
    if "BasicMotions" in results["closed form"]:  # there is a network, or an index of packages
        assert results["closed form"]["BasicMotions"]["accuracy"] >= 0.95
        pictures |= {"motions.png"}
    assert {file.name for file in out.glob("*.png")} == pictures
