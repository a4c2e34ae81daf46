"""Flags of tables reach the reader, are the same for every command, and are remembered by a run."""

import tomllib

import numpy as np
import pytest
import typer

from neuralrde import Series
from neuralrde.datasets import Dataset
from neuralrde.tools.cli import flags
from neuralrde.tools.cli.app import app
from neuralrde.tools.cli.inspect import about_data, span, suggestions, task_hints

from .conftest import QUICK

GIVEN = [
    "--id", "who", "--time", "when", "--target", "ill,age", "--labels", "labels.csv", "--labels-id", "name",
    "--sensor", "s", "--value", "v", "--one-hot", "sex,ward", "--time-format", "day-first", "--decimal", ",",
    "--thousands", ".", "--duplicates", "mean", "--drop-unlabelled", "--long", "--no-header",
]  # fmt: skip
READ = {
    "id": "who", "time": "when", "target": ["ill", "age"], "labels": "labels.csv", "labels_id": "name",
    "sensor": "s", "value": "v", "one_hot": ["sex", "ward"], "time_format": "day-first", "decimal": ",",
    "thousands": ".", "duplicates": "mean", "drop_unlabelled": True, "wide": False, "header": False,
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch):
    """What the reader was asked for; it answers with series of its own."""
    calls = []

    def read(path, **options):
        calls.append(options)
        values = np.random.default_rng(0).normal(size=(30, 10, 1))
        return Dataset(Series(values), np.arange(30) % 2, name="data")

    monkeypatch.setattr("neuralrde.tools.cli.loading.read", read)
    return calls


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text("0,1\n2,3\n")
    return tmp_path / "t.csv"


def test_other_labels_are_read_as_the_runs_own(run, tmp_path):
    """The column of ids in a table of labels is remembered too, and so is the target in it."""
    for shift, name in enumerate(["one.csv", "two.csv"]):
        rows = [f"s{i},{k},{(i * 7 + k * k) % 11 + 5 * (i % 2) + shift}" for i in range(24) for k in range(6)]
        (tmp_path / name).write_text("\n".join(["who,time,x", *rows]))
        labels = [f"s{i},{'ab'[i % 2]},{i}" for i in range(24)]
        (tmp_path / f"labels_{name}").write_text("\n".join(["name,outcome,age", *labels]))
    reading = ["--id", "who", "--labels", tmp_path / "labels_one.csv", "--labels-id", "name", "--target", "outcome"]
    closed = ["--model", "closed-form", "--set", "model.draws=12", "--no-plots", "--out", tmp_path / "run"]
    assert run("fit", tmp_path / "one.csv", *reading, *closed).code == 0
    found = run("evaluate", tmp_path / "run", tmp_path / "two.csv", "--labels", tmp_path / "labels_two.csv", "--json")
    assert found.code == 0, found.err
    assert found.json["samples"] == 24


def test_the_reader_gets_what_was_given_and_nothing_else(run, asked, table):
    assert run("inspect", table, *GIVEN).code == 0
    assert run("inspect", table).code == 0
    assert run("inspect", table, "--one-hot", "all", "--wide", "--header", "--task", "regression").code == 0
    assert asked == [READ, {}, {"one_hot": True, "wide": True, "header": True, "task": "regression"}]


@pytest.mark.long
def test_a_run_remembers_how_its_table_was_read(run, asked, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    given = [flag for flag in GIVEN if flag not in ("--long", "--no-header")]
    assert run("fit", table, *given, *QUICK, "--step", 2, "--epochs", 1, "--out", out, "--no-plots").code == 0
    told = tomllib.loads((out / "settings.toml").read_text("utf-8"))["table"]
    # Right from any folder.
    assert told.pop("labels") == str(tmp_path / "labels.csv")
    assert told == {name: value for name, value in READ.items() if name not in ("labels", "wide", "header")}
    # Its own data are read in the same way; of others, what is not about labels is true too.
    assert run("evaluate", out, "--all").code == 0
    assert asked[-1] == told | {"labels": str(tmp_path / "labels.csv"), "task": "classification"}
    (tmp_path / "new.csv").write_text("who,when,s,v\n0,1,a,2\n")
    assert run("predict", out, tmp_path / "new.csv", "--out", "-").code == 0
    assert asked[-1].keys() == set(told) - {"target", "labels_id", "drop_unlabelled"} | {"task"}
    # A flag wins.
    assert run("predict", out, tmp_path / "new.csv", "--duplicates", "last", "--out", "-").code == 0
    assert asked[-1]["duplicates"] == "last"


@pytest.mark.parametrize("name", ["fit", "predict", "evaluate", "inspect"])
def test_every_command_has_the_same_flags_of_tables(name):
    command = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
    assert set(flags.TABLE) <= {parameter.name for parameter in command.params}


def dated(gaps=(86400.0,) * 9, unit="seconds since 1970", **options):
    times = np.tile(1709121600.0 + np.cumsum([0.0, *gaps]), (4, 1))
    values = np.random.default_rng(0).normal(size=(4, len(gaps) + 1, 2))
    data = Dataset(Series(values, times=times), options.pop("target", None), **options)
    object.__setattr__(data, "time_unit", unit)  # as the readers of tables say it
    return data


def test_dates_are_shown_as_dates():
    found = about_data(dated())
    assert found["times"] == "2024-02-28 12:00:00 to 2024-03-08 12:00:00, evenly spaced"
    assert found["gap"] == "usually every 1 day"
    assert "times 2024-02-28 12:00:00 to 2024-03-08 12:00:00;" in dated().summary()
    uneven = dated([3600.0] * 5 + [7200.0] * 4)
    assert about_data(uneven)["gap"] == "usually every 1 hour, 1 hour to 2 hours"
    assert any("--every 3600 (1 hour, in seconds)" in hint for hint in suggestions(uneven))


def test_numbers_stay_numbers():
    found = about_data(dated(unit=None))
    assert found["times"] == "evenly spaced"
    assert found["gap"] == "usually every 8.64e+04 (1.157e-05 per unit of time)"


def test_whole_milliseconds_are_even():
    """16 per second, rounded to the millisecond: gaps of 62 and 63."""
    found = about_data(dated([0.062, 0.063] * 10))
    assert found["times"].endswith("evenly spaced")
    assert "62" in found["gap"]
    assert "per second" in found["gap"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "500 milliseconds"), (90.0, "1.5 minutes"), (1209600.0, "2 weeks")]
)
def test_spans(seconds, words):
    assert span(seconds) == words


def test_what_was_understood_is_said_once():
    data = dated(target=["a", "b", "a", "b"])
    object.__setattr__(data, "reading", "a long table")
    assert data.summary().count("  read as a long table") == data.summary().count("a long table") == 1


def test_a_guessed_task_is_said():
    numbers = dated(target=[1, 2, 3, 1], task="classification")
    assert list(task_hints(numbers, {})) == [
        "the target's 3 numbers are taken for classes; --task regression predicts numbers"
    ]
    assert list(task_hints(numbers, {"task": "classification"})) == []
    assert list(task_hints(dated(target=["a", "b", "c", "a"]), {})) == []
    assert "--task classification" in next(task_hints(dated(target=[1.0, 1.0, 1.0, 1.0]), {}))
    assert list(task_hints(dated(target=[1.5, 2.0, 3.25, 4.0]), {})) == []


def test_one_of_each():
    twins = Dataset(Series(np.zeros((2, 3, 1))), ["a", "a"])
    assert about_data(twins)["duplicates"] == "1 sample repeats an earlier one"
    assert "1 class: a (2)" in twins.summary()


def test_an_empty_channel_is_named_by_inspect():
    values = np.random.default_rng(0).normal(size=(5, 4, 2))
    values[..., 1] = np.nan
    hints = list(suggestions(Dataset(Series(values, channels=["x", "off"]))))
    assert [hint for hint in hints if "off" in hint and "--columns" in hint and "refuses" in hint]
    assert not [hint for hint in hints if "filled forward" in hint]
