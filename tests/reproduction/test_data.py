"""The two sets that the library does not know: what they hold, and what is said if they are not here."""

import numpy as np
import pytest

from neuralrde.datasets import DatasetUnavailable, ReadError, by_group, data_folder
from reproduction.data import WORDS, WORMS, load


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path))


def test_worms_are_not_called_eigenworms(real_data):
    data = load("eigenworms_source44")
    assert data.name == "eigenworms_source44"
    assert data.classes == ("N2", "goa-1", "unc-1", "unc-38", "unc-63")
    assert "not UEA's EigenWorms" in data.source


def test_spoken_words(real_data):
    data = load("SpeechCommands10")
    assert np.abs(data.series.values).max() <= 1
    assert np.bincount(data.target).tolist() == [100] * 10
    assert len(np.unique(data.groups)) == 220


@pytest.mark.usefixtures("nowhere")
def test_what_is_not_here_and_cannot_be_fetched():
    for name in ("eigenworms_source44", "SpeechCommands10"):
        with pytest.raises(DatasetUnavailable, match=r"Put there an .npz file with X"):
            load(name)


@pytest.mark.usefixtures("nowhere")
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


def test_real_speakers(real_data):
    data = load("SpeechCommands10")
    split = by_group(data)
    parts = [set(data.groups[rows]) for rows in split]
    assert sum(map(len, parts)) == len(set(data.groups))
    assert len(split.train) / len(data) == pytest.approx(0.7, abs=0.05)


def test_other_names_are_the_librarys():
    assert load("spirals").name == "spirals"
