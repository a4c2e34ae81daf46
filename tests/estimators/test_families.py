"""`model="auto"`: families compared by cross-validation."""

import numpy as np
import pytest

from neuralrde import NeuralRDEClassifier, NeuralRDERegressor
from neuralrde.estimators import trainer
from neuralrde.estimators.trainer import Trainer
from neuralrde.models import LinearRDE, NeuralRDE

pytestmark = pytest.mark.long


def walks(samples=36, length=24, seed=0):
    """Walks of two channels that turn left or right: level 2 tells them apart."""
    rng = np.random.default_rng(seed)
    label = np.arange(samples) % 2
    angle = np.linspace(0, 4, length) * np.where(label, 1, -1)[:, None] + rng.uniform(0, 6, (samples, 1))
    return np.stack([np.cos(angle), np.sin(angle)], axis=2), np.array(["left", "right"])[label]


@pytest.fixture
def two(monkeypatch):
    """Two families that compile quickly."""
    monkeypatch.setattr(trainer, "COMPARED", ("neural-rde", "linear-rde"))


def test_the_best_is_taken_and_the_others_are_told(two, tmp_path):
    X, y = walks()
    model = NeuralRDEClassifier(model="auto", windows=8, epochs=3, random_state=0, verbose=False).fit(X, y)
    *tried, floor = model.trials_
    assert {trial["model"] for trial in tried} == {"neural-rde", "linear-rde"}
    assert floor["model"] == "closed-form"
    assert all(trial["folds"] == trainer.FOLDS and trial["seconds"] > 0 for trial in tried)
    assert tried[0]["loss"] == min(trial["loss"] for trial in tried)
    assert model.config_.cls is {"neural-rde": NeuralRDE, "linear-rde": LinearRDE}[tried[0]["model"]]
    model.save(tmp_path / "model")
    loaded = NeuralRDEClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.trials_ == model.trials_
    assert loaded.model == "auto"


def test_losses_are_those_of_what_was_left_out(monkeypatch):
    """A family that knows the answer wins over one that does not, whatever the order."""
    X, y = walks()
    seen = []

    def loss(self, candidate, samples, fold, number):
        seen.append((candidate.model, number, int((fold == number).sum())))
        return {"NeuralRDE": 0.5, "LogNCDE": 0.2, "LinearRDE": 0.9}[candidate.model.cls.__name__] + 0.01 * number

    monkeypatch.setattr(trainer, "COMPARED", ("neural-rde", "log-ncde", "linear-rde"))
    monkeypatch.setattr(Trainer, "_left_out_loss", loss)
    estimator = NeuralRDEClassifier(model="auto", closed_form=False, random_state=0, verbose=False)
    comparing, samples = estimator._trainer(X, y, None, None, None)
    config, trials = comparing.choose_model(samples)
    assert [trial["model"] for trial in trials] == ["log-ncde", "neural-rde", "linear-rde"]
    assert [trial["folds"] for trial in trials] == [3, 3, 1]
    assert trials[0]["loss"] == pytest.approx(0.21)
    assert config.cls.__name__ == "LogNCDE"
    assert all(size == len(X) // 3 for _, _, size in seen)


def test_a_time_budget_ends_the_comparison(monkeypatch):
    X, y = walks()
    monkeypatch.setattr(Trainer, "_left_out_loss", lambda *_: 1.0)
    clock = iter(np.arange(0.0, 1000.0, 10.0))  # ten seconds pass between two looks at it
    estimator = NeuralRDEClassifier(model="auto", closed_form=False, time_budget=80.0, random_state=0, verbose=False)
    comparing, samples = estimator._trainer(X, y, None, None, None)
    monkeypatch.setattr(trainer.time, "monotonic", lambda: float(next(clock)))
    _, trials = comparing.choose_model(samples)
    assert [trial["folds"] for trial in trials] == [1, 1]


def test_regression_and_what_it_says(monkeypatch, capsys):
    monkeypatch.setattr(trainer, "COMPARED", ("neural-rde",))
    X, _ = walks()
    model = NeuralRDERegressor(model="auto", windows=8, epochs=1, random_state=0, verbose=True)
    model.fit(X, X[:, -1, 0])
    assert "closed-form: loss" in capsys.readouterr().err


def test_refused():
    X, y = walks(samples=6)
    with pytest.raises(ValueError, match="target at every point"):
        NeuralRDEClassifier(model="auto").fit(X, np.repeat(y[:, None], X.shape[1], axis=1))
    with pytest.raises(ValueError, match="comparison needs all series"):
        NeuralRDEClassifier(model="auto").partial_fit(X, y)
    with pytest.raises(ValueError, match="with a checkpoint"):
        NeuralRDEClassifier(model="auto").fit(X, y, checkpoint="state")
