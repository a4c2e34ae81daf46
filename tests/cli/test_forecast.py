"""`neuralrde forecast`: a table and a picture of what comes next, by a forecaster that is fitted or was kept."""

import csv
import json

import numpy as np
import pytest

from neuralrde.tools.cli import main


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Ten days of two wards, every hour but a fifth of them."""
    random = np.random.default_rng(0)
    rows = ["ward,date,load,wind"]
    for ward in "ab":
        for hour in np.flatnonzero(random.random(240) < 0.8):
            moment = np.datetime64("2026-03-01T00:00") + np.timedelta64(hour, "h")
            wind = f"{random.normal():.2f}" if random.random() < 0.5 else ""
            rows.append(f"{ward},{moment},{10 * np.sin(hour / 24 * 2 * np.pi) + random.normal():.2f},{wind}")
    (tmp_path / "load.csv").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    return ["load.csv", "--id", "ward", "--time", "date"]


def test_a_table_a_picture_and_a_file(table, tmp_path, capsys):
    options = ["--horizon", "12h", "--period", "24h", "--plot", "next.png", "--save", "load.nrde", "--json"]
    assert main(["forecast", *table, *options]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["evaluation"]["channels"]["load"]["mse"] < 0.3 * said["evaluation"]["channels"]["load"]["last mse"]
    rows = list(csv.DictReader((tmp_path / "forecast.csv").read_text("utf-8").splitlines()))
    assert len(rows) == said["rows"] == 2 * 12
    assert rows[0].keys() == {
        "id",
        "time",
        *(f"{name}{end}" for name in ("load", "wind") for end in ("", " low", " high")),
    }
    assert all(float(row["load low"]) < float(row["load"]) < float(row["load high"]) for row in rows)
    assert rows[0]["time"].startswith("2026-03-1")
    assert (tmp_path / "next.png").stat().st_size > 10_000

    assert main(["forecast", *table, "--horizon", "12h", "--model", "load.nrde", "--out", "-"]) == 0
    assert list(csv.DictReader(capsys.readouterr().out.splitlines())) == rows
    assert main(["forecast", "load.nrde", *table, "--out", "-"]) == 0  # as far as it has learned
    assert list(csv.DictReader(capsys.readouterr().out.splitlines())) == rows


def test_fit_keeps_a_forecaster_and_its_trial(table, tmp_path, capsys):
    assert main(["fit", *table, "--forecast", "12h", "--out", "beds"]) == 0
    assert "The last stretch of the series" in capsys.readouterr().out
    trial = json.loads((tmp_path / "beds" / "metrics.json").read_text("utf-8"))["evaluation"]
    assert trial["channels"].keys() == {"load", "wind"}
    assert main(["forecast", "beds", *table, "--out", "next.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2 * 12
    assert main(["fit", *table, "--forecast", "12h", "--model", "log-ncde"]) == 2
    assert "closed-form or neural" in capsys.readouterr().err


def test_what_is_refused(table, capsys):
    assert main(["forecast", *table, "--horizon", "12h", "--model", "none.nrde"]) == 1
    assert "There is no file none.nrde" in capsys.readouterr().err
    assert main(["forecast", *table, "--horizon", "soon"]) == 1
    assert '"24h", "30min" or "7d"' in capsys.readouterr().err
    assert main(["forecast", *table]) == 2
    assert "--horizon" in capsys.readouterr().err
    assert main(["forecast", "a.nrde", "b.nrde", *table, "--horizon", "1h"]) == 2
    assert "expected DATA, or MODEL and DATA" in capsys.readouterr().err
