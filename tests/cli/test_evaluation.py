"""What `fit` and `evaluate` say about a result, and where it is kept."""

import csv
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from neuralrde import Series
from neuralrde.datasets import Dataset, Split
from neuralrde.tools._lock import is_locked
from neuralrde.tools.cli import main
from neuralrde.tools.cli.console import Refusal
from neuralrde.tools.cli.evaluation import PredictionTable, pooled
from neuralrde.tools.cli.loading import divided, divided_for_all, divided_into_folds
from neuralrde.tools.cli.run import Run
from neuralrde.tools.cli.settings import RunSettings

from .conftest import COLUMNS, QUICK

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Series of noise that say nothing about their class, which is "no" in four of five cases."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("noise") / "noise.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"v{k}" for k in range(16)), "label"])
        writer.writerows(
            [f"s{i}", *np.round(rng.normal(size=16), 3), "yes" if i % 5 == 0 else "no"] for i in range(100)
        )
    return path


@pytest.fixture(scope="module")
def useless(noise, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "noise"
    assert main(["fit", str(noise), *QUICK, "--epochs", "2", "--learning-rate", "1e-6", "--out", str(out)]) == 0
    return out


def test_fit_says_that_a_majority_is_no_result(run, noise, tmp_path):
    outcome = run(
        "fit", noise, *QUICK, "--epochs", 2, "--learning-rate", "1e-6", "--out", tmp_path / "run", "--no-plots"
    )
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert [line for line in lines if line.startswith("  always `no`")]
    assert [line for line in lines if line.startswith("  cheap model")]
    assert "no better than always saying `no` (accuracy 0.8000)" in outcome.out
    assert "95 % interval" in outcome.out
    assert "Try other windows" in outcome.out


def test_the_verdict_is_kept(useless):
    found = json.loads((useless / "metrics.json").read_text("utf-8"))
    assert found["assessment"]["part"] == "test"
    assert [one["name"] for one in found["assessment"]["baselines"]] == ["always `no`", "cheap model", "closed form"]
    assert found["assessment"]["verdict"][0].endswith("no better than always saying `no` (accuracy 0.8000).")
    assert found["training_targets"]["counts"] == {"no": 56, "yes": 14}
    low, high = found["assessment"]["intervals_95"]["accuracy"]
    assert low < found["parts"]["test"]["accuracy"] < high


def test_evaluate_says_it_too(run, useless, noise, tmp_path):
    recorded = json.loads((useless / "metrics.json").read_text("utf-8"))["assessment"]
    found = run("evaluate", useless, "--json").json["assessment"]
    assert found["baselines"] == recorded["baselines"]
    assert found["verdict"][0] == recorded["verdict"][0]
    assert "Verdict" in run("evaluate", useless).out
    # Of other data the trivial answer is known, from the classes of the training set, and what the folder holds.
    other = tmp_path / "other.csv"
    other.write_text(noise.read_text("utf-8").replace("s9", "t9"))
    with other.open("a") as file:
        file.write("extra," + ",".join(["0.5"] * 16) + ",no\n")
    found = run("evaluate", useless, other, "--json").json
    assert (found["part"], found["samples"]) == ("all", 101)
    assert [one["name"] for one in found["assessment"]["baselines"]] == ["always `no`", "closed form"]
    # A model file knows nothing, and on what a model was trained on there is no verdict.
    assert "assessment" not in run("evaluate", useless / "model.nrde", noise, "--json").json
    outcome = run("evaluate", useless, "--all")
    assert "also those it was trained on" in outcome.out
    assert "Verdict" not in outcome.out


def test_folds(run, hearts, tmp_path):
    out = tmp_path / "run"
    outcome = run("fit", hearts, *COLUMNS, *QUICK, "--epochs", 1, "--folds", 3, "--out", out)
    assert outcome.code == 0, outcome.err
    assert "fold 3 of 3" in outcome.out
    assert "±" in outcome.out
    found = json.loads((out / "metrics.json").read_text("utf-8"))
    assert [fold["samples"] for fold in found["folds"]] == [20, 20, 20]
    assert found["parts"].keys() == {"train", "validation"}
    assert sum(part["samples"] for part in found["parts"].values()) == 60
    assert (found["assessment"]["part"], found["assessment"]["units"]["count"]) == ("folds", 60)
    mean = np.mean([fold["accuracy"] for fold in found["folds"]])
    assert found["assessment"]["value"] == pytest.approx(mean)  # folds of one size
    rows = list(csv.DictReader((out / "predictions.csv").read_text("utf-8").splitlines()))
    assert [row["id"] for row in rows] == [f"p{k}" for k in range(60)]
    assert not any("--folds" in sentence for sentence in found["assessment"]["verdict"])
    # There is no test part, so the run's own data flatter it.
    refused = run("evaluate", out)
    assert refused.code == 1
    assert "trained on all of its data" in refused.err
    assert run("fit", "--resume", "--out", out).code == 2


def dataset(samples=30, **options):
    values = np.random.default_rng(0).normal(size=(samples, 5, 1))
    return Dataset(Series(values, times=options.pop("times", None)), np.arange(samples) % 3, **options)


def test_folds_keep_groups_together():
    data = dataset(groups=np.arange(30) // 3)
    splits, told = divided_into_folds(data, 5, "auto", 0)
    tested = []
    for split in splits:
        parts = [set(np.asarray(data.groups)[rows].tolist()) for rows in split]
        assert sum(map(len, parts)) == len(set.union(*parts)) == 10
        tested += split.test.tolist()
    assert sorted(tested) == list(range(30))
    assert told == "by group"


def test_folds_have_each_class_in_proportion():
    data = dataset()
    for split in divided_into_folds(data, 5, "auto", 0)[0]:
        assert np.bincount(np.asarray(data.target)[split.test]).tolist() == [2, 2, 2]


def test_folds_keep_twins_together():
    values = np.repeat(np.random.default_rng(0).normal(size=(15, 5, 1)), 2, axis=0)
    data = Dataset(Series(values), np.linspace(0, 1, 30))
    for split in divided_into_folds(data, 3, "auto", 0)[0]:
        assert (split.test[::2] + 1 == split.test[1::2]).all()


def test_too_many_folds():
    with pytest.raises(ValueError, match="10 groups"):
        divided_into_folds(dataset(groups=np.arange(30) // 3), 11, "auto", 0)
    with pytest.raises(Refusal, match="--divide order"):
        divided_into_folds(dataset(), 5, "order", 0)


def test_the_order_of_time():
    times = np.arange(5.0) + np.random.default_rng(1).permutation(20)[:, None]
    split, _ = divided(dataset(20, times=times), "order", 0)
    starts = [times[rows, 0] for rows in split]
    assert [len(rows) for rows in split] == [14, 3, 3]
    assert starts[0].max() < starts[1].min() <= starts[1].max() < starts[2].min()
    assert len(divided_for_all(dataset(), "order", 0).test) == 0


def test_pooled_folds_know_what_each_knew():
    def of(classes, sample):
        n = len(sample)
        names = np.array([classes[0]] * n)
        return PredictionTable(np.array(sample), np.arange(n), None, names, np.full((n, 2), 0.5), classes, names, None)

    found = pooled([(of(["a", "b"], [3, 1]), np.array([3, 1])), (of(["b", "c"], [0]), np.array([0]))])
    assert found.classes == ["a", "b", "c"]
    assert found.ids.tolist() == [0, 1, 3]
    assert found.probability.tolist() == [[0.0, 0.5, 0.5], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]


def test_points_without_a_class(run, tmp_path):
    rng = np.random.default_rng(0)
    with (tmp_path / "points.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "time", "x", "label"])
        for k in range(14):
            writer.writerows([k, t, rng.normal(), ("down", "up", "")[rng.integers(3)]] for t in range(20))
    out = tmp_path / "run"
    outcome = run("fit", tmp_path / "points.csv", "--per-time", *QUICK, "--epochs", 1, "--out", out)
    assert outcome.code == 0, outcome.err
    found = json.loads((out / "metrics.json").read_text("utf-8"))
    rows = list(csv.DictReader((out / "predictions.csv").read_text("utf-8").splitlines()))
    assert {row["true"] for row in rows} == {"", "down", "up"}
    assert found["parts"]["test"]["samples"] == sum(row["true"] != "" for row in rows) < len(rows)
    assert [one["name"] for one in found["assessment"]["baselines"]][1:] == ["previous true target", "cheap model"]
    assert found["assessment"]["units"] == {"count": 2, "of": "series"}


def test_a_reader_that_goes_does_not_end_a_training(hearts, tmp_path):
    """`neuralrde fit --progress json 2>&1 | head -1`."""
    out = tmp_path / "run"
    command = [sys.executable, "-u", "-m", "neuralrde", "fit", str(hearts), *COLUMNS, *QUICK, "--epochs", "40"]
    process = subprocess.Popen(
        [*command, "--progress", "json", "--no-plots", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=300) == 0
    finally:
        process.kill()
    assert len((out / "history.jsonl").read_text("utf-8").splitlines()) > 1
    assert (out / "metrics.json").exists()


@pytest.mark.parametrize(("takes", "validation"), [(True, 0), (True, 3), (False, 0)])
def test_groups_are_for_an_estimator_that_leaves_out_series_by_itself(takes, validation):
    class Fake(BaseEstimator):
        def __init__(self, verbose=None):
            self.verbose = verbose

        if takes:

            def fit(self, X, y, *, validation=None, groups=None, listeners=()):
                return groups
        else:

            def fit(self, X, y, *, validation=None, listeners=()):
                return None

    data = dataset(groups=np.arange(30) // 3)
    rows = Split(np.arange(20), np.arange(20, 20 + validation), np.arange(25, 30))
    found = Run(RunSettings(), data, np.arange(30), rows, estimator=Fake()).fit(rows)
    expected = (np.arange(20) // 3).tolist() if takes else None
    assert (None if found is None else found.tolist()) == expected


def test_termination_has_its_exit_code(run, hearts, tmp_path, monkeypatch):
    class Terminated(KeyboardInterrupt):
        pass

    def stop(*_, **__):
        raise Terminated

    monkeypatch.setattr("neuralrde.tools.cli.run.Run.fit", stop)
    outcome = run("fit", hearts, *COLUMNS, *QUICK, "--out", tmp_path / "run")
    assert outcome.code == 143 == 128 + signal.SIGTERM
    assert f"Terminated. Go on with `neuralrde fit --resume --out {tmp_path / 'run'}`." in outcome.err
    assert not is_locked(tmp_path / "run" / ".lock")
    monkeypatch.setattr("neuralrde.tools.cli.proposal.open_data", stop)
    outcome = run("inspect", hearts)
    assert (outcome.code, outcome.err) == (143, "neuralrde: Terminated.\n")


def test_an_interrupt_before_training(run, hearts, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("neuralrde.tools.cli.proposal.open_data", stop)
    outcome = run("inspect", hearts)
    assert (outcome.code, outcome.err) == (130, "neuralrde: Interrupted.\n")


def test_a_reader_that_has_had_enough():
    """`neuralrde data list | head -1` is no failure, and says nothing."""
    command = [sys.executable, "-u", "-m", "neuralrde", "data", "list"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    said = process.stderr.read()
    assert (process.wait(timeout=60), said) == (0, b"")
