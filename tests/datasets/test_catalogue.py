"""Data sets by name: what is listed, what is here, and what the real ones hold."""

from pathlib import Path

import numpy as np
import pytest

from neuralrde.datasets import available, load


def test_the_listing_has_a_line_for_each(real_data):
    lines = repr(available()).splitlines()
    assert len(lines) == len(available()) == len({entry.name for entry in available()})
    present = {entry.name for entry in available() if entry.present}
    assert {
        "BIDMC32HR",
        "SelfRegulationSCP1",
        "spirals",
    } <= present
    assert "EigenWorms" not in present
    assert "to be fetched" in next(line for line in lines if line.startswith("EigenWorms "))


def test_sets_are_as_large_as_the_listing_says(real_data):
    for entry in available():
        if entry.present and not entry.name.startswith(("BIDMC", "PhysioNet")):  # those have tests of their own
            data = load(entry.name)
            assert " x ".join(map(str, data.series.values.shape)) == entry.size
            assert entry.task.startswith("regression" if data.classes is None else f"{len(data.classes)} classes")
            assert data.source


def test_self_regulation(real_data):
    data = load("SelfRegulationSCP1")
    assert data.classes == ("negativity", "positivity")
    assert np.sum(data.split == "train") == 268


def test_options_are_for_simulated_sets():
    assert len(load("spirals", samples=5)) == 5
    with pytest.raises(TypeError, match=r"colour='red' for spirals; expected one of \['samples'"):
        load("spirals", colour="red")
    with pytest.raises(TypeError, match="expected no options"):
        load("EigenWorms", samples=5)


@pytest.mark.parametrize("name", ["model.nrde", Path("runs/hearts/model.nrde"), "hearts.csv"])
def test_a_file_is_no_data_set(name):
    """`load` finds data sets by name; what loads a model, and what reads a file, is said."""
    with pytest.raises(ValueError, match=r"`neuralrde\.load\(path\)`.*`read\(path\)`"):
        load(name)
