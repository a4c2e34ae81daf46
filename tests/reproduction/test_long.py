"""Long series of the UEA archive: splits, tokens and metrics of LogSig-SSM, and the command from files to picture."""

from dataclasses import replace

import numpy as np
import pytest

from neuralrde import Series, log_signature
from neuralrde.datasets import Dataset
from neuralrde.tools.assessment import published
from reproduction.__main__ import main
from reproduction.data import load
from reproduction.experiment import Experiment, Limits
from reproduction.long import SEEDS, experiments
from reproduction.long_settings import SERIES, SETTINGS, LongSettings
from reproduction.long_training import mean_of_batches, tokens_of, train_logsig_ssm, unique
from reproduction.results import read_results
from reproduction.splits import divide, torch_split, walker_split
from reproduction.train import train


@pytest.fixture(scope="module")
def toy() -> Dataset:
    """Turns to the left or to the right, 60 series of 61 points."""
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 60)
    angles = np.where(target, 0.4, -0.4)[:, None] * np.arange(61) + rng.uniform(0, 6, (60, 1))
    values = np.stack([np.cos(angles), np.sin(angles)], axis=2) + 0.1 * rng.normal(size=(60, 61, 2))
    return Dataset(Series.from_array(values.astype(np.float32)), target, classes=["left", "right"], name="Turns")


SETTINGS_OF_TOY = LongSettings(step=4, lengths=(7, 3), depth=(2, 1), whole=1, width=8, state=4, every=2, most=6)


@pytest.mark.parametrize("count", [2, 236, 380, 561])
def test_splits_are_those_of_torch(count):
    torch = pytest.importorskip("torch")
    for seed in SEEDS:
        torch.manual_seed(seed)
        assert np.concatenate([*torch_split(count, seed)]).tolist() == torch.randperm(count).tolist()


def test_splits_have_the_published_sizes():
    for split in (torch_split, walker_split):
        assert [len(rows) for rows in split(236, 2345)] == [165, 35, 36]
        assert sorted(np.concatenate([*split(236, 2345)])) == list(range(236))
    assert (walker_split(236, 2345).test != torch_split(236, 2345).test).any()


def test_series_that_are_there_twice_are_left_out(toy):
    twice = toy[np.r_[np.arange(60), [3, 5]]]
    assert len(unique(twice)) == 60
    np.testing.assert_array_equal(unique(twice).series.values, np.unique(toy.series.values, axis=0))
    renamed = Dataset(toy.series, toy.target, classes=toy.classes, name="EigenWorms")
    with pytest.raises(ValueError, match="EigenWorms with 60 different series of 60; expected 236"):
        unique(renamed)


def test_tokens_see_the_last_points(toy):
    """At 4, 8, ... the log-signatures of the last 7 and 3 points, and of all so far; no time, no tail."""
    raw = LongSettings(step=4, lengths=(7, 3), depth=(2, 1), whole=1, standardise=False)
    split = divide(toy, "torch", 2345)
    tokens = tokens_of(toy[np.arange(5)], split, raw)
    assert tokens.shape == (5, 15, 3 + 2 + 2)
    for number, path in enumerate(np.asarray(toy.series.values[:5], np.float64)):
        for place in range(15):
            end = 4 * (place + 1)
            parts = [path[max(0, end - 6) : end + 1], path[end - 2 : end + 1], path[: end + 1]]
            expected = [log_signature(part, depth) for part, depth in zip(parts, (2, 1, 1), strict=True)]
            np.testing.assert_allclose(tokens[number, place], np.concatenate(expected), rtol=1e-5, atol=1e-6)
    shorter = toy[np.arange(5)]
    shorter = Dataset(Series.from_array(shorter.series.values[:, :60]), shorter.target, classes=toy.classes)
    assert tokens_of(shorter, split, raw).shape[1] == 14  # theirs never sees the points after the last token
    standard = tokens_of(toy, split, SETTINGS_OF_TOY)[split.train]
    assert np.abs(standard.reshape(-1, 7).std(axis=0) - 1).max() < 0.1


def test_a_mean_of_batches_is_no_accuracy():
    """One mistake among 36: 35/36, or half of 31/32 + 4/4 or of 32/32 + 3/4, as the batches fall."""
    outputs, target = np.eye(2)[[0] * 36], np.r_[np.zeros(35, int), 1]
    found = {mean_of_batches(outputs, target, 32, np.random.default_rng(seed)) for seed in range(60)}
    assert found == {(31 / 32 + 1) / 2, (1 + 3 / 4) / 2}


def test_the_arithmetic_of_the_page():
    """What LogSig-SSM's means of batches on EigenWorms are as accuracies: only one number of right series fits each."""
    for reported, right in ((93.75, [32]), (96.88, [34]), (98.44, [35]), (92.19, [31]), (81.25, [24, 31])):
        fits = {a + b for a in range(33) for b in range(5) if round(100 * (a / 32 + b / 4) / 2, 2) == reported}
        likely = sorted(total for total in fits if total in right)
        assert likely == right, (reported, fits)


def test_training_learns_and_ends_when_nothing_gets_better(toy, monkeypatch, tmp_path):
    monkeypatch.setitem(SETTINGS, "Turns", SETTINGS_OF_TOY)
    experiment = Experiment(
        dataset="Turns", model="logsig-ssm", depth=2, step=4, seed=2345, protocol="logsig-ssm", split="torch"
    )
    line = train(experiment, Limits(every=2, most=40), tmp_path / "a.nrde", data=toy)
    # A look that is as good as the best is a better one: with all series right, training goes on to the end.
    assert (line["stopped"], line["best_epoch"], line["sizes"]) == ("epochs", 20, [42, 9, 9])
    assert line["test"]["accuracy"] == 1.0 == line["test"]["mean_of_batches"]
    assert line["settings"]["every"] == 2
    # Where there is nothing to learn, some look is worse than the best before it.
    monkeypatch.setitem(SETTINGS, "Turns", replace(SETTINGS_OF_TOY, patience=1, rate=0.03))
    noise = replace(toy, target=np.random.default_rng(1).permutation(toy.target))
    line = train(experiment, Limits(every=2, most=400), data=noise)
    assert line["stopped"] == "patience"
    assert line["epochs"] == line["best_epoch"] + 1
    monkeypatch.setitem(SETTINGS, "Turns", SETTINGS_OF_TOY)
    # Interrupted after a look, it ends as if it had not been.
    split = divide(toy, "torch", 2345)
    whole = train_logsig_ssm(experiment, Limits(every=2, most=8), toy, split, None)
    train_logsig_ssm(experiment, Limits(every=2, most=8, budget=1e-9), toy, split, tmp_path / "b.nrde")
    again = train_logsig_ssm(experiment, Limits(every=2, most=8), toy, split, tmp_path / "b.nrde")
    assert (again["test"], again["best_epoch"]) == (whole["test"], whole["best_epoch"])


def write_ts(data: Dataset, folder, name: str) -> None:
    """As the archive has them, in two parts."""
    folder.mkdir(parents=True)
    classes = [str(one) for one in data.classes or ()]
    half = len(data) // 2
    for part, rows in (("TRAIN", range(half)), ("TEST", range(half, len(data)))):
        head = f"@problemName {name}\n@timeStamps false\n@missing false\n@univariate false\n@equalLength true\n"
        head += f"@dimensions {data.series.values.shape[2]}\n@seriesLength {data.series.values.shape[1]}\n"
        lines = [f"{head}@classLabel true {' '.join(classes)}\n@data"]
        for row in rows:
            channels = (",".join(map(repr, map(float, channel))) for channel in data.series.values[row].T)
            lines.append(":".join([*channels, classes[int(np.asarray(data.target)[row])]]))
        (folder / f"{name}_{part}.ts").write_text("\n".join(lines) + "\n")


@pytest.mark.long
def test_from_files_to_table_and_picture(real_data, tmp_path, capsys, monkeypatch):
    """Forty-three worms in the archive's format: a line for each seed, a table, a picture; nothing is run twice."""
    worms = load("eigenworms_source44")
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path / "data"))
    write_ts(worms, tmp_path / "data" / "uea_Worms43", "Worms43")
    command = ["long", "--dataset", "Worms43", "--seed", "2345,3456", "--every", "1", "--most", "2"]
    command += ["--method", "logsig-ssm", "--data", str(tmp_path / "data")]
    command += ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")]
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--dry"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(command) == 0, capsys.readouterr().err
    lines = read_results(tmp_path / "results")
    assert [(line["sizes"], line["windows"], line["stopped"]) for line in lines] == [([30, 6, 7], 99, "epochs")] * 2
    assert (tmp_path / "out" / "Worms43.png").stat().st_size > 5000
    text = (tmp_path / "out" / "Worms43.md").read_text("utf-8")
    assert "| LogSig-SSM's settings | torch | 2 |" in text
    assert "a look every 1 steps, 2 at most" in text
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.count("is there (finished)") == 2
    assert len(read_results(tmp_path / "results")) == 2


def test_our_defaults_are_fitted_to_what_is_not_tested(toy):
    experiment = Experiment(
        dataset="Turns", model="closed-form", depth=1, step=1, seed=2345, protocol="defaults", split="walker"
    )
    line = train(experiment, data=toy)
    assert line["test"] == {"accuracy": 1.0}
    assert line["sizes"] == [42, 9, 9]


def test_settings_and_published_values_are_of_the_same_sets():
    assert set(SETTINGS) == set(SERIES)
    for name in SETTINGS:
        methods = {one.method for one in published(name) if one.metric == "mean_batch_accuracy"}
        assert methods == {"LogSig-SSM", "LogSig-SSM-rule"}
    of_worms = experiments("EigenWorms", ["logsig-ssm", "defaults", "paper"], SEEDS)
    assert len(of_worms) == 5 * (1 + 3 + 5)
    assert {one.split for one in of_worms} == {"torch", "walker"}
    with pytest.raises(ValueError, match="expected some of logsig-ssm, defaults, paper"):
        experiments("EigenWorms", ["mamba"], SEEDS)
    with pytest.raises(ValueError, match="under the protocol 'logsig-ssm'; expected logsig-ssm"):
        Experiment(dataset="SCP1", model="nrde", depth=2, step=5, seed=1, protocol="logsig-ssm")
