"""BIDMC32 is built from the recordings by the archive's rule, from each format that they come in."""

import hashlib

import numpy as np
import pytest

from neuralrde.datasets import DatasetUnavailable, ReadError, bidmc, data_folder, load


@pytest.mark.long
def test_windows_and_targets_are_those_of_the_archive(real_data):
    records = np.load(real_data / "bidmc" / "bidmc_records.npz")
    windows = np.load(real_data / "bidmc" / "bidmc32_windows.npz")
    labels = dict(zip(windows["label_names"].tolist(), windows["labels"].T, strict=True))
    heart = load("BIDMC32HR")
    assert heart.series.values.shape == (7950, 4000, 2)
    assert heart.series.values.dtype == np.float32
    assert heart.series.channels == ("PLETH", "II")
    np.testing.assert_allclose(heart.target, labels["HR"], rtol=1e-6)  # there in float32
    # An export of the archive, row 0: label 25.1875 (breathing) of the first window of recording 01.
    assert labels["RR"][0] == 25.1875
    for i in (0, 1, 149, 150, 5555, 7949):
        start = windows["start"][i]
        expected = records["X"][windows["record"][i], start : start + 4000, 1:]
        np.testing.assert_array_equal(heart.series.values[i], expected)
    np.testing.assert_allclose(np.diff(heart.series.times[0]), 1 / 125)
    assert heart.series.ids[[0, 151, 7949]].tolist() == ["01/000", "02/001", "53/149"]
    np.testing.assert_array_equal(heart.groups, records["mimic_id"][windows["record"]])
    assert len(np.unique(heart.groups)) == 46
    np.testing.assert_array_equal(heart.split == "train", windows["split37"])
    # The paper's floor for this set: predicting the mean has RMSE 13.2.
    assert heart.target.std() == pytest.approx(13.2, abs=0.05)


@pytest.mark.long
def test_windows_without_breathing_are_left_out(real_data):
    windows = np.load(real_data / "bidmc" / "bidmc32_windows.npz")
    breath = load("BIDMC32RR")
    assert len(breath) == windows["rr_valid"].sum() == 7871
    np.testing.assert_allclose(breath.target, windows["labels"][windows["rr_valid"], 2], rtol=1e-6)
    assert np.sum(breath.split == "train") == 5471


@pytest.fixture
def recordings(monkeypatch):
    """Two short recordings, in the place of 53 long ones."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(bidmc, "PATIENTS", ["p", "q"])
    monkeypatch.setattr(bidmc, "SIZES", (2, 4751, 39))
    monkeypatch.setattr(bidmc, "WINDOWS", 3)
    signals, numerics = rng.normal(size=(2, 4751, 3)), rng.integers(50, 90, size=(2, 39, 4)).astype(float)
    numerics[0, 35, 0] = np.nan
    return signals.astype(np.float32), numerics.astype(np.float32)


def write_csv(folder, signals, numerics):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(2):
        for kind, names, array, rate in (
            ("Signals", "RESP, PLETH, V, II", np.insert(signals[i], 2, 0, axis=1), 125),
            ("Numerics", "HR, PULSE, RESP, SpO2", numerics[i], 1),
        ):
            rows = [f"{j / rate},{','.join(map(repr, row))}" for j, row in enumerate(array.tolist())]
            text = "\n".join([f"Time [s], {names}", *rows]).replace("nan", "NaN")
            (folder / f"bidmc_{i + 1:02d}_{kind}.csv").write_text(text)


def assert_built_from(data, signals, numerics):
    assert data.series.values.shape == (6, 4000, 2)
    np.testing.assert_array_equal(data.series.values[4], signals[1, 375:4375, 1:])
    assert data.target[1] == pytest.approx(np.nanmean(numerics[0, 3:35, 0]))
    assert data.target[2] == pytest.approx(np.nanmean(numerics[0, 6:38, 0]))
    assert data.groups.tolist() == ["p", "p", "p", "q", "q", "q"]


def test_from_physionets_tables(recordings):
    folder = data_folder() / "bidmc" / "bidmc_csv"
    write_csv(folder, *recordings)
    assert_built_from(load("BIDMC32HR"), *recordings)
    path = folder / "bidmc_02_Signals.csv"
    path.write_text("\n".join(path.read_text("utf-8").splitlines()[:100]))
    with pytest.raises(ReadError, match="Got 99 rows; expected 4751"):
        load("BIDMC32HR")


def test_from_physionet_itself_with_its_checksums(recordings, server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(bidmc, "_ADDRESS", address)
    write_csv(folder / "bidmc_csv", *recordings)
    files = sorted((folder / "bidmc_csv").iterdir())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()} bidmc_csv/{file.name}" for file in files]
    (folder / "SHA256SUMS.txt").write_text("\n".join(lines) + "\n")
    assert_built_from(load("BIDMC32HR"), *recordings)
    kept = data_folder() / "bidmc"
    assert (kept / "bidmc_records.npz.sha256").exists()
    assert_built_from(load("BIDMC32HR"), *recordings)  # from what was kept
    (kept / "bidmc_records.npz").unlink()
    (kept / "bidmc_csv" / "bidmc_02_Signals.csv").unlink()  # as if the download had broken off
    (folder / "bidmc_csv" / "bidmc_02_Signals.csv").write_text("rubbish")
    with pytest.raises(DatasetUnavailable, match="checksum"):
        load("BIDMC32HR")
    assert (kept / "bidmc_csv" / "bidmc_01_Signals.csv").exists()


def test_a_list_of_checksums_that_is_empty_or_short_is_refused(recordings, server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(bidmc, "_ADDRESS", address)
    write_csv(folder / "bidmc_csv", *recordings)
    files = sorted((folder / "bidmc_csv").iterdir())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()} bidmc_csv/{file.name}" for file in files]
    for text in (
        "",
        "\n\n",
        "rubbish",
        "\n".join(lines[:-1]),
        "\n".join([*lines[:-1], " bidmc_csv/" + files[-1].name]),
    ):
        (folder / "SHA256SUMS.txt").write_text(text)
        with pytest.raises(DatasetUnavailable, match=r"SHA256SUMS\.txt|an empty file"):
            load("BIDMC32HR")
        assert not (data_folder() / "bidmc").exists()
    (folder / "SHA256SUMS.txt").write_text("\n".join(lines))  # mended: nothing of the bad one has stayed
    assert_built_from(load("BIDMC32HR"), *recordings)


def test_recordings_of_other_sizes_are_named(recordings):
    folder = data_folder() / "bidmc"
    folder.mkdir(parents=True)
    np.savez(folder / "bidmc_records.npz", X=np.zeros((2, 5, 3)), numerics=np.zeros((2, 39, 4)))
    with pytest.raises(ReadError, match=r"X of shape \(2, 5, 3\); expected \(2, 4751, 3\)"):
        load("BIDMC32HR")
    np.savez(folder / "bidmc_records.npz", X=recordings[0])
    with pytest.raises(ReadError, match=r"expected also numerics"):
        load("BIDMC32HR")


def test_without_a_network_a_sentence_says_where_to_put_the_files(monkeypatch):
    monkeypatch.setattr(bidmc, "_ADDRESS", "http://127.0.0.1:9")
    with pytest.raises(DatasetUnavailable) as caught:
        load("BIDMC32SpO2")
    for part in ("bidmc_01_Signals.csv", "bidmc_01_Numerics.csv", str(data_folder() / "bidmc")):
        assert part in str(caught.value)
    assert not (data_folder() / "bidmc").exists()
