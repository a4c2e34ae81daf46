"""README and docs keep their word: code runs, commands run, links lead somewhere, every public name is described."""

import importlib
import inspect
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
import typer.main

import neuralrde
from benchmarks.__main__ import FOLDERS as BENCHMARKS
from benchmarks.quality.league.command import parser as league_options
from benchmarks.quality.league.command import wanted
from docs import hooks
from neuralrde.datasets import order_of_events
from neuralrde.datasets.physionet2012 import find_physionet2012
from neuralrde.registry import Registry
from neuralrde.tools.cli import main
from neuralrde.tools.cli.app import app
from reproduction.__main__ import app as reproduction_app
from reproduction.__main__ import main as reproduction

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "reproduction/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
REFERENCE = re.compile(r"^::: (neuralrde\.\S+)$", re.MULTILINE)
PARTS = (
    "registry",
    "paths",
    "transforms",
    "datasets",
    "signatures",
    "torch",
    "fields",
    "solvers",
    "devices",
    "processes",
    "models",
    "training",
    "tools.stores",
    "estimators",
    "online",
    "tools.serving",
    "tools.assessment",
    "tools.sweeps",
    "plots",
)
# On a page as a whole: what several estimators share, and names that Signatory explains.
SHARED = {
    "neuralrde.estimators.neural.BaseNeuralRDE",
    "neuralrde.estimators.closed_form.ClosedForm",
    "neuralrde.torch.signatory",
}


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Code of a language; what a page takes from a script is run with the script (tests/test_examples.py)."""
    found = (code for kind, code in BLOCK.findall(page.read_text("utf-8")) if kind == language)
    return [code for code in found if not code.startswith("--8<--")]


def commands(page: Path) -> list[str]:
    lines = "".join(blocks(page, "sh")).splitlines()
    return [" ".join(shlex.split(line, comments=True)) for line in lines if line.strip()]


WITH_CODE = [page for page in PAGES if blocks(page, "python") and page.name != "medical.md"]  # which needs its files


@pytest.fixture
def stays(tmp_path, monkeypatch) -> Path:
    """A small part of PhysioNet's text files; made up where the data are not at hand, in the same form."""
    found, rng, count, about = find_physionet2012(), np.random.default_rng(0), 40, []
    (tmp_path / "set-a").mkdir()
    if found is not None and found.suffix == ".npz":
        with np.load(found) as a:
            ends, numbers, deaths = a["offsets"][: count + 1], a["record"][:count], a["death"][:count]
            columns = a["minute"], a["names"][a["variable"]], a["value"]
    else:
        ends, numbers, deaths = np.arange(count + 1) * 30, 132539 + np.arange(count), np.arange(count) % 2
        minutes = np.sort(rng.choice(2880, (count, 30)), axis=1).ravel()
        columns = minutes, rng.choice(["HR", "BUN", "GCS"], minutes.size), rng.normal(50, 10, minutes.size)
        about = ["00:00,Age,60", "00:00,Gender,1", "00:00,Height,170", "00:00,ICUType,2"]
    for number, first, end in zip(numbers, ends, ends[1:], strict=False):
        rows = zip(*(column[first:end] for column in columns), strict=True)
        texts = [f"{minute // 60:02d}:{minute % 60:02d},{name},{value:g}" for minute, name, value in rows]
        lines = ["Time,Parameter,Value", f"00:00,RecordID,{number}", *about, *texts]
        (tmp_path / "set-a" / f"{number}.txt").write_text("\n".join(lines))
    outcomes = [f"{number},{death}" for number, death in zip(numbers, deaths, strict=True)]
    (tmp_path / "Outcomes-a.txt").write_text("\n".join(["RecordID,In-hospital_death", *outcomes]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_medical_guide_ends_with_a_picture(stays):
    page = ROOT / "docs" / "guides" / "medical.md"
    code = blocks(page, "python")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 25
    exec(compile(code, str(page), "exec"), {"__name__": "__main__"})
    assert (stays / "risk.png").stat().st_size > 10_000


# A page may show a warning. Type checks add frames, so a page's warning can look like one of our own modules'.
@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize("page", WITH_CODE, ids=named)
def test_code_runs(page, tmp_path, monkeypatch):
    """Each page from top to bottom, in an empty folder, as if it were a script.

    Most of the time is compilation. Pages that train on the same shapes with the same model share it, because all of
    them run in one process: prefer the settings of another page to new ones.
    """
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks(page, "python")), str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```|`[^`\n]+`", "code", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text)
    taken = re.findall(r'^--8<-- "([^":]+)', page.read_text("utf-8"), re.MULTILINE)
    gone = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not gone + [file for file in taken if not (ROOT / file).exists()]


def test_every_picture_is_shown():
    shown = {link for page in PAGES for link in re.findall(r"images/([\w-]+\.png)", page.read_text("utf-8"))}
    assert {file.name for file in (ROOT / "docs" / "images").iterdir()} == shown


def test_files_that_the_architecture_names_are_there():
    """Paths below `src/neuralrde/`, such as `tools/cli/predict.py` and `fields/`."""
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", (ROOT / "docs" / "architecture.md").read_text("utf-8"))
    gone = [path for path in named if not (ROOT / "src" / "neuralrde" / path).exists() and not (ROOT / path).exists()]
    assert not gone
    assert len(named) > 20


# Commands that the pages show and no test can run as they stand; all others are run.
INSTEAD = {"fit": ["--epochs", "1", "--set", "model.state=4", "--set", "model.width=8"], "sweep": ["--no-ray"]}
CLOSED = ["--model", "closed-form"]  # which takes a second as it is, and no such settings
ELSEWHERE = {
    "make demo": "minutes; CI runs it, and tests/test_examples.py what it must show",
    "make test": "this is what runs the tests",
    "make bench": "half an hour on a quiet machine",
    "make league": "an hour, and needs the data; tests/benchmarks",
    "make docs": "CI runs it",
    "python -m reproduction report": "tests/reproduction/test_report.py",
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where a reader of the pages might be: with the files that they speak of."""
    series = order_of_events(samples=40, length=32, events=4, seed=0)
    rows = [("patient", "hour", "pulse", "pressure", "ill")] + [
        (f"p{i}", f"{t / 10}", f"{x:g}", f"{y:g}", "no" if label else "yes")
        for i, (one, label) in enumerate(zip(series.series.values, series.target, strict=True))
        for t, (x, y) in enumerate(one)
    ]
    (tmp_path / "hearts.csv").write_text("\n".join(map(",".join, rows)))
    (tmp_path / "new.csv").write_text("\n".join(",".join(row[:-1]) for row in rows))  # who knows who is ill?
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=named)
def test_commands_run(page, folder):
    """In the order of the page; trainings with fewer epochs and smaller networks, experiments only listed."""
    if settings := blocks(page, "toml"):
        (folder / "run.toml").write_text(settings[0])
    for command in commands(page):
        program, *arguments = command.split()
        if program == "neuralrde":
            closed = CLOSED in [arguments[k : k + 2] for k in range(len(arguments))]
            code = main([*arguments, *([] if closed else INSTEAD.get(arguments[0], []))])
            assert code == 0, command
        elif program == "make":
            assert command in ELSEWHERE, f"{command}: say in ELSEWHERE where it is run"
            subprocess.run(
                ["make", "-n", "-C", ROOT, *arguments], check=True, capture_output=True
            )  # there is such a target
        elif command.startswith("python -m reproduction"):
            assert command in ELSEWHERE or reproduction([*arguments[2:], "--dry"]) == 0, command
        elif program == "pip":
            assert arguments == ["install", "."]  # which is how the tests' own environment was made
        elif "benchmarks" in arguments:
            names = arguments[arguments.index("benchmarks") + 1 :]
            if names[0] == "league":
                wanted(league_options().parse_args(names[1:]))
            else:
                assert set(names) <= set(BENCHMARKS)
        else:  # scripts: tests/test_examples.py runs them
            assert (program, (ROOT / arguments[0]).exists()) == ("python", True), command


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_in_the_text_exist(page):
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    programs = {"neuralrde": app, "python -m reproduction": reproduction_app}
    for program, command in re.findall(r"`(neuralrde|python -m reproduction) ([a-z][^`]*)`", text):
        found = typer.main.get_command(programs[program])
        for word in command.replace("[", " ").replace("]", " ").split():
            if word.startswith("--") and word != "--debug":
                options = [option for parameter in found.params for option in parameter.opts]
                assert word in [*options, "--help"], command
            elif word in getattr(found, "commands", {}):
                found = found.commands[word]
            elif hasattr(found, "commands"):
                assert word == "COMMAND", command


def public_names() -> set[str]:
    names = {f"neuralrde.{part}.{name}" for part in PARTS for name in names_of(f"neuralrde.{part}")}
    assert set(neuralrde.__all__) <= {name.rpartition(".")[2] for name in names}  # the package adds none of its own
    return names | {"neuralrde.__version__"}


def names_of(module: str) -> list[str]:
    """Those in `__all__`; of a single file, the functions and classes that are written in it."""
    part = importlib.import_module(module)
    written = [name for name, thing in vars(part).items() if getattr(thing, "__module__", "") == module]
    return getattr(part, "__all__", [name for name in written if not name.startswith("_")])


def test_every_public_name_is_on_a_reference_page():
    described = [
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in REFERENCE.findall(page.read_text("utf-8"))
    ]
    public = public_names() | SHARED
    missing, strange = sorted(public - set(described)), sorted(set(described) - public)
    assert not missing, f"on no page of docs/reference/: {missing}"
    assert not strange, f"on a page of docs/reference/ and not public: {strange}"
    assert len(described) == len(public), "a name is on two pages of docs/reference/"


def test_every_public_name_is_explained():
    for path in public_names():
        home, _, name = path.rpartition(".")
        thing = getattr(importlib.import_module(home), name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, f"{path} has no docstring"


def documented_parameters(docstring: str) -> list[str]:
    """The names before the colons in "Args:"; several may share a line."""
    section = re.search(r"^ *Args:\n(.*?)(?:^\s*$|\Z)", docstring, re.MULTILINE | re.DOTALL)
    lines = inspect.cleandoc("x\n" + section[1]).splitlines()[1:] if section else []
    least = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    heads = [line.partition(":")[0] for line in lines if len(line) - len(line.lstrip()) == least]
    return [name.strip(" *") for head in heads for name in head.split(",")]


def test_docstrings_name_parameters_that_exist():
    checked = 0
    for path in public_names():
        home, _, name = path.rpartition(".")
        thing = getattr(importlib.import_module(home), name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            named = documented_parameters(thing.__doc__ or "")
            assert not named or set(named) <= set(inspect.signature(thing).parameters), path
            checked += len(named)
    assert checked > 200  # the search has found them


def registry_tables() -> list[str]:
    return [name for page in PAGES for name in hooks.MARK.findall(page.read_text("utf-8"))]


def test_every_registry_is_a_table_of_the_docs():
    # There is one kind of windows only, and nothing to choose from.
    assert {hooks.registry(name).family for name in hooks.REGISTRIES} == set(Registry.families) - {"windows"}
    assert set(registry_tables()) == set(hooks.REGISTRIES)


def test_a_new_model_is_in_the_docs_at_once(monkeypatch):
    class Newcomer(neuralrde.NeuralRDE):
        """A model | that came last. It is not described further."""

    monkeypatch.setitem(neuralrde.models.MODELS, "newcomer", Newcomer)
    page = hooks.on_page_markdown("Before.\n\n<!-- registry: models -->\n\nAfter.")
    [row] = [line for line in page.splitlines() if "newcomer" in line]
    assert row.startswith("| `newcomer` |")
    assert row.endswith(r"| A model \| that came last. |")
    assert page.startswith("Before.\n\n| short name |")
    assert page.endswith("\n\nAfter.")


def test_a_registry_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"registry: modles .*expected one of models"):
        hooks.on_page_markdown("<!-- registry: modles -->")


@pytest.mark.parametrize("name", hooks.REGISTRIES)
def test_tables_say_what_each_part_is(name):
    """A whole sentence for everything, and links that lead to the reference."""
    for short, cls in hooks.registry(name).items():
        sentence = hooks.first_sentence(cls)
        assert sentence.endswith("."), f"{short}: {sentence!r}"
        for target in re.findall(r"\]\[(\S+)\]", hooks.table(name)):
            assert target in public_names(), short
