"""The folder of a run: what was asked for, with which versions, how it went, and what came out.

settings.toml      resolved; `neuralrde fit --config` repeats the run
versions.json      of neuralrde, Python and the libraries, the machine, the command
split.json         which samples were in which part, and a fingerprint of the data
checkpoint.nrde    the state of training, for `--resume`
history.jsonl      a line an epoch
model.nrde         the trained model
metrics.json       of each part
predictions.csv    of the test set
pictures/          learning curves, confusion or predicted against true, windows
"""

import json
import os
import sys
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from .._version import versions
from ..datasets import Dataset, Split
from .errors import WRONG_USE, Refusal


class RunFolder:
    """Paths in a run's folder, and what is written to them; every file is whole or not there."""

    def __init__(self, path: Path):
        self.path = path
        self.settings, self.model, self.checkpoint = (
            path / "settings.toml",
            path / "model.nrde",
            path / "checkpoint.nrde",
        )
        self.history, self.predictions, self.pictures = (
            path / "history.jsonl",
            path / "predictions.csv",
            path / "pictures",
        )

    @classmethod
    def new(cls, name: str, out: Path | None, *, resume: bool) -> "RunFolder":
        """A folder for a run: `out`, or runs/NAME, or runs/NAME-2 if that is taken."""
        if out is None:
            if resume:
                raise Refusal("Got --resume without --out; expected the folder of the run to go on with.", WRONG_USE)
            tries = (Path("runs") / (name if k == 1 else f"{name}-{k}") for k in range(1, 10**6))
            out = next(path for path in tries if not path.exists())
        if out.exists() and not out.is_dir():
            raise Refusal(f"Got --out {out}, which is a file; expected a folder, or nothing yet.", WRONG_USE)
        folder = cls(out)
        if resume and not folder.checkpoint.exists():
            raise Refusal(f"There is no run at {out} to go on with: checkpoint.nrde is missing. Leave --resume out.")
        if not resume and (folder.model.exists() or folder.checkpoint.exists()):
            raise Refusal(
                f"Got --out {out}, which holds a run; expected a new folder, because a run is never overwritten. Give "
                "another name, or --resume to go on with it.",
                WRONG_USE,
            )
        out.mkdir(parents=True, exist_ok=True)
        return folder

    def begin(self, settings: str, data: Dataset, split: Split, told: str) -> None:
        write(self.settings, settings)
        write_json(self.path / "versions.json", versions() | {"command": " ".join(["neuralrde", *sys.argv[1:]])})
        rows = {part: getattr(split, part).tolist() for part in ("train", "validation", "test")}
        write_json(self.path / "split.json", {"how": told, "data": fingerprint(data), **rows}, indent=None)

    def finish(self, history: Iterable[dict], metrics: dict[str, Any]) -> None:
        write(self.history, "".join(json.dumps(record) + "\n" for record in history))
        write_json(self.path / "metrics.json", metrics)

    def read_history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.history.read_text().splitlines() if line.strip()]

    def test_rows(self, data: Dataset) -> np.ndarray | None:
        """The test samples, if these are the data that the run was divided from; else None."""
        file = self.path / "split.json"
        if not file.exists():
            return None
        found = json.loads(file.read_text())
        return np.array(found["test"], int) if found["test"] and found["data"] == fingerprint(data) else None


def fingerprint(data: Dataset) -> str:
    """The same for the same series in the same order."""
    digest = blake2b(repr(data.series.values.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(data.series.values).data)
    return digest.hexdigest()


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    write(path, json.dumps(value, indent=indent) + "\n")


def write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
