"""Names out of files become names of folders: they must be names, and nothing else."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neuralrde.datasets.dataset import safe_name


@given(st.text())
@example("../" * 50 + "etc")
@example("\ud800")
def test_any_name_stays_in_its_folder(name):
    safe = safe_name(name)
    assert Path("runs", safe).parent == Path("runs")
    assert Path("runs", safe) != Path("runs")
    assert len(safe.encode()) < 250  # file systems take 255 bytes, and a number may follow
    assert safe_name(safe) == safe
    assert safe.isprintable()
    assert safe[0] not in ".-"


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("EigenWorms", "EigenWorms"),
        ("sc10_100.v2-b", "sc10_100.v2-b"),
        ("two words", "two_words"),
        ("../../outside", "outside"),
        ("/etc/passwd", "passwd"),
        ("C:\\Windows\\system", "system"),
        ("Jürgens données", "Jürgens_données"),
        ("-rf", "rf"),
        (".hidden", "hidden"),
        ("..", "data"),
        ("", "data"),
        ("a/..", "data"),
        ("\n", "data"),
    ],
)
def test_names(name, safe, monkeypatch):
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "utf-8")
    assert safe_name(name) == safe


def test_a_name_that_the_locale_cannot_write(monkeypatch):
    """As in the POSIX locale, where `mkdir` would raise a UnicodeEncodeError."""
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    assert [safe_name(name) for name in ("Jürgens données", "心", "a\udcc3b")] == ["J_rgens_donn_es", "data", "a_b"]


def test_what_stands_in_for_no_name():
    assert safe_name("..", "hearts") == "hearts"
