"""Data flows one way: a part imports only from the parts before it."""

import ast
from pathlib import Path

import pytest

import neuralrde

# In the order in which data flows. Readers make Series, so paths come before datasets.
FLOW = (
    "_cores",
    "_version",
    "paths",
    "datasets",
    "signatures",
    "fields",
    "solve",
    "devices",
    "models",
    "training",
    "estimators",
    "assessment",
    "plots",
    "cli",
    "__main__",
)
SOURCE = Path(neuralrde.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of neuralrde that a file imports, by whatever spelling."""
    package = ("neuralrde", *path.relative_to(SOURCE).parent.parts)
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = list(package[: len(package) - node.level + 1]) if node.level else []
            start += node.module.split(".") if node.module else []
            names += [[*start, alias.name] for alias in node.names]
    return {name[1] for name in names if name[0] == "neuralrde" and len(name) > 1}


def test_every_part_has_its_place():
    assert {part_of(path) for path in FILES} <= set(FLOW)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_flow(path):
    allowed = FLOW[: FLOW.index(part_of(path)) + 1]
    against = imported_parts(path) - set(allowed)
    assert not against, f"{path.relative_to(SOURCE)} imports {against}, which come after {part_of(path)} in the flow"


def test_the_walk_sees_relative_and_absolute_imports(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_architecture.SOURCE", tmp_path)
    (tmp_path / "paths").mkdir()
    file = tmp_path / "paths" / "bad.py"
    file.write_text("from ..signatures import x\nimport neuralrde.models.y\nfrom neuralrde import solve\n")
    assert imported_parts(file) == {"signatures", "models", "solve"}
