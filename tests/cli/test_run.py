"""fit, then all that can be done with a run."""

import csv
import json
import re
import shlex
import subprocess
import sys
import time
import tomllib

import jax
import numpy as np
import pytest

from neuralrde.estimators import load
from neuralrde.tools.cli.evaluation import PredictionTable, write_csv
from neuralrde.training.listeners import ProgressLines

from .conftest import COLUMNS, QUICK, SMALL


def test_a_run_folder_holds_everything(trained):
    names = {file.name for file in trained.iterdir()} - {".lock"}
    assert names == {
        "settings.toml", "versions.json", "split.json", "checkpoint.nrde", "history.jsonl", "model.nrde",
        "metrics.json", "predictions.csv", "pictures", "closed_form.nrde",
        "report.html",
    }  # fmt: skip
    assert {file.name for file in (trained / "pictures").iterdir()} == {
        "learning_curves.png", "confusion.png", "windows.png",
    }  # fmt: skip
    settings = tomllib.loads((trained / "settings.toml").read_text("utf-8"))
    assert settings["table"] == {"id": "patient", "time": "hour", "target": "ill", "columns": ["x", "y"]}
    assert (settings["windows"]["step"], settings["windows"]["depth"], settings["seed"]) == (8, 2, 0)
    metrics = json.loads((trained / "metrics.json").read_text("utf-8"))
    assert metrics["parts"]["test"].keys() >= {"samples", "accuracy"}
    assert len((trained / "history.jsonl").read_text("utf-8").splitlines()) == metrics["epochs"] == 6
    assert {"neuralrde", "jax", "python", "command"} <= json.loads(
        (trained / "versions.json").read_text("utf-8")
    ).keys()


def test_parts_do_not_overlap(trained):
    split = json.loads((trained / "split.json").read_text("utf-8"))
    rows = [set(split[part]) for part in ("train", "validation", "test")]
    assert sum(map(len, rows)) == len(set.union(*rows)) == 60


def test_evaluate_takes_the_test_samples_of_the_runs_own_data(run, trained, hearts):
    found = run("evaluate", trained, hearts, *COLUMNS, "--json").json
    recorded = json.loads((trained / "metrics.json").read_text("utf-8"))["parts"]["test"]
    assert found["part"] == "test"
    assert found["accuracy"] == recorded["accuracy"]
    assert run("evaluate", trained, hearts, *COLUMNS, "--all", "--json").json["samples"] == 60
    # A model file knows nothing of a split.
    assert run("evaluate", trained / "model.nrde", hearts, *COLUMNS, "--json").json["part"] == "all"


def test_predict_writes_what_the_model_says(run, trained, hearts, tmp_path):
    out = tmp_path / "new" / "answers.csv"
    outcome = run("predict", trained, hearts, *COLUMNS, "--out", out)
    assert outcome.code == 0, outcome.err
    rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    assert [row["id"] for row in rows] == [f"p{i}" for i in range(60)]
    for row in rows:
        assert row["predicted"] == max(("x first", "y first"), key=lambda name, row=row: float(row[f"p({name})"]))
    assert run("predict", trained, hearts, *COLUMNS, "--out", "-").out == out.read_text("utf-8")


def test_predict_needs_no_target(run, trained, hearts, tmp_path):
    table = [line.rsplit(",", 1)[0] for line in hearts.read_text("utf-8").splitlines()]
    (tmp_path / "new.csv").write_text("\n".join(table) + "\n")
    outcome = run("predict", trained, tmp_path / "new.csv", *COLUMNS[:4], "--out", "-")
    assert outcome.out.splitlines()[0] == "id,predicted,p(x first),p(y first)"
    assert run("evaluate", trained, tmp_path / "new.csv", *COLUMNS[:4]).code == 1


def test_a_run_remembers_which_column_is_what(run, trained, hearts, tmp_path):
    named = run("predict", trained, hearts, *COLUMNS, "--out", "-").out
    assert run("predict", trained, hearts, "--out", "-").out == named
    # Columns that the run has not seen, and in another order; and no target.
    with (tmp_path / "new.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        for row in csv.reader(hearts.read_text("utf-8").splitlines()):
            writer.writerow(["a remark", row[3], row[2], *row[:2]])
    rows = list(csv.reader(run("predict", trained, tmp_path / "new.csv", "--out", "-").out.splitlines()))
    assert rows[0] == ["id", "predicted", "p(x first)", "p(y first)"]
    assert [row[3:] for row in csv.reader(named.splitlines())] == [row[2:] for row in rows]
    # What a flag says counts, also where the run used that column for something else.
    other = run("predict", trained, hearts, "--id", "patient", "--target", "hour", "--out", "-")
    assert other.code == 1
    assert "hour" in other.err


def test_evaluate_without_data_takes_the_runs_own(run, trained):
    recorded = json.loads((trained / "metrics.json").read_text("utf-8"))["parts"]["test"]
    assert run("evaluate", trained, "--json").json["accuracy"] == recorded["accuracy"]
    outcome = run("evaluate", trained / "model.nrde")
    assert outcome.code == 2
    assert "folder of a run" in outcome.err


def test_inspect_data(run, hearts):
    outcome = run("inspect", hearts, *COLUMNS)
    for word in ("60 samples", "31 to 33", "evenly spaced", "--depth 2 --step 1", "1 channel with missing values"):
        assert word in outcome.out
    found = run("inspect", hearts, *COLUMNS, "--json").json
    assert [channel["name"] for channel in found["channels"]] == ["x", "y"]
    assert found["channels"][0]["missing"] > 0 == found["channels"][1]["missing"]


@pytest.mark.parametrize("file", ["", "model.nrde"])
def test_inspect_a_model(run, trained, file):
    outcome = run("inspect", trained / file)
    for word in ("NeuralRDEClassifier", "x first, y first", "8 points", "6 epochs", "2 channels"):
        assert word in outcome.out


def test_resume_goes_on_to_where_an_uninterrupted_run_ends(run, trained, hearts, tmp_path):
    out = tmp_path / "short"
    short = run("fit", hearts, *COLUMNS, *QUICK, "--time-budget", "1e-9", "--out", out, "--no-plots", "--json").json
    assert short["epochs"] == 1
    full = run("fit", "--resume", "--out", out, "--no-plots", "--json")
    assert full.code == 0, full.err
    assert full.json["epochs"] == 6
    one, other = load(out / "model.nrde"), load(trained / "model.nrde")
    for left, right in zip(jax.tree.leaves(one.model_), jax.tree.leaves(other.model_), strict=True):
        np.testing.assert_array_equal(left, right)


def test_settings_of_a_run_repeat_it(run, trained, tmp_path):
    again = run("fit", "--config", trained / "settings.toml", "--out", tmp_path / "again", "--no-plots", "--json")
    assert again.code == 0, again.err
    assert again.json["parts"] == json.loads((trained / "metrics.json").read_text("utf-8"))["parts"]


def test_flags_win_over_the_file(run, trained, tmp_path):
    arguments = ["fit", "--config", trained / "settings.toml", "--epochs", "1", "--set", "patience=none", "--no-plots"]
    out = tmp_path / "one"
    assert run(*arguments, "--out", out, "--json").json["epochs"] == 1
    settings = tomllib.loads((out / "settings.toml").read_text("utf-8"))
    assert settings["training"]["patience"] == "none"


@pytest.mark.long
def test_a_regression(run, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 17)).cumsum(axis=1)
    rows = [",".join([*(f"{v:.4f}" for v in row), f"{row[-1]:.4f}"]) for row in values]
    (tmp_path / "walks.csv").write_text(",".join([*(f"v{k}" for k in range(17)), "target"]) + "\n" + "\n".join(rows))
    out = tmp_path / "run"
    found = run("fit", tmp_path / "walks.csv", *QUICK, "--out", out, "--json")
    assert found.code == 0, found.err
    assert found.json["parts"]["test"].keys() == {"samples", "rmse", "mae", "r2"}
    assert (out / "pictures" / "predicted_against_true.png").exists()
    assert run("evaluate", out, tmp_path / "walks.csv", "--json").json["rmse"] == found.json["parts"]["test"]["rmse"]


def test_progress_for_machines(run, hearts, tmp_path):
    options = ["--out", tmp_path / "run", "--no-plots", "--progress", "json"]
    outcome = run("fit", hearts, *COLUMNS, *QUICK, *options, "--json")
    assert outcome.code == 0, outcome.err
    epochs = [json.loads(line)["epoch"] for line in outcome.err.splitlines()]
    assert epochs == list(range(1, outcome.json["epochs"] + 1))


@pytest.mark.filterwarnings("default:With windows of")  # a label at every point, and longer windows
def test_a_run_remembers_labels_at_each_point(run, tmp_path):
    rng = np.random.default_rng(0)
    with (tmp_path / "points.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "time", "x", "label"])
        writer.writerows([k, t, rng.normal(), ("down", "up")[rng.integers(2)]] for k in range(12) for t in range(20))
    options = ["--per-time", *QUICK, "--epochs", 1, "--out", tmp_path / "run", "--no-plots"]
    assert run("fit", tmp_path / "points.csv", *options).code == 0
    assert run("evaluate", tmp_path / "run", tmp_path / "points.csv", "--all", "--json").json["samples"] == 240
    (tmp_path / "new.csv").write_text("id,time,x\na,0,1\na,1,2\na,2,3\n")
    assert run("predict", tmp_path / "run", tmp_path / "new.csv", "--out", "-").out.count("\na,") == 3


@pytest.mark.long
def test_one_row_of_a_wide_table(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [[k, *np.round(rng.normal(size=12).cumsum(), 3), ("calm", "wild")[k % 2]] for k in range(24)]
    header = ["id", *(f"t{k}" for k in range(12)), "label"]
    for name, some in (("wide", rows), ("one", rows[:1])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *some])
    assert run("fit", tmp_path / "wide.csv", *QUICK, "--step", 4, "--out", tmp_path / "run", "--no-plots").code == 0
    outcome = run("predict", tmp_path / "run", tmp_path / "one.csv", "--out", "-")
    assert outcome.code == 0, outcome.err
    assert len(outcome.out.splitlines()) == 2


@pytest.mark.long
def test_a_log_says_how_far_it_is(run, hearts, tmp_path, monkeypatch):
    """Without a terminal no bar is shown: a line per half minute instead, here per twentieth of a second."""
    monkeypatch.setattr(ProgressLines, "every", 0.05)
    jax.clear_caches()  # other tests have compiled this
    long = [*QUICK, "--epochs", 40, "--set", "patience=none", "--no-plots"]
    lines = run("fit", hearts, *COLUMNS, *long, "--out", tmp_path / "run").out.splitlines()
    assert "  now the neural model, which is compiled first ..." in lines
    told = [line for line in lines if re.match(r"  (compil|epoch)", line)]
    assert re.fullmatch(r"  compiling, for 0 s so far \.\.\.", told[0])
    assert any(
        re.fullmatch(r"  epoch \d+ of 40, loss [\d.]+, validation loss [\d.]+, at most \d+ s left", a) for a in told
    )
    quiet = run("fit", hearts, *COLUMNS, *long, "--epochs", 2, "--out", tmp_path / "quiet", "--progress", "none")
    assert "epoch 1 of" not in quiet.out
    assert run("fit", hearts, *COLUMNS, *long, "--epochs", 2, "--out", tmp_path / "json", "--json").json["epochs"] == 2


def test_what_progress_lines_say_of_the_time_left():
    progress = ProgressLines([].append)
    progress.start(epochs=100, steps=1, done=10)
    progress.close()
    assert progress._state().startswith("compiling, for 0 s so far")
    progress.step(examples=1)
    assert progress._state() == "epoch 11 of 100 ..."
    for seconds, left in ((10, "80 s"), (30, "4 min"), (3000, "6.7 h")):
        progress.compiled = time.monotonic() - seconds
        progress.epoch({"epoch": 20, "loss": 0.51234})
        assert progress._state() == f"epoch 20 of 100, loss 0.5123, at most {left} left"


def test_a_picture_that_cannot_be_drawn_spoils_nothing(run, hearts, tmp_path, monkeypatch):
    monkeypatch.setattr("neuralrde.tools.cli.run.draw_predictions", lambda *_, **__: 1 / 0)
    outcome = run("fit", hearts, *COLUMNS, *QUICK, "--epochs", 1, "--out", tmp_path / "run", "--json")
    assert outcome.code == 0
    assert outcome.json["parts"]["test"]["samples"] > 0


def test_a_run_from_a_store(run, hearts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("prepare", hearts, "hearts.store", *COLUMNS, "--step", 8, "--model", "neural-rde").code == 0
    found = run("fit", "hearts.store", *SMALL, "--epochs", 2, "--out", "run")
    assert found.code == 0, found.err
    assert "Run folder: run" in found.out
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
    assert (metrics["model"], metrics["epochs"], len(metrics["store"])) == ("neural-rde", 2, 32)
    assert [one["name"] for one in metrics["assessment"]["baselines"]] == ["always `x first`"]
    assert {file.name for file in (tmp_path / "run" / "pictures").iterdir()} == {"learning_curves.png", "confusion.png"}
    assert run("predict", "run", "hearts.store", "--json").json["rows"] == 60
    predicted = list(csv.DictReader((tmp_path / "predictions.csv").read_text("utf-8").splitlines()))
    tested = list(csv.DictReader((tmp_path / "run" / "predictions.csv").read_text("utf-8").splitlines()))
    assert [row for row in predicted if row["id"] in {row["id"] for row in tested}] == tested
    # A picture that fails spoils no run, wherever its series are.
    monkeypatch.setattr("neuralrde.tools.cli.run.draw_curves", lambda *_, **__: 1 / 0)
    assert run("fit", "hearts.store", *SMALL, "--epochs", 1, "--out", "again").code == 0
    for flags, what in ((["--folds", 3], "--folds"), (["--model", "closed-form"], "--model closed-form")):
        refused = run("fit", "hearts.store", *flags)
        assert (refused.code, f"Got {what} for a store" in refused.err) == (2, True)


@pytest.mark.long
@pytest.mark.parametrize(("model", "epochs"), [("neural-rde", 60), ("multi-scale-rde", 15)])
def test_a_stopped_run_of_a_store_goes_on_as_it_says(run, hearts, tmp_path, monkeypatch, model, epochs):
    """SIGTERM, as a scheduler sends it; and a folder's name with a space, which the command must quote."""
    monkeypatch.chdir(tmp_path)
    assert run("prepare", hearts, "hearts.store", *COLUMNS, "--model", model).code == 0
    options = ["--epochs", str(epochs), "--set", "patience=none", "--no-plots", "--out", "my run", "--model", model]
    command = [sys.executable, "-m", "neuralrde", "fit", "hearts.store", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "my run" / "checkpoint.nrde").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.terminate()
        said = process.communicate(timeout=120)[1]
    finally:
        process.kill()
    assert process.returncode == 143, said
    program, *arguments = shlex.split(said.split("`")[-2])
    assert program == "neuralrde"
    again = run(*arguments, "--json")
    assert again.code == 0, again.err
    assert again.json["epochs"] == epochs


def test_small_probabilities_are_no_zeros(tmp_path):
    sure = np.array([[1 - 3e-9, 3e-9], [0.25, 0.75]])
    rows = np.arange(2)
    table = PredictionTable(rows, rows, None, np.array(["a", "b"]), sure, ["a", "b"], None, None)
    write_csv(table, tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text("utf-8").splitlines()[1:] == ["0,a,1.0,3e-09", "1,b,0.25,0.75"]


def test_classes_that_the_model_does_not_know(run, trained, hearts, tmp_path):
    (tmp_path / "other.csv").write_text(hearts.read_text("utf-8").replace(" first", " last"))
    outcome = run("evaluate", trained, tmp_path / "other.csv")
    assert outcome.code == 1
    assert "none of which the model knows" in outcome.err


def walks(labels, points=12, seed=0):
    return [
        [label, *np.round(np.random.default_rng(seed + k).normal(size=points).cumsum(), 3)]
        for k, label in enumerate(labels)
    ]


def written(file, rows):
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows(rows)
    return file


def test_a_run_remembers_columns_without_names(run, tmp_path):
    """A row a series and its class first, as the UCR archive has them: the class is no point."""
    rows = walks([1, 2] * 12)
    data, out = written(tmp_path / "wide.csv", rows), tmp_path / "run"
    assert run("fit", data, "--target", 0, *QUICK, "--step", 4, "--out", out, "--no-plots").code == 0
    named = run("predict", out, data, "--target", 0, "--out", "-").out
    assert "true" in named.splitlines()[0]
    assert run("predict", out, data, "--out", "-").out == named


def test_columns_without_names_in_a_long_table(run, tmp_path):
    rows = [[k, t, value, 1 + k % 2] for k, row in enumerate(walks([0] * 24)) for t, value in enumerate(row[1:])]
    data, out = written(tmp_path / "long.csv", rows), tmp_path / "run"
    flags = ["--id", 0, "--time", 1, "--target", 3]
    assert run("fit", data, *flags, *QUICK, "--step", 4, "--out", out, "--no-plots").code == 0
    named = run("predict", out, data, *flags, "--out", "-").out
    assert len(named.splitlines()) == 25
    assert run("predict", out, data, "--out", "-").out == named


def test_a_long_table_of_x0_is_not_wide(run, tmp_path):
    rows = [[k, x, -x, "ab"[k % 2]] for k, row in enumerate(walks([0] * 24)) for x in row[1:]]
    data, out = written(tmp_path / "long.csv", [["id", "x0", "x1", "label"], *rows]), tmp_path / "run"
    assert run("fit", data, "--columns", "x0", *QUICK, "--step", 4, "--out", out, "--no-plots").code == 0
    assert tomllib.loads((out / "settings.toml").read_text("utf-8"))["table"] == {"columns": ["x0"]}
    assert len(run("predict", out, data, "--out", "-").out.splitlines()) == 25


def test_a_flag_takes_a_column_from_what_the_run_remembers(run, trained, hearts):
    """From its channels too."""
    outcome = run("predict", trained, hearts, "--target", "y", "--out", "-")
    assert outcome.code == 1
    assert "in column 'y'; expected one for all its rows" in outcome.err
    outcome = run("inspect", hearts, "--id", "patient", "--time", "hour", "--columns", "x,y", "--target", "y")
    assert outcome.code == 1
    assert "Leave 'y' out of the columns" in outcome.err
