"""Data sets by name: what is listed, what is here, and what the real ones hold."""

import numpy as np
import pytest

from neuralrde.datasets import DatasetUnavailable, ReadError, available, data_folder, load
from neuralrde.datasets.converted import WORDS, WORMS


def test_the_listing_has_a_line_for_each(real_data):
    lines = repr(available()).splitlines()
    assert len(lines) == len(available()) == len({entry.name for entry in available()})
    present = {entry.name for entry in available() if entry.present}
    assert {
        "BIDMC32HR",
        "eigenworms_source44",
        "SelfRegulationSCP1",
        "SpeechCommands10",
        "spirals",
    } <= present
    assert "EigenWorms" not in present
    assert "to be fetched" in next(line for line in lines if line.startswith("EigenWorms "))


def test_sets_are_as_large_as_the_listing_says(real_data):
    for entry in available():
        if entry.present and not entry.name.startswith("BIDMC"):  # those have tests of their own
            data = load(entry.name)
            assert " x ".join(map(str, data.series.values.shape)) == entry.size
            assert entry.task.startswith("regression" if data.classes is None else f"{len(data.classes)} classes")
            assert data.source


def test_self_regulation(real_data):
    data = load("SelfRegulationSCP1")
    assert data.classes == ("negativity", "positivity")
    assert np.sum(data.split == "train") == 268


def test_worms_are_not_called_eigenworms(real_data):
    data = load("eigenworms_source44")
    assert data.name == "eigenworms_source44"
    assert data.classes == ("N2", "goa-1", "unc-1", "unc-38", "unc-63")
    assert "not UEA's EigenWorms" in data.source


def test_spoken_words(real_data):
    data = load("speechcommands10")  # the case of a name does not matter
    assert np.abs(data.series.values).max() <= 1
    assert np.bincount(data.target).tolist() == [100] * 10
    assert len(np.unique(data.groups)) == 220


def test_what_is_not_here_and_cannot_be_fetched():
    for name in ("eigenworms_source44", "SpeechCommands10"):
        with pytest.raises(DatasetUnavailable, match=r"Put there an .npz file with X"):
            load(name)


@pytest.mark.parametrize(("name", "file"), [("eigenworms_source44", WORMS), ("SpeechCommands10", WORDS)])
def test_another_file_in_the_place_of_a_converted_set_is_named(name, file):
    path = data_folder() / file
    path.parent.mkdir(parents=True)
    np.savez(path, X=np.zeros((4, 3)))
    with pytest.raises(ReadError, match=r"\.npz: Got .*expected also y"):
        load(name)
    y, names, who = np.zeros(4, int), np.array(["a"]), np.array(["b"] * 4)
    np.savez(path, X=np.zeros((4, 3)), y=y, strains=names, words=names, speaker=who)
    with pytest.raises(ReadError, match=r"X of shape \(4, 3\); expected \((43|1000), 1"):
        load(name)


def test_options_are_for_simulated_sets():
    assert len(load("spirals", samples=5)) == 5
    with pytest.raises(TypeError, match=r"colour='red' for spirals; expected one of \['samples'"):
        load("spirals", colour="red")
    with pytest.raises(TypeError, match="expected no options"):
        load("EigenWorms", samples=5)
