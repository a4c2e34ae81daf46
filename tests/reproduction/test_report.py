"""Tables and pages from a small fixture of results."""

import pytest

from reproduction.__main__ import main
from reproduction.experiment import Experiment, Limits
from reproduction.report_content import commands
from reproduction.results import append, read_results, summaries
from reproduction.train import settings_of


def line(seed, rmse, *, stopped="epochs", **experiment):
    experiment = {"dataset": "HR", "model": "nrde", "depth": 3, "step": 512, "seed": seed, **experiment}
    return {
        "cell": Experiment(**experiment).key,
        "settings": {"state": 64},
        "test": {"rmse": rmse + 1, "mae": 1.0, "mean_over_batches": rmse},
        "floors": {"training mean": {"rmse": 13.0, "mae": 10.0}, "recording's mean": {"rmse": 1.9, "mae": 1.0}},
        "minutes": 3.0,
        "log_signature_seconds": 18.0,
        "memory_mb": 40.0,
        "seconds_to_published": None,
        "stopped": stopped,
        "versions": {},
    }


@pytest.fixture
def folder(tmp_path):
    for seed, rmse in ((111, 3.0), (222, 4.0), (333, 5.0)):
        append(line(seed, rmse), tmp_path / "results")
    append(line(111, 0.0, depth=2, stopped="interrupted"), tmp_path / "results")
    append(line(0, 2.0, protocol="ours", split="group", step=128), tmp_path / "results")
    return tmp_path


def test_mean_and_deviation_over_seeds(folder):
    one = next(
        s for s in summaries(read_results(folder / "results")) if s.experiment.depth == 3 and s.experiment.step == 512
    )
    assert (one.mean, one.deviation) == (4.0, 1.0)  # as the paper's code reports: over batches
    assert one.published is not None
    assert one.published.mean == 3.46
    assert one.log_signature_share == pytest.approx(0.1)
    assert one.floors["training mean"] == 13.0


def test_a_floor_that_only_some_lines_have_is_not_shown(folder):
    late = line(444, 4.0)
    late["floors"] = {"a new floor": {"rmse": 1.0, "mae": 1.0}, "training mean": {"rmse": 17.0, "mae": 10.0}}
    append(late, folder / "results")
    one = next(
        s for s in summaries(read_results(folder / "results")) if s.experiment.depth == 3 and s.experiment.step == 512
    )
    assert one.floors == {"training mean": 14.0}


def test_a_later_line_of_the_same_run_counts(folder):
    append(line(111, 6.0), folder / "results")
    one = next(
        s for s in summaries(read_results(folder / "results")) if s.experiment.depth == 3 and s.experiment.step == 512
    )
    assert sorted(one.values) == [4.0, 5.0, 6.0]


def test_the_report(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["report"]) == 0
    page, text = (folder / "report.html").read_text("utf-8"), (folder / "docs/reproduction.md").read_text("utf-8")
    for written in (page, text):
        shown = written.replace("\N{NO-BREAK SPACE}", " ")
        assert "4.00 ± 1.00" in shown
        assert "3.46 ± 0.13" in shown
        assert "not finished (interrupted)" in written
        assert "not run" in written
        assert "By patient or speaker" in written
    assert "data:image/png;base64," in page
    assert "<link" not in page  # it needs nothing else
    assert 'src="http' not in page
    for name in ("heatmap-published", "time-BIDMC32HR-paper"):
        assert (folder / f"docs/images/reproduction-{name}.png").stat().st_size > 1000
        assert f"(images/reproduction-{name}.png)" in text


def test_no_results_yet(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 1
    assert "python -m reproduction run" in capsys.readouterr().err


def test_what_would_be_run(capsys):
    assert main(["run", "--model", "ncde", "--dry", "--seed", "111", "--protocol", "paper,ours"]) == 0
    assert capsys.readouterr().out.split() == [
        "BIDMC32HR-ncde-1-512-111-paper-paper",
        "BIDMC32HR-ncde-1-128-111-ours-paper",
    ]
    assert main(["run", "--dry", "--grid", "--depth", "1", "--seed", "1"]) == 0
    assert len(capsys.readouterr().out.split()) == 27


def test_wrong_options_are_told_in_a_sentence(capsys):
    for arguments in (["run", "--depth", "two"], ["run", "--dept", "2"], ["run", "--model", "resnet"]):
        assert main(arguments) in (1, 2)
        said = capsys.readouterr().err
        assert said.startswith("reproduction: ")
        assert "Traceback" not in said


def test_a_quick_try_stands_apart(folder):
    quick = line(111, 9.0, stopped="interrupted")
    append({**quick, "settings": {"state": 64, "epochs": 1}}, folder / "results")
    found = [
        s for s in summaries(read_results(folder / "results")) if s.experiment.depth == 3 and s.experiment.step == 512
    ]
    assert sorted((s.seeds, s.values) for s in found) == [((111,), ()), ((111, 222, 333), (3.0, 4.0, 5.0))]


def test_commands_run_the_same_experiments_again(folder, capsys):
    experiments = [
        Experiment(dataset="HR", model="nrde", depth=depth, step=step, seed=seed, protocol="ours", split="random")
        for depth, step in ((1, 8), (1, 16), (2, 8), (2, 16), (3, 16))
        for seed in (0, 1)
    ]
    experiments += [Experiment(dataset="SCP1", model="ncde", depth=1, step=4, seed=7, protocol="ours", split="group")]
    for experiment in experiments:
        settings = settings_of(experiment, Limits(epochs=4 if experiment.model == "nrde" else None))
        append({**line(experiment.seed, 1.0), "cell": experiment.key, "settings": settings}, folder / "again")
    found = commands(summaries(read_results(folder / "again")))
    assert len(found) == 3  # two depths together, the third, the other data set
    for command in found:
        assert ("--epochs 4" in command) == ("--dataset HR" in command)
        assert main([*command.split()[3:], "--dry"]) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(experiment.name for experiment in experiments)
    # What no setting of today makes has no command.
    assert commands(summaries(read_results(folder / "results"))) == []
