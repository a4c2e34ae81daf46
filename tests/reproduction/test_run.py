"""Runs: lines of results, resuming, what is not run twice; splits."""

import json

import equinox as eqx
import numpy as np
import pytest

from neuralrde.datasets import Dataset, Split
from neuralrde.paths import Series
from neuralrde.signatures import log_signatures
from neuralrde.training import Listener, TimeStretch
from neuralrde.transforms import Spectrogram
from reproduction.experiment import Experiment, Limits
from reproduction.inputs import augmented_inputs, prepared, without_copies
from reproduction.our_settings import SETTINGS, OurSettings
from reproduction.results import read_results
from reproduction.run import run
from reproduction.splits import divide
from reproduction.train import settings_of, train

pytestmark = pytest.mark.long

EXPERIMENT = {"dataset": "toy", "model": "nrde", "depth": 2, "step": 16, "seed": 1, "sizes": (4, 2, 1)}


@pytest.fixture
def here(small, monkeypatch, tmp_path):
    """Runs in this process, on the small data, into a folder of the test's own."""
    monkeypatch.setattr("reproduction.train.load", lambda name: small)
    said = []

    def here(experiment, **limits):
        paths = {"folder": tmp_path / "results", "work": tmp_path / "work"}
        return run(experiment, limits=Limits(**limits), own_process=False, say=said.append, **paths)

    here.said, here.folder = said, tmp_path / "results"
    return here


def test_a_line_and_no_second_run(here):
    experiment = Experiment(**EXPERIMENT, protocol="corrected")
    line = here(experiment, epochs=3)
    assert (line["stopped"], line["epochs"], line["sizes"]) == ("epochs", 3, [42, 9, 9])
    assert line["minutes"] > 0
    assert line["floors"]["training mean"]["rmse"] > 0
    assert {"rmse", "mae"} == set(line["test"])
    assert read_results(here.folder) == [json.loads(json.dumps(line))]
    assert here(experiment, epochs=3) == json.loads(json.dumps(line))
    assert "is there" in here.said[-1]
    here(experiment, epochs=2)  # other settings: another run
    assert len(read_results(here.folder)) == 2


def test_a_spent_budget_goes_on_when_it_is_raised(here):
    experiment = Experiment(**EXPERIMENT, protocol="paper")
    first = here(experiment, epochs=6, budget=1e-6)
    assert (first["stopped"], first["epochs"]) == ("budget", 1)
    assert here(experiment, epochs=6, budget=1e-6)["epochs"] == 1
    second = here(experiment, epochs=6)
    assert (second["stopped"], second["epochs"]) == ("epochs", 6)
    assert [line["stopped"] for line in read_results(here.folder)] == ["epochs"]


class Interrupt(Listener):
    def epoch(self, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("protocol", ["paper", "ours"])
def test_an_interrupted_training_ends_as_if_it_had_not_been(small, tmp_path, protocol):
    experiment, limits = Experiment(**EXPERIMENT, protocol=protocol), Limits(epochs=4)
    whole = train(experiment, limits, data=small)
    with pytest.raises(KeyboardInterrupt):
        train(experiment, limits, tmp_path / "checkpoint", data=small, listeners=[Interrupt()])
    resumed = train(experiment, limits, tmp_path / "checkpoint", data=small)
    assert resumed["epochs"] == 4
    assert resumed["test"] == whole["test"]  # bit for bit


def test_an_error_leaves_an_unfinished_line(here, monkeypatch):
    monkeypatch.setattr("reproduction.run.train", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        here(Experiment(**EXPERIMENT, protocol="corrected"))
    assert read_results(here.folder)[0]["stopped"].startswith("error")


@pytest.mark.parametrize("model", ["odernn", "logncde", "linear"])
def test_other_models(small, model):
    line = train(Experiment(**EXPERIMENT | {"model": model}, protocol="ours"), Limits(epochs=1), data=small)
    assert np.isfinite(line["test"]["rmse"])


def test_paper_reports_the_mean_over_batches(small):
    line = train(Experiment(**EXPERIMENT, protocol="paper"), Limits(epochs=1), data=small)
    assert "mean_over_batches" in line["test"]
    assert len(settings_of(Experiment(**EXPERIMENT, protocol="paper"))["bugs"]) == 7


def test_the_paper_split_does_not_depend_on_the_seed(small):
    np.testing.assert_array_equal(divide(small, "paper", 111).test, divide(small, "paper", 222).test)
    assert (divide(small, "random", 1).test != divide(small, "random", 2).test).any()


def test_folds_test_every_sample_once(small):
    tested = np.concatenate([divide(small, "folds", seed).test for seed in range(5)])
    assert sorted(tested) == list(range(len(small)))


def test_a_model_that_the_paper_does_not_have():
    with pytest.raises(ValueError, match="--protocol ours"):
        Experiment(**EXPERIMENT | {"model": "linear"})


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "x.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"x.jsonl, line 1"):
        read_results(tmp_path)


def test_features_of_shifted_copies_and_the_last_weights(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    target = np.arange(40) % 2
    sequence = rng.normal(size=(40, 96)) + 3 * target[:, None]
    copies = np.stack([sequence[:, 3 * c : 3 * c + 90] for c in range(3)], axis=2)
    data = Dataset(Series.from_array(copies), target, name="toy")
    settings = OurSettings(
        step=2, state=4, width=8, epochs=8, batch=8, features=Spectrogram(16, 8), copies=True, keep="last"
    )
    monkeypatch.setitem(SETTINGS, "toy", settings)
    monkeypatch.setattr("reproduction.train.load", lambda name: data)
    experiment = Experiment(**EXPERIMENT | {"sizes": None, "step": 2}, protocol="ours", split="random")
    paths = {"folder": tmp_path / "results", "work": tmp_path / "work", "own_process": False}
    line = run(experiment, **paths)
    assert line["test"]["accuracy"] == 1.0
    assert line["best_epoch"] == line["epochs"] == 8
    assert line["windows"] == 5  # 96 points again, so 11 frames, with 2 increments a window
    assert line["settings"]["copies"]
    assert line["settings"]["features"].startswith("Spectrogram(frame=16, hop=8")
    said = []
    assert run(experiment, **paths, say=said.append) == json.loads(json.dumps(line))  # found again as JSON holds it
    assert "is there" in said[0]
    with pytest.raises(ValueError, match="no shifted copies"):
        without_copies(Dataset(Series.from_array(rng.normal(size=(2, 9, 3))), [0, 1]))


def test_test_time_augmentation_is_the_same_series_cut_elsewhere_and_played_otherwise():
    rng = np.random.default_rng(0)
    rates = rng.uniform(3.0, 6.0, 20)
    series = Series.from_array(np.sin(rates[:, None, None] * np.arange(101)[:, None] / 10))
    data = Dataset(series, rates, name="sines", task="regression")
    split = Split(np.arange(10), np.arange(10, 15), np.arange(15, 20))
    stretch = TimeStretch(0.8, 1.25, rate=True)
    options = {"depth": 2, "step": 10, "basis": "words", "standardise": "sample", "seed": 0}
    inputs = augmented_inputs(data, split, **options, shifts=2, stretch=stretch, versions=3, speeds=(1.0, 0.8))
    ready = prepared(data, split, standardise="sample")
    plain = log_signatures(ready.values[split.test], 2, step=10)
    np.testing.assert_allclose(inputs.test.inputs[1], plain, atol=1e-6)  # float32
    assert [one.label_factor for one in inputs.test_time] == [1.0, 0.8, 0.8]
    np.testing.assert_allclose(inputs.test_time[1].test.target[:, 0], 0.8 * rates[split.test], rtol=1e-6)
    # 5, 10, ...; and 100 / 0.8 increments
    assert [one.test.inputs[1].shape[1] for one in inputs.test_time] == [11, 13, 13]
    # All are the same path: increments over all windows are those from the first point to the last.
    for one in inputs.test_time:
        ends = ready.values[split.test, -1, 1] - ready.values[split.test, 0, 1]
        np.testing.assert_allclose(one.test.inputs[1][..., 1].sum(axis=1), ends, atol=1e-5)
    drawn = [version.target[:, 0] / rates[split.train] for version in inputs.versions.versions]
    assert all(0.79 < factor < 1.26 for factors in drawn for factor in factors)
    assert np.ptp(drawn, axis=0).min() > 0  # every version at speeds of its own


def test_rhythms_by_a_distribution_over_rates(monkeypatch):
    """Sines of many rates, played faster and slower in training, seen at two speeds: the rate is learnt."""
    rng = np.random.default_rng(0)
    rates, times = rng.uniform(50, 110, 80), np.arange(400) / 25
    phases = rng.uniform(0, 2 * np.pi, (80, 1))
    waves = np.sin(2 * np.pi * rates[:, None] / 60 * times + phases) + 0.1 * rng.normal(size=(80, 400))
    ids = [f"r{i // 8}/{i}" for i in range(80)]
    series = Series.from_array(waves, times=np.tile(times, (80, 1)), channels=("PLETH",), ids=ids)
    data = Dataset(series, rates, name="BIDMC32HR")
    settings = OurSettings(
        step=5, state=32, width=32, epochs=25, batch=8, standardise="sample", loss="histogram", stretch=(0.7, 1.4),
        versions=3, speeds=(1.0, 0.8),
    )  # fmt: skip
    monkeypatch.setitem(SETTINGS, ("BIDMC32HR", "oscillators"), settings)
    experiment = Experiment(dataset="HR", model="oscillators", depth=2, step=5, seed=0, protocol="ours", split="random")
    line = train(experiment, data=data)
    # The mean of the labels is 15 beats off; one of the two speeds, not divided by its factor, would be some 8.
    assert line["test"]["mae"] < 5 < line["floors"]["training mean"]["mae"]


def test_time_is_standardised_where_the_tables_had_it_so(small):
    split = divide(small, "paper", 0)
    plain, standardised = (prepared(small, split, standardise_time=yes).values for yes in (False, True))
    time = standardised[split.train, :, 0]
    np.testing.assert_allclose([time.mean(), time.std()], [0.0, 1.0], atol=1e-6)  # float32 inputs
    np.testing.assert_allclose(standardised[..., 1:], plain[..., 1:], atol=1e-5)  # scaled once more, to the same
    models = {
        model: settings_of(Experiment(**EXPERIMENT | {"model": model}, protocol="paper"))
        for model in ("nrde", "odernn")
    }
    assert [values["standardise_time"] for values in models.values()] == [True, False]


def test_batches_that_are_never_shuffled_are_mixed_once(small, monkeypatch):
    """Neighbours in the file are neighbours in time: a batch of them would be of a few patients only."""
    seen = {}

    def look(model, training, validation, *, bugs, **_):
        seen[bool(bugs)] = np.asarray(training.target).ravel()
        raise KeyboardInterrupt

    monkeypatch.setattr("reproduction.train.fit_as_in_the_paper", look)
    for protocol in ("paper", "corrected"):
        with pytest.raises(KeyboardInterrupt):
            train(Experiment(**EXPERIMENT, protocol=protocol), Limits(epochs=1), data=small)
    in_order = np.asarray(small.target, np.float32).ravel()[divide(small, "paper", 0).train]
    np.testing.assert_array_equal(seen[False], in_order)
    assert (seen[True] != in_order).any()
    np.testing.assert_array_equal(np.sort(seen[True]), np.sort(in_order))


def test_variants_differ_from_paper_in_one_thing(small, monkeypatch):
    """`adjoint` in the gradients, and `later` in the values of time; the rest, first weights too, is the same."""
    seen = {}

    def look(model, training, validation, **_):
        def loss(model):
            return ((training.predictions(model) - training.target) ** 2).mean()

        seen[protocol] = model, training, *eqx.filter_value_and_grad(loss)(model)
        raise KeyboardInterrupt

    monkeypatch.setattr("reproduction.train.fit_as_in_the_paper", look)
    for protocol in ("paper", "adjoint", "later"):
        with pytest.raises(KeyboardInterrupt):
            train(Experiment(**EXPERIMENT, protocol=protocol), Limits(epochs=1), data=small)
    (_, inputs, loss, gradient), (_, same, same_loss, other) = seen["paper"], seen["adjoint"]
    for ours, theirs in zip(inputs.inputs, same.inputs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loss == same_loss
    exact, approximate = gradient.field.weight, other.field.weight
    difference = float(np.linalg.norm(exact - approximate) / np.linalg.norm(exact))
    assert 1e-5 < difference < 0.5  # not the same beyond rounding, and both gradients of one loss
    starts = seen["later"][1].inputs[0]
    np.testing.assert_array_equal(starts[:, 0], 0)
    np.testing.assert_array_equal(starts[:, 1:], inputs.inputs[0][:, 1:])
    assert (inputs.inputs[0][:, 0] < -1).all()


@pytest.mark.parametrize("protocol", ["adjoint", "later"])
def test_variants_are_not_of_the_ode_rnn(protocol):
    with pytest.raises(ValueError, match="Write --protocol paper"):
        Experiment(**EXPERIMENT | {"model": "odernn"}, protocol=protocol)
