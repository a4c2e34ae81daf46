"""The benchmark of unseen patients: the settings of the reproduction, lines that resume, and its table."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.quality.patients import SPLITS, TARGETS, lines, main, measured, regressor, summary
from benchmarks.speed.channels import apart, walks
from neuralrde import Series
from neuralrde.datasets import Dataset
from neuralrde.training import WarmupCosine
from neuralrde.training.optimizers import total_share
from reproduction.our_settings import settings_for

LINE = {"test": {"rmse": 2.0, "mae": 1.0}, "floors": {"training mean": {"rmse": 9.0, "mae": 7.0}}}


@pytest.mark.parametrize("target", TARGETS)
def test_the_settings_are_those_of_the_reproduction(target):
    """Chosen there on validation patients: nothing may be chosen here, where test patients are seen."""
    model, settings = regressor(target, seed=3), settings_for(target, "oscillators")
    assert (model.windows, settings.depth) == (settings.step, 2)
    stretch = model.augmentation
    assert (stretch.slowest, stretch.fastest) == settings.stretch
    assert (stretch.versions, sorted(stretch.speeds)) == (settings.versions, sorted(settings.speeds))
    assert (model.epochs, model.batch_size, model.patience) == (settings.epochs, settings.batch, settings.patience)
    sizes = model.get_params()
    assert (sizes["model__state"], sizes["model__width"]) == (settings.state, settings.width)
    assert (sizes["model__layers"], sizes["model__turns"]) == (settings.layers, settings.turns)
    optimizer = model.optimizer
    assert (optimizer.learning_rate, optimizer.clip) == (settings.rate, settings.clip)
    assert optimizer.schedule == WarmupCosine(warmup=settings.warmup)
    # There the decay is one per step, times the rate. Here it is one for the whole training, of 5400 to 5700 series.
    for series in (5400, 5700):
        steps = settings.epochs * -(-series // settings.batch)
        decay = settings.weight_decay * settings.rate * total_share(optimizer.schedule, steps)
        assert optimizer.weight_decay == pytest.approx(decay, rel=0.06)  # it is written with one digit
    assert {"histogram": "Histogram", "huber": "str"}[settings.loss] == type(model.loss).__name__


def test_the_documentation_shows_the_same_call():
    page = (Path(__file__).parents[2] / "docs" / "examples" / "heart-rate.md").read_text("utf-8")
    code = page.split("## Patients never seen, in one call")[1].split("```numpy\n")[1].split("```")[0]
    names, tree = {}, ast.parse(code)
    exec(
        compile(ast.Module([one for one in tree.body if "import" in type(one).__name__.lower()], []), "", "exec"), names
    )
    (call,) = (one.value for one in tree.body if isinstance(one, ast.Assign) and one.targets[0].id == "model")
    shown = eval(compile(ast.Expression(call), "", "eval"), names)
    assert repr(shown.get_params()) == repr(regressor("BIDMC32HR", seed=0).get_params())


def test_a_split_that_has_its_line_is_not_run_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path))  # nothing is there: a run would fail
    file = tmp_path / "patients.jsonl"
    file.write_text(
        "".join(json.dumps(LINE | {"data": data, "seed": seed}) + "\n" for data in TARGETS for seed in range(SPLITS))
    )
    main(["--results", str(file)])
    assert "| BIDMC32RR | mean of 10 | 2.00 | 1.00     | 9.00          |" in capsys.readouterr().out
    assert len(lines(file)) == 2 * SPLITS


@pytest.mark.long
def test_a_line_of_a_small_set(monkeypatch):
    """Six patients, six windows each, of 8 seconds: a real fit and a real prediction, with fewer epochs."""
    rng, points = np.random.default_rng(0), 1000
    rates, patients = rng.uniform(60, 90, 36), np.repeat([f"s{i}" for i in range(6)], 6)
    seconds = np.arange(points) / 125
    waves = np.sin(2 * np.pi * rates[:, None] / 60 * seconds + rng.uniform(0, 6, (36, 1)))
    series = Series.from_array(waves[..., None], times=seconds, channels=["PLETH"], ids=[f"{p}/0" for p in patients])
    data = Dataset(series, rates, name="BIDMC32HR", groups=patients)
    quick = {"epochs": 2, "augmentation__versions": 1, "augmentation__speeds": (1.0,)}
    monkeypatch.setattr(
        "benchmarks.quality.patients.regressor", lambda name, **options: regressor(name, **options).set_params(**quick)
    )
    line = json.loads(json.dumps(measured(data, 0)))
    assert set(line["floors"]) == {"training mean", "spectral peak", "spectral peak, band fitted"}
    assert line["series"]["fit"] + line["series"]["test"] == 36
    own = np.array([line["patients"][name] for name in line["patients"]])
    assert np.sqrt((own**2).mean()) == pytest.approx(line["test"]["rmse"], abs=2e-3)  # as many windows of each
    assert "BIDMC32HR" in summary([line])


def test_the_classes_of_the_walks_differ_in_what_follows_what():
    X, y = walks(400, 5, seed=0, series=40)
    steps = np.diff(X, axis=1)
    follows = [np.corrcoef(one[:-1, 0], one[1:, 1])[0, 1] for one in steps]
    # A correlation of 0.45 in one class and 0 in the other, each known to 0.05.
    assert min(np.array(follows)[y == 1]) > 0.25 > max(np.array(follows)[y == 0])


@pytest.mark.long
def test_a_fresh_process_is_measured():
    found = apart("LogSignatureClassifier", 60, 4, 20)
    assert found["fit"] > 0
    assert found["memory"] >= found["before"] > 10  # MB: an interpreter with NumPy is larger
    assert 0 <= found["accuracy"] <= 1
