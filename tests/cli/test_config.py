"""Settings that were written can be read again, whatever is in them."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde.cli.config import Settings, as_toml, assignments, settings_of

# All that UTF-8 can hold: names of columns come from people's files.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans())
# In [model], "none" is None.
VALUES = st.one_of(NUMBERS, TEXT.filter(lambda text: text != "none"), st.none(), st.lists(NUMBERS, max_size=3))
SETTINGS = st.builds(
    Settings,
    data=TEXT.filter(bool),
    seed=st.integers(0, 2**32 - 1),
    table=st.fixed_dictionaries({}, optional={"id": TEXT, "target": TEXT, "columns": st.lists(TEXT, max_size=3)}),
    model=st.fixed_dictionaries({}, optional={"clip": VALUES, "class_weight": st.dictionaries(TEXT, NUMBERS)}),
)


@given(settings=SETTINGS)
def test_what_is_written_is_toml_and_is_read_again(settings, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "settings.toml"
    file.write_text(as_toml(settings), encoding="utf-8")
    tomllib.loads(file.read_text(encoding="utf-8"))
    assert settings_of(file, table={}, model={}) == settings


@pytest.mark.parametrize(("text", "written"), [("inf", "inf"), ("-inf", "-inf"), ("nan", "nan")])
def test_numbers_that_json_has_no_word_for(text, written):
    assert f"clip = {written}\n" in as_toml(Settings(model=assignments([f"clip={text}"])))


def test_a_column_called_none_is_a_column(tmp_path):
    (tmp_path / "settings.toml").write_text(as_toml(Settings(data="none", table={"target": "none"})))
    found = settings_of(tmp_path / "settings.toml", table={}, model={})
    assert (found.data, found.table) == ("none", {"target": "none"})


def test_a_run_without_a_limit_can_be_used(run, hearts, tmp_path):
    """--set clip=inf once wrote `clip = Infinity`, and the finished run could not be evaluated."""
    from .conftest import COLUMNS, QUICK

    out = tmp_path / "run"
    options = ["--epochs", 1, "--set", "clip=inf", "--no-plots", "--out", out]
    assert run("fit", hearts, *COLUMNS, *QUICK, *options).code == 0
    assert run("evaluate", out, "--json").code == 0
