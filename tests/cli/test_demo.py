"""The demo: what it must show, and what it says where the real data cannot be had."""

import json

import pytest

from neuralrde.datasets import DatasetUnavailable

MODULE = "neuralrde.cli.demo"


def test_without_the_real_data_the_simulated_part_remains(run, tmp_path, monkeypatch):
    def refuse(name):
        raise DatasetUnavailable("Could not download it.")

    monkeypatch.setattr(f"{MODULE}.load", refuse)
    monkeypatch.setattr(f"{MODULE}.simulated", lambda: {"depth 2": 1.0, "depth 1": 0.5})
    outcome = run("demo", "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    assert "The real part is left out" in outcome.out
    assert "Could not download it." in outcome.out
    results = json.loads((tmp_path / "results.json").read_text())
    assert "SelfRegulationSCP1" not in results
    assert results["order_of_events"]["depth 1"] == 0.5


@pytest.mark.slow
def test_what_the_demo_must_show(run, real_data, tmp_path):
    outcome = run("demo", "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    results = json.loads((tmp_path / "results.json").read_text())
    accuracies = results["SelfRegulationSCP1"]["accuracies"]["Neural RDE"]
    assert len(accuracies) == 3
    assert sum(accuracies) / 3 >= 0.84  # published: NRDE 80.9, Log-NCDE 83.1
    assert results["order_of_events"]["depth 2"] > 0.95
    # 1000 test samples of two classes: four standard deviations of guessing are 0.063.
    assert abs(results["order_of_events"]["depth 1"] - 0.5) < 0.063
    assert {file.name for file in tmp_path.glob("*.png")} == {
        "accuracy.png",
        "learning_curves.png",
        "confusion.png",
        "windows.png",
    }
