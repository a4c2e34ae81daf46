"""A model card says what the run folder knows, and of a model file alone what that knows."""

import json

import numpy as np
import pytest

import neuralrde as nrde
from neuralrde.tools.assessment import published
from neuralrde.tools.cli import main


@pytest.mark.long
def test_a_run_has_a_card(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("data.npz", X=rng.normal(size=(60, 30, 2)).cumsum(axis=1), y=np.arange(60) % 2)
    assert main(["fit", "data.npz", "--model", "closed-form", "--set", "model.draws=5", "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["card", "run"]) == 0
    card = capsys.readouterr().out
    judged = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))["assessment"]
    low, high = judged["intervals_95"]["accuracy"]
    assert f"| accuracy | {judged['value']:#.4g} | {low:#.4g} to {high:#.4g} |" in card
    assert card.startswith("# run\n")
    assert f"jax {__import__('jax').__version__}" in card
    assert "## Data" in card
    assert all(sentence in card for sentence in judged["verdict"])
    assert main(["card", "run/model.nrde", "--out", "card.md"]) == 0
    alone = (tmp_path / "card.md").read_text("utf-8")
    assert "LogSignatureClassifier" in alone
    assert "## Metrics" not in alone


def test_of_a_model_that_never_was_in_a_run(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(30, 20, 1))
    nrde.LogSignatureRegressor(draws=5).fit(X, X[:, 0, 0]).save(tmp_path / "m.nrde")
    assert main(["card", str(tmp_path / "m.nrde")]) == 0
    assert capsys.readouterr().out.startswith("# m\n")


def test_published_results_have_protocols_and_sources():
    found = published()
    assert len(found) == len({(one.dataset, one.method, one.metric, one.source) for one in found}) > 40
    assert all(one.protocol and one.source and one.value > 0 for one in found)
    # The same numbers stand in the project beside the library, read from the paper's tables.
    from reproduction.published import PUBLISHED_LATER, best_published

    for name in ("BIDMC32RR", "BIDMC32HR", "BIDMC32SpO2"):
        assert min(one.value for one in published(name)) == best_published(name)
    for dataset, methods in PUBLISHED_LATER.items():
        ours = {one.method: (one.value, one.spread) for one in published(dataset)}
        assert {method: ours[method] for method in methods} == methods
