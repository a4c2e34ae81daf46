"""The closed form at the command line: alone as `--model closed-form`, and as what a neural model is compared with."""

import json
import tomllib

import numpy as np
import pytest

from neuralrde.datasets import Dataset, Split, order_of_events
from neuralrde.estimators import LogSignatureClassifier, LogSignatureFeatures, load
from neuralrde.tools.cli.evaluation import closed_form_baseline
from neuralrde.tools.cli.report import only_closed_form
from neuralrde.tools.cli.run import fit_closed_form

from .conftest import COLUMNS, QUICK

SMALL = ["--model", "closed-form", "--set", "model.draws=12"]


@pytest.fixture(scope="module")
def closed(hearts, tmp_path_factory):
    from neuralrde.tools.cli import main

    folder = tmp_path_factory.mktemp("runs") / "closed"
    assert main(["fit", str(hearts), *COLUMNS, *SMALL, "--out", str(folder)]) == 0
    return folder


def test_its_run_folder(closed):
    found = json.loads((closed / "metrics.json").read_text("utf-8"))
    assert (found["estimator"], found["model"]) == ("LogSignatureClassifier", "closed-form")
    assert set(found["parts"]) == {"train", "test"}  # nothing is chosen by a validation part: it is learned from
    split = json.loads((closed / "split.json").read_text("utf-8"))
    assert (len(split["train"]), split["validation"]) == (found["parts"]["train"]["samples"], [])
    assert [one["name"] for one in found["assessment"]["baselines"]][1:] == ["cheap model"]
    assert not (closed / "history.jsonl").exists()
    assert not (closed / "closed_form.nrde").exists()
    pictures = {file.name for file in (closed / "pictures").iterdir()}
    assert {"confusion.png", "surest_right.png"} <= pictures
    # A surest wrong one, if there is a wrong one.
    assert ("surest_wrong.png" in pictures) == (found["parts"]["test"]["accuracy"] < 1)
    assert "Surest right" in (closed / "report.html").read_text("utf-8")


def test_explain_says_why_of_the_series_that_is_named(closed, hearts, run, tmp_path):
    outcome = run("explain", closed, hearts, "--id", "p7", "--out", tmp_path / "p7.png", "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.json
    assert (found["id"], found["output"], set(found["contributions"])) == ("p7", "y first", {"x", "y", "(time)"})
    np.testing.assert_allclose(found["baseline"] + sum(found["contributions"].values()), found["value"], atol=1e-5)
    assert (tmp_path / "p7.png").read_bytes().startswith(b"\x89PNG")
    shown = run("explain", closed, "--out", tmp_path / "first.png").out  # the run's own data, and the first of them
    assert "from a baseline of" in shown
    wrong = run("explain", closed, hearts, "--id", "nobody")
    assert wrong.code == 2
    assert "Got --id nobody; expected one of the 60 series, such as p0, p1" in wrong.err


def test_its_settings_repeat_the_run(closed, run, tmp_path):
    settings = tomllib.loads((closed / "settings.toml").read_text("utf-8"))
    assert settings["model"]["name"] == "closed-form"
    assert settings["model"]["draws"] == 12
    outcome = run("fit", "--config", closed / "settings.toml", "--out", tmp_path / "again", "--no-plots")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "again" / "settings.toml").read_text("utf-8") == (closed / "settings.toml").read_text("utf-8")
    assert (tmp_path / "again" / "model.nrde").read_bytes() == (closed / "model.nrde").read_bytes()


def test_other_commands_take_its_file(closed, hearts, run, tmp_path):
    outcome = run("predict", closed, hearts, "--out", tmp_path / "predicted.csv")
    assert outcome.code == 0, outcome.err
    header, *rows = (tmp_path / "predicted.csv").read_text("utf-8").splitlines()
    assert header == "id,predicted,true,p(x first),p(y first)"
    assert len(rows) == 60
    assert "cheap model" in run("evaluate", closed).out
    assert "random log-signature features" in run("inspect", closed).out
    assert run("inspect", closed / "model.nrde", "--json").json["classes"] == "x first, y first"


@pytest.mark.long
def test_a_neural_model_is_compared_with_it(trained, run, hearts):
    found = json.loads((trained / "metrics.json").read_text("utf-8"))
    beside = found["assessment"]["baselines"][-1]
    assert beside["name"] == "closed form"
    model = load(trained / "closed_form.nrde")
    assert isinstance(model, LogSignatureClassifier)
    assert found["closed_form"]["seconds"] > 0
    alone = run("evaluate", trained / "closed_form.nrde", hearts, *COLUMNS, "--json").json
    assert alone["samples"] == 60  # and the file is a model like any other
    assert run("evaluate", trained, "--json").json["assessment"]["baselines"][-1] == beside


def test_the_first_result_comes_before_the_training(run, hearts, tmp_path):
    outcome = run("fit", hearts, *COLUMNS, *QUICK, "--epochs", 1, "--out", tmp_path / "run", "--no-plots")
    lines = outcome.out.splitlines()
    [first] = [k for k, line in enumerate(lines) if line.startswith("  closed form, in ")]
    [last] = [k for k, line in enumerate(lines) if line.startswith("NeuralRDEClassifier")]
    assert first < last
    assert "write --model closed-form" in outcome.out  # after one epoch no neural model is better


def test_folds(run, hearts, tmp_path):
    outcome = run("fit", hearts, *COLUMNS, *SMALL, "--folds", 2, "--out", tmp_path / "run", "--no-plots", "--json")
    assert outcome.code == 0, outcome.err
    assert len(outcome.json["folds"]) == 2
    assert outcome.json["parts"]["train"]["samples"] == 60
    assert not [sentence for sentence in outcome.json["assessment"]["verdict"] if "--folds" in sentence]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--epochs", "3"], "Got epochs with --model closed-form"),
        (["--depth", "2"], "Got windows with --model closed-form"),
        (["--set", "model.drawz=3"], "Did you mean 'draws'?"),
        (["--set", "model.draws=0"], "Got draws=0"),
        (["--resume"], "Run it again."),
    ],
)
def test_what_is_refused(run, hearts, tmp_path, arguments, said):
    outcome = run("fit", hearts, *COLUMNS, "--model", "closed-form", *arguments, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert said in outcome.err


def test_targets_at_points_are_refused(run, tmp_path):
    rows = [f"{i},{k},{i * k},{k / 7}" for i in range(20) for k in range(5)]
    (tmp_path / "points.csv").write_text("\n".join(["id,time,x,target", *rows]))
    outcome = run("fit", tmp_path / "points.csv", "--per-time", "--model", "closed-form", "--out", tmp_path / "run")
    assert (outcome.code, "expected one for each series" in outcome.err) == (2, True)


def test_features_alone_are_no_model(run, tmp_path, hearts):
    LogSignatureFeatures(draws=4).fit(np.random.default_rng(0).normal(size=(8, 20, 2))).save(tmp_path / "some.nrde")
    said = run("predict", tmp_path / "some.nrde", hearts).err
    assert "holds a LogSignatureFeatures; expected a classifier or a regressor" in said


def test_the_closed_form_learns_from_groups_and_from_what_would_validate(monkeypatch):
    """It is the estimator with its defaults on both parts, with the samples of a group left out together."""
    data = order_of_events(samples=30, length=32, seed=0)
    data = Dataset(data.series, data.target, classes=data.classes, groups=np.repeat(np.arange(10), 3), name="some")
    y = np.asarray(data.classes)[data.target]
    rows = Split(np.arange(0, 18), np.arange(18, 24), np.arange(24, 30))
    found = fit_closed_form(data, y, rows, seed=3)
    own = LogSignatureClassifier(random_state=3).fit(data[:24].series, y[:24], groups=data.groups[:24])
    assert found.estimator.penalty_ == own.penalty_
    assert np.array_equal(closed_form_baseline(found.estimator, data[24:]).predicted, own.predict(data[24:].series))
    monkeypatch.setattr("neuralrde.tools.cli.run._MOST", 12)
    assert found.seconds > 0
    assert fit_closed_form(data, y, rows, seed=3).estimator.penalty_ != own.penalty_


@pytest.mark.long
def test_a_neural_part_of_weight_zero_is_said(run, hearts, tmp_path, monkeypatch):
    """The run is the closed form then, after all the training: the verdict, `inspect` and the files say so."""
    monkeypatch.setattr("neuralrde.estimators.trainer.class_factors", lambda *_: [1.0, 0.0])
    out = tmp_path / "run"
    said = run("fit", hearts, *COLUMNS, *QUICK, "--set", "members=2", "--no-plots", "--out", out).out
    sentence = "he neural part has weight 0: this is the closed form (its weight is 1)"
    assert f"Verdict\n  - T{sentence}." in said
    assert f"Verdict\n  - T{sentence}." in run("evaluate", out).out
    assert f"t{sentence}" in run("inspect", out).out
    found = json.loads((out / "metrics.json").read_text("utf-8"))
    assert found["blend"] == [1.0, 0.0]
    assert found["assessment"]["verdict"][0] == f"T{sentence}."


def test_what_is_said_of_a_blend():
    assert only_closed_form((1.25, 0.0)) == [
        "The neural part has weight 0: this is the closed form (its weight is 1.25)."
    ]
    assert only_closed_form((0.8, 0.4)) == only_closed_form(None) == []


def test_columns_about_series_as_a_whole_are_found_said_and_remembered(tmp_path, capsys):
    """Only the sex tells who is ill; the run folder knows the column for other tables."""
    from neuralrde.tools.cli import main

    rng, rows = np.random.default_rng(0), ["patient,hour,pulse,sex,ill"]
    for patient in range(60):
        sex = "fm"[patient % 2]
        rows += [f"{patient},{hour},{rng.normal():.2f},{sex},{'no' if sex == 'f' else 'yes'}" for hour in range(6)]
    file, out = tmp_path / "stays.csv", tmp_path / "run"
    file.write_text("\n".join(rows))
    roles = ["--id", "patient", "--time", "hour", "--target", "ill"]
    assert main(["fit", str(file), *roles, *SMALL, "--out", str(out)]) == 0
    assert capsys.readouterr().out.count("static, because constant within each series: sex") == 1
    assert tomllib.loads((out / "settings.toml").read_text("utf-8"))["table"]["static"] == ["sex"]
    assert json.loads((out / "metrics.json").read_text("utf-8"))["parts"]["test"]["accuracy"] == 1.0
    assert "static=['sex']" in (out / "report.html").read_text("utf-8").replace("&#x27;", "'")
    new = tmp_path / "new.csv"
    new.write_text("patient,hour,pulse,sex\nx,0,0.1,m\nx,1,0.2,m\ny,0,0.3,f\ny,1,0.1,f\n")
    assert main(["predict", str(out), str(new), "--out", str(tmp_path / "p.csv")]) == 0
    assert [line.split(",")[:2] for line in (tmp_path / "p.csv").read_text().split()[1:]] == [["x", "yes"], ["y", "no"]]
    capsys.readouterr()
    assert main(["explain", str(out), str(new), "--id", "x", "--out", str(tmp_path / "e.png"), "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["contributions"]
    assert max(parts, key=lambda name: abs(parts[name])) == "sex"
