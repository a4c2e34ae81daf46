"""Data flows one way: a part imports only from the parts before it."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import neuralrde
from docs import hooks

FLOW = tuple(hooks.FLOW)
SOURCE = Path(neuralrde.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def part_of(path: Path) -> str:
    return _part([one.removesuffix(".py") for one in path.relative_to(SOURCE).parts])


def _part(names: list[str]) -> str:
    """A part of the library, or one of the tools, which share a folder."""
    inside = names[0] == "tools" and len(names) > 1 and names[1] != "__init__"
    return ".".join(names[: 1 + inside])


def imported_parts(path: Path) -> set[str]:
    """The parts of neuralrde that a file imports, by whatever spelling."""
    package = ("neuralrde", *path.relative_to(SOURCE).parent.parts)
    names = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = list(package[: len(package) - node.level + 1]) if node.level else []
            start += node.module.split(".") if node.module else []
            names += [[*start, alias.name] for alias in node.names]
    return {_part(name[1:]) for name in names if name[0] == "neuralrde" and len(name) > 1}


def test_every_part_has_its_place():
    assert {part_of(path) for path in FILES} == set(FLOW)


def test_imports_follow_the_flow():
    against = []
    for path in FILES:
        later = FLOW[FLOW.index(part_of(path)) + 1 :]
        against += [f"{path.relative_to(SOURCE)} imports {part}" for part in imported_parts(path) if part in later]
    assert not against, f"These come later in the flow: {sorted(against)}"


def packages() -> list[ModuleType]:
    found = [module.name for module in pkgutil.walk_packages(neuralrde.__path__, "neuralrde.") if module.ispkg]
    return [neuralrde, *map(importlib.import_module, found)]


def test_no_name_is_both_a_module_and_something_in_it():
    """Else `neuralrde.plots.confusion` would be one or the other, by what was imported last."""
    both = []
    for package in packages():
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        both += [f"{package.__name__}.{name}" for name in sorted(modules & set(getattr(package, "__all__", ())))]
    assert not both, f"Write an underscore before the names of these modules: {both}"


def test_the_walk_sees_relative_and_absolute_imports(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_architecture.SOURCE", tmp_path)
    (tmp_path / "paths").mkdir()
    file = tmp_path / "paths" / "bad.py"
    file.write_text("from ..signatures import x\nimport neuralrde.models.y\nfrom neuralrde import solvers\n")
    assert imported_parts(file) == {"signatures", "models", "solvers"}


def test_the_library_imports_none_of_the_tools():
    tools = {"pandas", "sklearn", "typer", "ray", "starlette", "msgspec", "matplotlib", "pyarrow"}
    code = f"import sys, neuralrde; print(sorted({tools} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
