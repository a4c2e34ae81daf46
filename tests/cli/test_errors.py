"""Whatever is wrong: one sentence on stderr, an exit code, no traceback; and a traceback with --debug."""

import inspect
import re
import signal
import subprocess
import sys
import time
import warnings

import pytest

from neuralrde.datasets import order_of_events
from neuralrde.errors import setting
from neuralrde.estimators import NeuralRDEClassifier
from neuralrde.tools.cli.fit import fit

from .conftest import COLUMNS, QUICK


def assert_a_sentence(outcome, code, *words):
    assert outcome.code == code, (outcome.out, outcome.err)
    assert outcome.err.startswith("neuralrde: ")
    assert "Traceback" not in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    for word in words:
        assert word in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fit", "absent.csv"], 1, ["no file or folder absent.csv"]),
        (["fit", "spirals", "--epoch", "3"], 2, ["no option --epoch.", "Did you mean --epochs?"]),
        (["fitt"], 2, ["fit", "Did you mean 'fit'? "]),
        (["fit"], 2, ["DATA"]),
        (["fit", "spirals", "--depth", "two"], 2, ["--depth", "valid integer"]),
        (["fit", "spirals", "--epochs", "0"], 2, ["--epochs"]),
        (["fit", "spirals", "--target", "x"], 2, ["--target", "spirals"]),
        (["fit", "spirals", "--set", "pacience=3"], 2, ["pacience", "patience"]),
        (["fit", "spirals", "--set", "model.readout=first", "--out", "x"], 2, ["readout", "final"]),
        (["fit", "spirals", "--set", "patience"], 2, ["NAME=VALUE"]),
        (["fit", "spirals", "--set", "clip=1"], 2, ["--set optimizer.clip"]),
        (["fit", "spirals", "--set", "model.stat=4"], 2, ["state"]),
        (["fit", "spirals", "--set", "evil.state=4"], 2, ["before the dot", "model"]),
        (["fit", "spirals", "--model", "log-nrde"], 2, ["Did you mean 'log-ncde'"]),
        (["fit", "spirals", "--loss", "hubert"], 2, ["Did you mean 'huber'"]),
        (["parts", "modal"], 2, ["expected one of", "model"]),
        (["fit", "spirals", "--divide", "given", "--out", "x"], 1, ["no split"]),
        (["fit", "spirals", "--divide", "none"], 2, ["divide"]),
        (["fit", "spirals", "--resume"], 2, ["--out"]),
        (["fit", "spirals", "--config", "absent.toml"], 2, ["absent.toml"]),
        (["predict", "absent", "spirals"], 1, ["no model at absent"]),
        (["inspect", "absent.nrde"], 1, ["no model at absent.nrde"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_one_sentence(run, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    assert_a_sentence(run(*arguments), code, *words)


def test_an_unknown_data_set(run, tmp_path, monkeypatch):
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path))
    monkeypatch.setattr("neuralrde.datasets.archive._from_addresses", _no_network)
    assert_a_sentence(run("data", "get", "spiral"), 1, "spiral", "Did you mean 'spirals'?")


def _no_network(name, scratch):
    from neuralrde.datasets import DatasetUnavailable

    raise DatasetUnavailable(f"Could not download {name}")


def test_bad_files(run, tmp_path, trained):
    table = tmp_path / "bad.csv"
    table.write_text("id,t,x,target\n1,0,hello,a\n1,1,2,a\n")
    assert_a_sentence(run("fit", table), 1, "bad.csv")
    config = tmp_path / "bad.toml"
    config.write_text("data = \n")
    assert_a_sentence(run("fit", "--config", config), 2, "bad.toml", "TOML")
    config.write_text("[modell]\ndepth = 2\n")
    assert_a_sentence(run("fit", "--config", config), 2, "modell", "Did you mean 'model'?")
    model = tmp_path / "bad.nrde"
    model.write_bytes((trained / "model.nrde").read_bytes()[:-10])
    assert_a_sentence(run("inspect", model), 1, "bad.nrde", "truncated")


def test_other_channels_than_in_training(run, trained):
    assert_a_sentence(run("predict", trained, "fractional_brownian_motion", "--out", "-"), 1)


def test_a_run_is_never_overwritten(run, hearts, trained):
    before = (trained / "model.nrde").read_bytes()
    assert_a_sentence(run("fit", hearts, *COLUMNS, *QUICK, "--out", trained), 2, "holds a run", "--resume")
    assert (trained / "model.nrde").read_bytes() == before


def test_resume_refuses_another_training(run, trained):
    before = {file: file.read_bytes() for file in trained.iterdir() if file.is_file()}
    assert_a_sentence(run("fit", "--resume", "--out", trained, "--set", "model.state=4"), 1, "another training")
    assert {file: file.read_bytes() for file in trained.iterdir() if file.is_file()} == before


def test_debug_shows_where(run):
    outcome = run("fit", "absent.csv", "--debug")
    assert outcome.code == 1
    assert "Traceback" in outcome.err
    assert outcome.err.strip().splitlines()[-1].startswith("neuralrde: ")


def test_what_nobody_thought_of_is_a_sentence_too(run, monkeypatch):
    def broken(*arguments):
        raise KeyError("oops")

    monkeypatch.setattr("neuralrde.tools.cli.proposal.open_data", broken)
    assert_a_sentence(run("inspect", "spirals"), 1, "KeyError", "--debug")


@pytest.mark.long
def test_as_a_program():
    """The real thing, once: `python -m neuralrde` in a process of its own."""
    command = [sys.executable, "-m", "neuralrde"]
    bad = subprocess.run([*command, "fit", "absent.csv"], capture_output=True, text=True)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (1, "", 1)


@pytest.mark.long
def test_an_interrupt_keeps_what_was_done(hearts, tmp_path):
    """Ctrl-C at a training that would last for hours: a sentence, its exit code, and a checkpoint that goes on."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "neuralrde", "fit", str(hearts), *COLUMNS, *QUICK, "--out", str(folder)]
    process = subprocess.Popen(
        [*command, "--epochs", "1000000", "--set", "patience=1000000"],
        stderr=subprocess.PIPE,
        text=True,
        # As from a terminal: a shell has what it runs in the background ignore Ctrl-C, these tests perhaps.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while not (folder / "checkpoint.nrde").exists():  # the first one is written after the first epoch
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    assert said.count("\n") == 1
    assert "--resume" in said
    assert (folder / "checkpoint.nrde").exists()
    assert not (folder / "model.nrde").exists()


@pytest.mark.parametrize("command", ["", "fit", "predict", "evaluate", "inspect", "parts", "data"])
def test_help(run, command):
    outcome = run(*filter(None, [command]), "--help")
    assert outcome.code == 0
    assert "Usage: neuralrde" in outcome.out


def test_help_wrong_flags_and_tables_need_no_jax(hearts):
    """So that they are quick: JAX takes seconds to load."""
    code = f"""if True:
        import sys
        from neuralrde.tools.cli import main

        codes = [main(["--help"]), main(["fit", "--nonsense"]), main(["inspect", {str(hearts)!r}, *{COLUMNS}])]
        print(codes, sorted({{"jax", "sklearn", "matplotlib"}} & set(sys.modules)), file=sys.stderr)
    """
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.splitlines()[-1] == "[0, 2, 0] []"


def test_help_names_the_estimators_defaults():
    defaults = {name.split("__")[-1]: value for name, value in NeuralRDEClassifier().get_params().items()}
    shown = 0
    for name, flag in inspect.signature(fit).parameters.items():
        number = re.search(r"\[([0-9.]+)\]$", getattr(flag.annotation, "__metadata__", [flag])[0].help or "")
        if number and name in defaults:
            assert float(number[1]) == defaults[name], name
            shown += 1
    assert shown >= 3


def test_no_command_at_all(run):
    outcome = run()
    assert (outcome.code, outcome.err) == (2, "")
    assert "Usage: neuralrde" in outcome.out


def test_data_list(run):
    assert "order_of_events" in run("data", "list").out
    names = [entry["name"] for entry in run("data", "list", "--json").json]
    assert "SelfRegulationSCP1" in names


def test_a_warning_is_a_note(run, monkeypatch):
    """In the words of the command line, and no reason to stop."""

    def warned(word, table):
        text = f"Write {setting('step', 1)} to use all."
        warnings.warn_explicit(text, UserWarning, "x.py", 1, module="neuralrde.tools.cli.run")
        return order_of_events(samples=10, length=33, events=4)

    monkeypatch.setattr("neuralrde.tools.cli.proposal.open_data", warned)
    outcome = run("inspect", "spirals")
    assert (outcome.code, outcome.err) == (0, "note: Write --step 1 to use all.\n")
