"""The reproduction stands beside the library: it uses public names only, and is in no package that we ship."""

import ast
import importlib
import pkgutil
import tomllib
from pathlib import Path

import pytest

import neuralrde

ROOT = Path(__file__).parents[2]
# The examples too, which readers copy, and the benchmark that shows what an estimator can do in one call.
FILES = sorted([*(ROOT / "reproduction").glob("**/*.py"), *(ROOT / "examples").glob("*.py")])
FILES.append(ROOT / "benchmarks" / "quality" / "patients.py")
NAMES = [
    *(module.name for module in pkgutil.iter_modules(neuralrde.__path__)),
    *(f"tools.{module.name}" for module in pkgutil.iter_modules(neuralrde.tools.__path__)),
]
# aeon and sktime want environments of their own, and nothing here uses them.
ELSEWHERE = ("aeon", "sktime")
PARTS = {
    name: importlib.import_module(f"neuralrde.{name}")
    for name in NAMES
    if name not in ELSEWHERE and not name.rpartition(".")[2].startswith("_")
}
PUBLIC = {f"neuralrde.{part}.{name}" for part, module in PARTS.items() for name in getattr(module, "__all__", ())}
PUBLIC |= {f"neuralrde.{name}" for name in (*neuralrde.__all__, "__version__")}
MODULES = {"neuralrde", *(f"neuralrde.{part}" for part, module in PARTS.items() if hasattr(module, "__all__"))}


def used_names(code: str) -> set[str]:
    """The full name of everything that code takes from neuralrde: imported, or as an attribute of what it imported."""
    tree, found, called = ast.parse(code), set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "neuralrde":
                    found.add(alias.name)
                    called[alias.asname or "neuralrde"] = alias.name if alias.asname else "neuralrde"
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "neuralrde":
            for alias in node.names:
                found.add(f"{node.module}.{alias.name}")
                called[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        names = []
        while isinstance(node, ast.Attribute):
            names, node = [node.attr, *names], node.value
        if names and isinstance(node, ast.Name) and called.get(node.id) in MODULES:
            home = called[node.id]
            found.add(".".join([home, *names[: 2 if home == "neuralrde" and names[0] in PARTS else 1]]))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_public_names_are_used(file):
    private = used_names(file.read_text("utf-8")) - PUBLIC - MODULES
    assert not private, f"{file.name} uses {sorted(private)}, which are in no `__all__`"


def test_the_walk_sees_every_spelling():
    code = """
import neuralrde.solvers.runge_kutta
import neuralrde as nrde
import neuralrde.training as training
from neuralrde import paths, solve
from neuralrde.training.loop import batches
from neuralrde._version import versions
from neuralrde.frozen import weights_of
from .inputs import prepared
nrde.NeuralRDE; nrde.devices.try_all_cores(); nrde.devices.device_mesh()
nrde.plots.add_note; training.loop.batches; paths.Series.from_array
paths.windows
"""
    assert used_names(code) - PUBLIC - MODULES == {
        "neuralrde.solvers.runge_kutta",
        "neuralrde.training.loop.batches",
        "neuralrde._version.versions",
        "neuralrde.devices.try_all_cores",
        "neuralrde.frozen.weights_of",
        "neuralrde.plots.add_note",
        "neuralrde.training.loop",
        "neuralrde.paths.windows",
    }
    assert "neuralrde.paths.Series" in used_names(code)


def test_the_library_does_not_know_of_it_and_does_not_ship_it():
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "reproduction"], file
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["setuptools"]["packages"]["find"] == {"where": ["src"]}
