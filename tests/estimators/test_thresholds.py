"""Thresholds that are chosen for a goal, on series that were left out, and kept as one number."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score

from neuralrde import Config, NeuralRDE
from neuralrde.estimators import LogSignatureClassifier, NeuralRDEClassifier, load
from neuralrde.estimators.closed_form import fit_closed_form
from neuralrde.estimators.targets import chosen_threshold
from neuralrde.features import FeatureSizes

SMALL = {"draws": 6}


def rare(count: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """One in eight series drifts, by less than the others vary."""
    rng = np.random.default_rng(seed)
    y = (rng.random(count) < 1 / 8).astype(int)
    return rng.normal(size=(count, 20, 2)).cumsum(axis=1) + y[:, None, None] * np.linspace(0, 5, 20)[:, None], y


@pytest.mark.parametrize(
    ("goal", "value"),
    [
        ("f1", lambda y, said: f1_score(y, said, zero_division=0.0)),
        ("balanced_accuracy", balanced_accuracy_score),
        ({"sensitivity": 0.7}, lambda y, said: (recall_score(y, said) >= 0.7) * recall_score(1 - y, 1 - said)),
        ({"specificity": 0.8}, lambda y, said: (recall_score(1 - y, 1 - said) >= 0.8) * recall_score(y, said)),
    ],
)
def test_no_other_threshold_serves_the_goal_better(goal, value):
    rng = np.random.default_rng(1)
    y = np.arange(200) % 5 == 0
    probability = np.round(np.clip(rng.normal(0.3 + 0.2 * y, 0.2), 0, 1), 2)  # with ties
    chosen = chosen_threshold(goal, probability, y.astype(int))
    tried = [value(y, probability >= threshold) for threshold in np.linspace(0, 1.01, 600)]
    assert value(y, probability >= chosen) == pytest.approx(max(tried))


def test_the_closed_form_chooses_by_what_it_would_have_said_without_each():
    X, y = rare()
    model = LogSignatureClassifier(threshold={"sensitivity": 0.9}, **SMALL).fit(X, y)
    plain = LogSignatureClassifier(**SMALL).fit(X, y)
    assert plain.threshold_ is None
    samples, inputs, targets = plain._samples(X, y)
    fitted, left_out = fit_closed_form(samples, inputs, targets, sizes=FeatureSizes(**SMALL))
    likely = fitted.probabilities(fitted.one_per_series(left_out))[:, 1]
    assert model.threshold_ == chosen_threshold({"sensitivity": 0.9}, likely, y)
    assert recall_score(y, likely >= model.threshold_) >= 0.9
    new, truth = rare(seed=1)
    assert np.array_equal(model.predict(new), (model.predict_proba(new)[:, 1] >= model.threshold_).astype(int))
    assert recall_score(truth, model.predict(new)) > recall_score(truth, plain.predict(new))


def test_files_and_streams_keep_it(tmp_path):
    X, y = rare()
    model = LogSignatureClassifier(threshold="f1", class_weight={0: 1.0, 1: 2.0}, **SMALL).fit(X, y)
    model.save(tmp_path / "model.nrde")
    again = load(tmp_path / "model.nrde")
    assert (again.threshold, again.threshold_) == ("f1", model.threshold_)
    assert np.array_equal(again.predict(X), model.predict(X))
    row = int(np.flatnonzero(model.predict(X) != model.predict_proba(X).argmax(axis=1))[0])
    stream = again.stream()
    stream.push(X[row])
    assert stream.predict() == model.predict(X[[row]])[0]


@pytest.mark.long
@pytest.mark.parametrize("members", [1, 2])
def test_neural_classifiers_choose_on_what_was_left_out(members):
    X, y = rare()
    options = {"model": Config(NeuralRDE, state=4, width=8), "windows": 5, "members": members, "epochs": 2}
    options |= {"random_state": 0, "verbose": False, "validation_fraction": 0.3}
    model = NeuralRDEClassifier(threshold={"sensitivity": 0.8}, class_weight="balanced", **options).fit(X, y)
    assert 0 < model.threshold_ < 1
    assert recall_score(y, model.predict(X)) > 0.6
    none = NeuralRDEClassifier(threshold="f1", **{**options, "members": 1, "validation_fraction": 0.0})
    with pytest.raises(ValueError, match=r"Got threshold='f1', and too few series to leave some of both classes out"):
        none.fit(X, y)


def test_there_is_no_single_threshold_for_three_classes():
    X, y = rare(60)
    for estimator in (LogSignatureClassifier(threshold="f1"), NeuralRDEClassifier(threshold="f1", verbose=False)):
        with pytest.raises(ValueError, match=r"Got threshold='f1' with 3 classes; expected two classes"):
            estimator.fit(X, np.arange(60) % 3)
        with pytest.raises(ValueError, match="balanced_accuracy"):
            estimator.set_params(threshold="recall").fit(X, y)
        with pytest.raises(ValueError, match="threshold"):
            estimator.set_params(threshold={"sensitivity": 1.5}).fit(X, y)
