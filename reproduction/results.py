"""Results: a JSON line for each run in `results/DATASET.jsonl`, small enough to be committed."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .cells import Cell

Line = dict[str, Any]
FOLDER = Path("results")
# How a run ended; the others are not finished.
FINISHED = ("epochs", "patience")


def file_of(dataset: str, folder: Path = FOLDER) -> Path:
    return folder / f"{dataset}.jsonl"


def read_results(folder: Path = FOLDER) -> list[Line]:
    """All lines of a folder; of several lines of one run with the same settings the last."""
    lines: dict[str, Line] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for number, text in enumerate(file.read_text().splitlines(), 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
                identity = json.dumps([line["cell"], line["settings"]], sort_keys=True)
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{file}, line {number}: got {text[:60]!r} ({error}); expected a JSON object with `cell` and "
                    "`settings`, as `neuralrde reproduce` writes it. Take the line out."
                ) from None
            lines.pop(identity, None)
            lines[identity] = line
    return list(lines.values())


def find(lines: Iterable[Line], cell: Cell, settings: dict[str, Any]) -> Line | None:
    """The line of this cell with these very settings: a changed recipe is another run."""
    same = [line for line in lines if line["cell"] == cell.key and line["settings"] == settings]
    return same[-1] if same else None


def is_finished(line: Line) -> bool:
    return line["stopped"] in FINISHED


def append(line: Line, folder: Path = FOLDER) -> Path:
    """Add a line; written at once, so that two runs at the same time do not mix theirs."""
    file = file_of(line["cell"]["dataset"], folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a") as stream:
        stream.write(json.dumps(line) + "\n")
    return file
