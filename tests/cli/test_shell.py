"""What the library says in Python is said in flags at a shell."""

import inspect
import re

import numpy as np
import pytest

from neuralrde.cli.shell import _MODEL, SET, in_flags
from neuralrde.estimators import NeuralRDEClassifier, NeuralRDERegressor

from .conftest import QUICK

PYTHON = re.compile(r"\bnp\.|=True|=False|=\[|FillForward|Series\.|\bread\(|_split\(|\w+=\"|\w+='")


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("Got columns=['acc z', 'b'] and no more", "Got --columns 'acc z,b' and no more"),
        ("Write `columns=[...]` without it", "Write --columns A,B,... without it"),
        ("Write header=False if the first row holds data.", "Write --no-header if the first row holds data."),
        ("Write `drop_unlabelled=True` to leave", "Write --drop-unlabelled to leave"),
        ("(`wide=True`), or a point (`wide=False`).", "(--wide), or a point (--long)."),
        ('Write `id="Unnamed: 0"` or the like', "Write --id 'Unnamed: 0' or the like"),
        ('expected one, `target="column"`.', "expected one, --target column."),
        ('`decimal=","` or `thousands=","`.', "--decimal , or --thousands ,."),
        ("Got every=0.5; expected", "Got --every 0.5; expected"),
        ("Got both step=8 and every=None; expected", "Got both --step 8 and no --every; expected"),
        ("Got learning_rate=-1.0; expected", "Got --learning-rate -1.0; expected"),
        ("Got weight_decay=nan; expected", "Got --set optimizer.weight_decay=nan; expected"),
        ("Got readout='first'; expected", "Got --set model.readout=first; expected"),
        ('for example `read(path, task="regression")`.', "for example --task regression."),
        ("Got [np.float64(1.5), np.str_('a')]", "Got [1.5, 'a']"),
        ('Write `duplicates="mean"` or `duplicates="last"`.', "Write --duplicates mean or --duplicates last."),
        ("Write closed_form=False to train one.", "Write --set closed_form=false to train one."),
        ("Write patience=None.", "Write --set patience=none."),
        # An object is shown as it is, all of it.
        (
            "Got windows=Windows(step=None, depth=2, scales=(1, 4)); it was cut into Windows(step=1, depth=3).",
            "Got --set windows=Windows(step=None, depth=2, scales=(1, 4)); it was cut into Windows(step=1, depth=3).",
        ),
        # What is no option of ours stays as it is.
        ("the channel sex=f and `model(depth=2, key=key)`", "the channel sex=f and `model(depth=2, key=key)`"),
    ],
)
def test_translations(python, shell):
    assert in_flags(python) == shell


def test_every_parameter_of_the_estimators_is_known():
    names = {*inspect.signature(NeuralRDEClassifier).parameters, *inspect.signature(NeuralRDERegressor).parameters}
    assert names - {"random_state", "verbose", "warm_start"} <= {*_MODEL, *SET}


def long_table(rows=24, points=12, **columns):
    """Lines of a table; a column is a function of the series and the point."""
    rng = np.random.default_rng(0)
    usual = {"id": lambda i, k: f"s{i}", "time": lambda i, k: k, "x": lambda i, k: round(rng.normal(), 3)}
    usual |= {"label": lambda i, k: "ab"[i % 2]} | columns
    lines = [",".join(usual)]
    lines += [",".join(str(f(i, k)) for f in usual.values()) for i in range(rows) for k in range(points)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("table", "arguments", "words"),
    [
        (long_table(), ["--columns", "z"], ["z"]),
        (long_table(label=lambda i, k: "ab"[k % 2]), [], ["--per-time"]),
        (long_table(y=lambda i, k: ""), [], ["'y'", "--columns"]),
        (long_table(x=lambda i, k: "inf" if k == 3 else k), [], ["infinity"]),
        (long_table(label=lambda i, k: "only"), [], ["one class", "'only'"]),
        (long_table(x=lambda i, k: ""), [], ["of which 1 is different"]),
        (long_table(rows=4), [], ["4 samples", "too few", "--split"]),
        (long_table(), ["--every", "2"], ["--step 8", "--every 2"]),
        (long_table(), ["--divide", "given"], ["--divide random, class, group or order"]),
        (long_table(), ["--divide", "group"], ["--group"]),
        (long_table().replace("x,label", "x,x"), [], ["--no-header"]),
    ],
)  # fmt: skip
def test_at_the_shell(run, tmp_path, table, arguments, words):
    (tmp_path / "t.csv").write_text(table)
    outcome = run("fit", tmp_path / "t.csv", *QUICK, *arguments, "--epochs", 1, "--out", tmp_path / "run", "--no-plots")
    assert outcome.code in (1, 2), outcome.out
    assert not PYTHON.search(outcome.err), outcome.err
    for word in words:
        assert word in outcome.err


def test_a_column_that_new_data_lack(run, trained, hearts, tmp_path):
    (tmp_path / "new.csv").write_text(hearts.read_text().replace(",x,y,", ",x,z,", 1))
    outcome = run("predict", trained, tmp_path / "new.csv", "--out", "-")
    assert outcome.code == 1
    assert "new.csv" in outcome.err
    assert "'y'" in outcome.err
    assert "was trained on" in outcome.err
    assert not PYTHON.search(outcome.err)


@pytest.mark.long
def test_one_point_per_series(run, tmp_path):
    """By the default model, as it comes."""
    (tmp_path / "points.csv").write_text(long_table(points=1))
    arguments = ["--id", "id", "--time", "time", "--target", "label", "--step", 1, "--epochs", 1]
    outcome = run("fit", tmp_path / "points.csv", *arguments, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    assert "No picture of windows, because every series has only one point." in outcome.out
    assert "cuts of shape" not in outcome.out
    assert (tmp_path / "run" / "pictures" / "confusion.png").exists()
    assert "MultiScaleRDE" in run("inspect", tmp_path / "run").out
    predicted = run("predict", tmp_path / "run", tmp_path / "points.csv", "--out", "-")
    assert len(predicted.out.splitlines()) == 25, predicted.err
    assert run("evaluate", tmp_path / "run", "--json").json["part"] == "test"
