"""PhysioNet 2012 is read from its text files, in a folder, packed, fetched, or as they were read before."""

import hashlib
import tarfile

import numpy as np
import pytest

from neuralrde.datasets import DatasetUnavailable, ReadError, data_folder, load, physionet2012

HEAD = "Time,Parameter,Value\n"
STAYS = {
    "a": {
        # A weight at admission is a descriptor and later ones a channel; of two values at one minute the last counts.
        120: "00:00,RecordID,120\n00:00,Age,54\n00:00,Gender,0\n00:00,Height,-1\n00:00,ICUType,4\n00:00,Weight,-1\n"
        "00:00,HR,73\n01:30,HR,70\n01:30,HR,77\n01:30,Weight,81.5\n47:59,Temp,-17.8\n",
        103: "00:00,RecordID,103\n00:00,Age,90\n00:00,Gender,-1\n00:00,Height,180\n00:00,ICUType,1\n"
        "00:00,Weight,80.6\n",
    },
    "b": {
        131: "00:00,RecordID,131\n00:00,Age,33\n00:00,Gender,1\n00:00,Height,170\n00:00,ICUType,2\n00:00,Weight,60\n"
        "00:15,pH,7.4\n",
    },
}
DEATHS = {"a": {103: 1, 120: 0}, "b": {131: 1}}


def write(folder, *, packed):
    folder.mkdir(parents=True)
    for name, stays in STAYS.items():
        (folder / f"set-{name}").mkdir()
        for record, rows in stays.items():
            (folder / f"set-{name}" / f"{record}.txt").write_text(HEAD + rows)
        rows = [f"{record},{died}" for record, died in DEATHS[name].items()]
        (folder / f"Outcomes-{name}.txt").write_text("\n".join(["RecordID,In-hospital_death", *rows]) + "\n")
        if packed:
            with tarfile.open(folder / f"set-{name}.tar.gz", "w:gz") as archive:
                archive.add(folder / f"set-{name}", f"./set-{name}")
            for file in (folder / f"set-{name}").iterdir():
                file.unlink()
            (folder / f"set-{name}").rmdir()


def assert_are_the_stays(data):
    assert data.series.ids.tolist() == ["103", "120", "131"]  # by number, whatever the order of the files
    assert data.series.channels == ("HR", "Temp", "Weight", "pH")
    assert data.series.lengths.tolist() == [1, 3, 1]
    np.testing.assert_allclose(data.series.times[1], [0, 1.5, 47 + 59 / 60])
    assert data.series.times[2, 0] == 0.25
    nan, values = np.nan, data.series.values
    expected = np.array([[73, nan, nan, nan], [77, nan, 81.5, nan], [nan, -17.8, nan, nan]], np.float32)
    np.testing.assert_array_equal(values[1], expected)
    np.testing.assert_array_equal(values[2, 0], np.float32([nan, nan, nan, 7.4]))
    assert np.isnan(values[0]).all()  # nothing was measured
    assert data.static.columns.tolist() == ["Age", "Gender", "Height", "ICUType", "Weight"]
    described = [[90, nan, 180, 1, 80.6], [54, 0, nan, 4, nan], [33, 1, 170, 2, 60]]
    np.testing.assert_allclose(data.static, described, rtol=1e-6)  # float32
    assert [data.classes[k] for k in data.target] == ["died", "survived", "died"]
    assert data.classes == ("survived", "died")
    assert data.split.tolist() == ["train", "train", "test"]


@pytest.mark.parametrize("packed", [False, True])
def test_text_files_become_series_and_what_was_read_is_kept(packed):
    folder = data_folder() / "physionet2012"
    write(folder, packed=packed)
    assert_are_the_stays(load("PhysioNet2012"))
    for name in STAYS:
        (folder / f"Outcomes-{name}.txt").unlink()
    assert_are_the_stays(load("physionet2012"))  # from what was kept
    content = bytearray((folder / "physionet2012_a.npz").read_bytes())
    content[100] ^= 1
    (folder / "physionet2012_a.npz").write_bytes(content)
    with pytest.raises(ReadError, match="has changed since it was made"):
        load("PhysioNet2012")


def test_files_that_are_none_of_physionets_are_named():
    folder = data_folder() / "physionet2012"
    write(folder, packed=False)
    (folder / "Outcomes-a.txt").write_text("RecordID,In-hospital_death\n103,1\n")
    with pytest.raises(ReadError, match=r"Outcomes-a\.txt: Got a damaged table of outcomes .*120"):
        load("PhysioNet2012")
    (folder / "set-a" / "103.txt").write_text(HEAD + "00:00,RecordID,103\n00:07,HR,many\n")
    with pytest.raises(ReadError, match=r"set-a: Got a damaged set of text files .*many"):
        load("PhysioNet2012")


def test_from_physionet_itself_with_its_checksums(server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(physionet2012, "_ADDRESS", f"{address}/2012")
    write(folder / "2012", packed=True)
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (folder / "2012").iterdir()}
    listing = folder / "2012" / "SHA256SUMS.txt"
    listing.write_text("".join(f"{digest} {name}\n" for name, digest in sums.items()))
    assert_are_the_stays(load("PhysioNet2012"))
    for file in (data_folder() / "physionet2012").iterdir():
        file.unlink()
    (folder / "2012" / "set-b.tar.gz").write_bytes(b"rubbish")
    with pytest.raises(DatasetUnavailable, match=r"checksum.*put PhysioNet's set-a\.tar\.gz, Outcomes-a\.txt"):
        load("PhysioNet2012")


@pytest.mark.long
def test_as_many_die_as_the_challenge_says(real_data):
    data = load("PhysioNet2012")
    assert data.series.values.shape == (8000, 202, 37)
    died = np.asarray(data.target) == data.classes.index("died")
    assert [died[data.split == part].sum() for part in ("train", "test")] == [554, 568]
    nothing = np.isnan(data.series.values).all(axis=(1, 2))
    assert [nothing[data.split == part].sum() for part in ("train", "test")] == [3, 7]
    assert data.series.times.max() == 48
