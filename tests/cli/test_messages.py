"""What the library says in Python is said in flags at a shell."""

import pickle
import re

import numpy as np
import pytest

from neuralrde import Windows
from neuralrde.errors import ParameterError, as_python, notation, setting
from neuralrde.tools.cli.flags import as_flag

from .conftest import QUICK

PYTHON = re.compile(r"\bnp\.|=True|=False|=\[|FillForward|Series\.|\bread\(|_split\(|\w+=\"|\w+='")


@pytest.mark.parametrize(
    ("name", "value", "shell"),
    [
        ("columns", ["acc z", "b"], "--columns 'acc z,b'"),
        ("columns", [...], "--columns A,B,..."),
        ("header", False, "--no-header"),
        ("drop_unlabelled", True, "--drop-unlabelled"),
        ("wide", False, "--long"),
        ("id", "Unnamed: 0", "--id 'Unnamed: 0'"),
        ("decimal", ",", "--decimal ,"),
        ("every", 0.5, "--every 0.5"),
        ("every", None, "no --every"),
        ("every", ..., "--every ..."),
        ("learning_rate", -1.0, "--learning-rate -1.0"),
        ("random_state", np.int64(3), "--seed 3"),
        ("weight_decay", float("nan"), "--set optimizer.weight_decay=nan"),
        ("readout", "first", "--set model.readout=first"),
        ("closed_form", False, "--set closed_form=false"),
        ("patience", None, "--set patience=none"),
        ("fill", "forward", "--set transform.fill=forward"),
        ("shifts", 2, "--set windows.shifts=2"),
        ("windows", Windows(step=8, scales=(1, 4)), "--set windows=Windows(step=8, depth=2, scales=(1, 4))"),
        ("sex", "f", "sex='f'"),  # no option of ours
    ],
)
def test_settings_are_named_by_flags(name, value, shell):
    python = setting(name, value)
    with notation(as_flag):
        assert setting(name, value) == shell
    assert setting(name, value) == python == as_python(name, value)


def test_settings_without_a_value():
    assert setting("labels_id") == "labels_id="
    with notation(as_flag):
        assert (setting("labels_id"), setting("clip")) == ("--labels-id", "--set optimizer.clip")


def test_an_error_carries_its_data():
    error = ParameterError("step", 0, "at least 1", because="a window needs an increment", remedy="Write more.")
    again = pickle.loads(pickle.dumps(error))
    assert (again.parameter, again.value, again.expected, again.because) == ("step", 0, "at least 1", error.because)
    assert str(again) == "Got step=0; expected at least 1, because a window needs an increment. Write more."
    with notation(as_flag):
        assert str(again).startswith("Got --step 0; expected")


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
        (long_table(x=lambda i, k: ""), [], ["24 samples (23 of them copies"]),
        (long_table(rows=4), [], ["4 samples", "too few", "--split"]),
        (long_table(), ["--every", "2"], ["--step 8", "--every 2"]),
        (long_table(), ["--divide", "given"], ["--split", "divide it at random"]),
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
    (tmp_path / "new.csv").write_text(hearts.read_text("utf-8").replace(",x,y,", ",x,z,", 1))
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
