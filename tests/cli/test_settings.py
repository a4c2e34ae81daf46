"""Settings that were written can be read again, whatever is in them."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde import NeuralRDEClassifier, Windows
from neuralrde.tools.cli.settings import (
    RunSettings,
    as_toml,
    assignments,
    estimator_of,
    resolve,
    settings_of,
    with_settings,
)

from .. import shapes

# All that UTF-8 can hold: names of columns come from people's files.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans())
# In the sections of the estimator, "none" is None.
VALUES = st.one_of(NUMBERS, TEXT.filter(lambda text: text != "none"), st.none(), st.lists(NUMBERS, max_size=3))


def unchecked_settings(**fields):
    with shapes.unchecked():  # beartype looks at random items of lists, which Hypothesis does not want in here
        return RunSettings(**fields)


SETTINGS = st.builds(
    unchecked_settings,
    data=TEXT.filter(bool),
    seed=st.integers(0, 2**32 - 1),
    table=st.fixed_dictionaries({}, optional={"id": TEXT, "target": TEXT, "columns": st.lists(TEXT, max_size=3)}),
    estimator=st.fixed_dictionaries(
        {},
        optional={
            "patience": VALUES,
            "class_weight": st.dictionaries(TEXT, NUMBERS),
            "model": st.one_of(
                st.just("log-ncde"), st.fixed_dictionaries({"name": st.just("log-ncde"), "state": NUMBERS})
            ),
            "optimizer": st.fixed_dictionaries({}, optional={"clip": VALUES, "schedule": st.just({"name": "cosine"})}),
            "transform": st.just([{"name": "fill-forward"}, {"name": "scale"}]),
        },
    ),
)


@given(settings=SETTINGS)
def test_what_is_written_is_toml_and_is_read_again(settings, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "settings.toml"
    file.write_text(as_toml(settings), encoding="utf-8")
    tomllib.loads(file.read_text(encoding="utf-8"))
    assert settings_of(file, table={}, estimator={}) == settings


@pytest.mark.parametrize(("text", "written"), [("inf", "inf"), ("-inf", "-inf"), ("nan", "nan")])
def test_numbers_that_json_has_no_word_for(text, written):
    assert f"clip = {written}\n" in as_toml(
        RunSettings(estimator=with_settings({}, assignments([f"optimizer.clip={text}"])))
    )


def test_scales_are_a_list_in_toml(tmp_path):
    set_ = assignments(["windows.scales=[1,2,4,8]", "windows.depth=[3,2,2,1]", "windows.step=8"])
    settings = RunSettings(data="hearts.csv", estimator=with_settings({}, set_))
    (tmp_path / "settings.toml").write_text(as_toml(settings))
    again = settings_of(tmp_path / "settings.toml", table={}, estimator={})
    assert again == settings
    estimator = estimator_of(NeuralRDEClassifier, again)
    assert estimator.windows == Windows(step=8, depth=(3, 2, 2, 1), scales=(1, 2, 4, 8))


def test_windows_that_were_left_to_the_model_are_left_to_it_again(tmp_path):
    """The default model has windows of its own, and a store too: None must not come back as windows that were given."""
    estimator = estimator_of(NeuralRDEClassifier, RunSettings())
    (tmp_path / "settings.toml").write_text(as_toml(resolve(RunSettings(), estimator)))
    again = settings_of(tmp_path / "settings.toml", table={}, estimator={})
    assert estimator_of(NeuralRDEClassifier, again).windows is estimator.windows is None


def test_a_column_called_none_is_a_column(tmp_path):
    (tmp_path / "settings.toml").write_text(as_toml(RunSettings(data="none", table={"target": "none"})))
    found = settings_of(tmp_path / "settings.toml", table={}, estimator={})
    assert (found.data, found.table) == ("none", {"target": "none"})


def test_a_run_without_a_limit_can_be_used(run, hearts, tmp_path):
    """--set optimizer.clip=inf once wrote `clip = Infinity`, and the finished run could not be evaluated."""
    from .conftest import COLUMNS, QUICK

    out = tmp_path / "run"
    options = ["--epochs", 1, "--set", "optimizer.clip=inf", "--no-plots", "--out", out]
    assert run("fit", hearts, *COLUMNS, *QUICK, *options).code == 0
    assert run("evaluate", out, "--json").code == 0
