"""`inspect` and `fit` of a table of which nothing was said: the command line that reads it, proposed as a whole."""

import shlex
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

NOISE = np.random.default_rng(0).normal(size=10**5).round(3)


def rows(form, series=12, points=10, start=datetime(2023, 6, 1)):
    """A row per point. In the form, `i` and `k` are the numbers of series and point, `x` and `y` are noise."""
    for i in range(series):
        for k in range(points):
            x, y = NOISE[2 * (i * points + k) :][:2]
            names = {"i": i, "k": k, "x": x, "y": y, "when": start + timedelta(days=i, minutes=5 * k)}
            yield form.format(**names, odd=("no", "yes")[i % 2], half=i // 2, point=i % 2)


def german():
    lines = rows("P{i};{when:%d.%m.%Y %H:%M};{x};{y};Nord;{odd}")
    return ["Patient;Zeitpunkt;Puls;Größe;Station;Klasse", *(a[:18] + a[18:].replace(".", ",") for a in lines)]


TABLES = {
    "german dates": (
        german,
        ["--decimal", ",", "--time", "Zeitpunkt", "--id", "Patient", "--target", "Klasse", "--columns", "Puls,Größe"],
    ),
    "machines": (
        lambda: ["machine,cycle,vibration,heat,fault", *rows("press-{i},{k},{x},{y},{odd}")],
        ["--id", "machine", "--time", "cycle", "--target", "fault"],
    ),
    "recordings of patients": (
        lambda: ["rec,pat_id,t,x,y,label", *rows("{i},{half},{k},{x},{y},{point}")],
        ["--time", "t", "--id", "rec", "--target", "label", "--group", "pat_id"],
    ),
    "numbers only": (
        lambda: ["id,time,x,outcome", *rows("{i},{k},{x},{point}")],
        ["--time", "time", "--id", "id", "--target", "outcome"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_whole_command_is_proposed_and_works(run, tmp_path, name):
    lines, flags = TABLES[name]
    file = tmp_path / "table.csv"
    file.write_text("\n".join(lines()) + "\n", encoding="latin-1")
    for command in ("inspect", "fit"):
        found = run(command, file)
        proposal = next(line for line in (found.out + found.err).splitlines() if line.startswith("  neuralrde fit"))
        assert shlex.split(proposal)[3:] == flags
        left_out = "left out, because they hold no numbers: Station"
        assert (left_out in found.out + found.err) == ("--columns" in flags)
    looked = run("inspect", file, *flags)
    assert looked.code == 0, looked.err
    assert "there is no target yet" not in looked.out
    # A column that is no number: with samples, and in the command.
    assert "samples" in found.err
    assert found.err.splitlines()[0].startswith("neuralrde: ")
    assert found.code == 1


@pytest.mark.parametrize(
    ("head", "form", "given", "proposed"),
    [
        ("unit,cycle,x", "u{i},{k},{x}", [], "--id unit --time cycle\n  (no column looks like the target"),
        ("unit,cycle,x,ill", "u{i},{k},{x},{odd}", ["--id", "units"], "--id unit --time cycle --target ill"),
        ("unit,cycle,x,ill", "u{i},{k},{x},{odd}", ["--long"], "--long --id unit --time cycle --target ill"),
    ],
    ids=["no target", "misspelt", "what is given is kept"],
)
def test_what_is_lacking_is_said(run, tmp_path, head, form, given, proposed):
    file = tmp_path / "table.csv"
    file.write_text("\n".join([head, *rows(form)]))
    assert f"neuralrde fit {shlex.quote(str(file))} {proposed}" in run("fit", file, *given).err


def test_nothing_is_proposed_that_cannot_be_read(run, tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("id,t,x,target\n1,0,hello,a\n1,1,2,a\n")
    assert "neuralrde fit" not in run("inspect", file).err


def test_a_date_is_a_time_and_never_one_hot(run, tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("\n".join(["when,x", *rows("{when},{x}", series=1)]))
    said = run("inspect", file).err
    assert "--time when" in said
    assert "--one-hot" not in said


def test_dates_of_a_parquet_table(run, tmp_path):
    table = {"vessel": [], "stamp": [], "draught": [], "late": []}
    for row in rows("v{i},{when},{x},{odd}"):
        for column, cell in zip(table.values(), row.split(","), strict=True):
            column.append(cell)
    frame = pd.DataFrame(table).astype({"stamp": "datetime64[us]", "draught": float})
    frame.to_parquet(file := tmp_path / "ships.parquet")
    said = run("inspect", file).err
    assert f"neuralrde fit {shlex.quote(str(file))} --time stamp --id vessel --target late" in said
    frame.drop(columns=["vessel", "late"]).to_parquet(file)
    assert "Write --time stamp if it holds the times" in run("inspect", file).err


@pytest.mark.parametrize(
    ("head", "form", "hinted"),
    [
        ("rec,pat_id,t,x,label", "{i},{half},{k},{x},{odd}", True),
        ("rec,age,t,x,label", "{i},{half},{k},{x},{odd}", False),  # series share it, and it names nobody
        ("rec,pat_id,t,x,label", "{i},{i},{k},{x},{odd}", False),  # every series has its own
        ("rec,pat_id,t,x,label", "{i},{k},{k},{x},{odd}", False),  # it changes
    ],
)
def test_a_patient_among_the_channels_is_said_to_leak(run, tmp_path, head, form, hinted):
    file = tmp_path / "table.csv"
    file.write_text("\n".join([head, *rows(form)]))
    assert ("--group pat_id" in run("inspect", file, "--id", "rec").out) == hinted
