"""A run's page: everything in one file, which loads nothing, and whose commands work."""

import re
import shlex
from html import unescape

import pytest


def text_of(page: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", page))


def test_everything_is_in_one_file(trained, run, monkeypatch, tmp_path, hearts):
    page = (trained / "report.html").read_text("utf-8")
    assert not re.findall(r"<link|@import|url\(|(?:src|href)=\"(?!data:image/png;base64,)", page)
    assert page.count("data:image/png;base64,") == len(list((trained / "pictures").iterdir())) == 3
    said = text_of(page)
    for one in ("Verdict", "closed form", "60 samples", "x first (", "epochs in", "[model]", "neural-rde", "jaxlib"):
        assert one in said, one
    # The commands, as they stand there.
    shell, python = said.split("# at a shell")[1].split("# in Python")
    monkeypatch.chdir(tmp_path)
    command = shlex.split(shell)[:6]
    assert command[:2] == ["neuralrde", "predict"]
    assert run("predict", command[2], hearts, "--out", "predicted.csv").code == 0
    code = python.split("Settings")[0].replace('"NEW.csv"', repr(str(hearts)))
    exec(code, found := {})
    assert len(found["model"].predict(found["data"].series)) == 60


@pytest.mark.parametrize("folds", [[], ["--folds", 3]])
def test_names_from_files_are_text(run, tmp_path, folds):
    """Who shares a table must not be able to run a script in the report."""
    evil = "<script>alert(1)</script>"
    rows = [f'{i},{k},{(i * 7 + k * k * i) % 23},"{evil if i % 2 else "b&c"}"' for i in range(20) for k in range(5)]
    (tmp_path / "table.csv").write_text("\n".join(['id,time,"<img src=x onerror=alert(2)>",target', *rows]))
    out = tmp_path / "a <b>"
    found = run("fit", tmp_path / "table.csv", "--model", "closed-form", "--out", out, "--no-plots", *folds)
    assert found.code == 0, found.err
    assert f"Report:     {out / 'report.html'}" in found.out
    page = (out / "report.html").read_text("utf-8")
    assert evil in text_of(page)
    assert "NaN" not in page  # no number is lacking
    assert not re.findall("<script|<img|<b>", page)


def test_a_page_that_cannot_be_made_spoils_nothing(run, hearts, tmp_path, monkeypatch):
    from .conftest import COLUMNS

    monkeypatch.setattr("neuralrde.tools.cli.run.run_page", lambda *_: 1 / 0)
    found = run("fit", hearts, *COLUMNS, "--model", "closed-form", "--out", tmp_path / "run", "--no-plots")
    assert found.code == 0
    assert "No report: division by zero" in found.out
