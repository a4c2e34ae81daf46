"""`neuralrde sweep`: from a TOML file to a table, in this process; tests/sweeps has those on Ray."""

import json

import pytest

from neuralrde.datasets import Dataset, order_of_events
from neuralrde.tools.cli.sweep_tasks import fingerprint_with_targets, read_sweep
from neuralrde.tools.sweeps import Sweep

FIXED = """
data = "{data}"

[table]
id = "patient"
time = "hour"
target = "ill"

[model]
name = "neural-rde"
state = 4
width = 8

[windows]
step = 8

[training]
epochs = 2
"""
GRID = """
[grid]
model = ["closed-form", {name = "neural-rde", state = 4, width = 8}]
depth = [1, 2]
seed = [0, 1]
"""


@pytest.fixture
def config(hearts, tmp_path):
    def write(more: str, fixed: str = FIXED):
        path = tmp_path / "small.toml"
        path.write_text(fixed.replace("{data}", str(hearts)) + more)
        return path

    return write


def keys(config, tmp_path):
    return [task.key for task in read_sweep(config, tmp_path / "out")[0].tasks.values()]


@pytest.mark.long
def test_a_grid_is_run_once_shown_and_not_run_again(run, config, tmp_path):
    file, out = config(GRID), tmp_path / "out"
    outcome = run("sweep", file, "--no-ray", "--out", out)
    assert outcome.code == 0, outcome.err
    # Two closed forms, because nothing but the seed counts for them, and four neural runs.
    assert "[6/6]" in outcome.out
    assert "closed-form" in outcome.out
    lines = Sweep.results_in(out)
    assert len(lines) == len({line["key"] for line in lines}) == 6
    assert [line["point"] for line in lines[:2]] == [
        {"data": "hearts", "model": "closed-form", "seed": seed} for seed in (0, 1)
    ]
    again = run("sweep", file, "--no-ray", "--out", out)
    assert "Nothing to run" in again.out
    table = run("sweep", file, "--out", out, "--table")
    assert table.out.strip() in again.out
    found = run("sweep", file, "--out", out, "--table", "--json").json
    assert found["runs"] == 6
    assert [group["seeds"] for group in found["groups"]] == [2, 2, 2]
    # A run's folder is one as `fit` writes it.
    [neural, *_] = [line for line in lines if "objective" in line]
    judged = run("evaluate", out / "runs" / neural["key"], "--json").json
    assert judged["accuracy"] == neural["value"]
    assert neural["objective"] == min(neural["curve"])


def test_the_result_is_that_of_fit_and_killed_runs_are_gone_on_with(run, config, tmp_path, hearts, monkeypatch):
    from neuralrde.tools.cli import run as training
    from neuralrde.tools.cli import sweep_tasks

    file, out = config("[grid]\nseed = [3]\n"), tmp_path / "out"
    plain = run("fit", "--config", config(""), "--seed", "3", "--out", tmp_path / "fit", "--json").json
    config("[grid]\nseed = [3]\n")

    class Killed(BaseException):
        """As if the process had gone: nothing is tidied up by the sweep."""

    def dies(self, record):
        if record["epoch"] == 1:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(sweep_tasks._Resumed, "epoch", dies)
        with pytest.raises(Killed):
            run("sweep", file, "--no-ray", "--out", out)
    [folder] = (out / "runs").iterdir()
    assert (folder / "checkpoint.nrde").exists()
    assert run("sweep", file, "--no-ray", "--out", out).code == 0
    [line] = Sweep.results_in(out)
    assert line["resumed"] == 1
    assert line["value"] == plain["assessment"]["value"]
    assert line["objective"] == pytest.approx(min(r["monitored"] for r in _history(tmp_path / "fit")), rel=0, abs=0)

    # The driver died after the run had ended and before it was written down: nothing is trained again.
    (out / "results" / f"{line['key']}.json").unlink()
    monkeypatch.setattr(training.Run, "fit", None)
    assert run("sweep", file, "--no-ray", "--out", out).code == 0
    assert Sweep.results_in(out)[0]["value"] == line["value"]


def _history(folder):
    return [json.loads(line) for line in (folder / "history.jsonl").read_text("utf-8").splitlines()]


def test_keys_are_those_of_what_decides(config, hearts, tmp_path):
    [key] = keys(config("[grid]\ndepth = 2\n"), tmp_path)
    assert [key] == keys(
        config('[grid]\n"windows.depth" = 2\n"optimizer.learning_rate" = 0.003\n'), tmp_path
    )  # defaults
    for other in ("depth = 1", "seed = 1", "divide = 'random'", "folds = 2", "epochs = 3", '"model.state" = 6'):
        assert key not in keys(config(f"[grid]\n{other}\n"), tmp_path), other
    copy = tmp_path / "copy.csv"
    copy.write_text(hearts.read_text("utf-8"))
    assert keys(config("[grid]\n", FIXED.replace("{data}", str(copy))), tmp_path) == [key]  # the same data elsewhere
    copy.write_text(hearts.read_text("utf-8").replace("x first", "first x"))
    assert keys(config("[grid]\n", FIXED.replace("{data}", str(copy))), tmp_path) != [key]


def test_a_fingerprint_covers_targets_and_parts():
    data = order_of_events(samples=6, length=9, events=2, seed=0)
    same = lambda **changed: Dataset(data.series, **({"target": data.target, "classes": data.classes} | changed))
    prints = [
        fingerprint_with_targets(one)
        for one in (
            same(),
            same(target=1 - data.target),
            same(groups=list("aabbcc")),
            same(split=["train"] * 4 + ["test"] * 2),
        )
    ]
    assert len(set(prints)) == 4
    assert prints[0] == fingerprint_with_targets(same())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[gird]\ndepth = [1]\n", "There is no setting 'gird'"),
        ("[grid]\ndepths = [1]\n", "There is no setting 'depths'"),
        ('[grid]\n"model.sate" = [1]\n', "sate"),
        ("[grid]\nseed = []\n", "Got no value for seed"),
        ("grid = 3\n", "expected a section [grid]"),
        ("[sweep]\ncores = 0\n", "Got cores = 0; expected a whole number from 1"),
        ("[sweep]\ngpus = -1\n", "Got gpus = -1 in [sweep]"),
        ("[search]\ntrials = 3\n", "There is no setting 'search'"),
    ],
)
def test_wrong_files_are_refused_before_anything_runs(run, config, tmp_path, more, said):
    # Top-level names stand before the first section.
    first = more if more.startswith("grid") else ""
    file = config("" if first else more, first + FIXED)
    outcome = run("sweep", file, "--no-ray", "--out", tmp_path / "out")
    assert outcome.code == 2, outcome.err
    assert said in outcome.err
    assert not (tmp_path / "out").exists()


def test_flags_that_contradict_and_tables_of_nothing(run, config, tmp_path):
    assert "expected one of them" in run("sweep", config(""), "--no-ray", "--address", "auto").err
    assert "no results" in run("sweep", config(""), "--table", "--out", tmp_path / "none").err
