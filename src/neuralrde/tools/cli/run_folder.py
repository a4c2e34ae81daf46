"""The folder of a run: what was asked for, with which versions, how it went, and what came out.

settings.toml      resolved; `neuralrde fit --config` repeats the run
versions.json      of neuralrde, Python and the libraries, the machine, the command
split.json         which samples were in which part, and a fingerprint of the data
checkpoint.nrde    the state of training, for `--resume`
history.jsonl      one line per epoch
model.nrde         the trained model
closed_form.nrde   the closed form that a neural model is compared with
metrics.json       of each part
predictions.csv    of the test set
pictures/          learning curves, confusion or predicted against true, windows
report.html        all of it as one page that loads nothing
"""

import contextlib
import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import Self

import numpy as np
from filelock import FileLock, Timeout

from ..._version import versions
from ..._write import Values, digest_of, private_folder, writing
from ...datasets import Dataset, Split
from ...datasets.dataset import PARTS, safe_name
from .._lock import is_locked, lock
from .console import WRONG_USE, Refusal


class RunFolder:
    """Paths in a run's folder, and what is written to them; every file is whole or not there.

    One that `new` has made belongs to this process until the end of the `with` block: another run in it is refused.
    """

    def __init__(self, path: Path, held: FileLock | None = None):
        self.path, self._lock = path, held
        self.settings = path / "settings.toml"
        self.split = path / "split.json"
        self.checkpoint = path / "checkpoint.nrde"
        self.history = path / "history.jsonl"
        self.model = path / "model.nrde"
        self.closed_form = path / "closed_form.nrde"
        self.metrics = path / "metrics.json"
        self.predictions = path / "predictions.csv"
        self.pictures = path / "pictures"
        self.report = path / "report.html"

    @classmethod
    def new(cls, name: str, out: Path | None, *, resume: bool) -> Self:
        """A folder for a run: `out`, or runs/NAME, or runs/NAME-2 if that is taken."""
        if out is None:
            if resume:
                raise Refusal("Got --resume without --out; expected the folder of the run to go on with.", WRONG_USE)
            out = _made(Path("runs") / safe_name(name))
        if out.exists() and not out.is_dir():
            raise Refusal(f"Got --out {out}, which is a file; expected a folder, or nothing yet.", WRONG_USE)
        if resume and not out.exists():
            raise Refusal(f"There is no run at {out} to go on with. Leave --resume out.")
        private_folder(out)
        try:
            folder = cls(out, lock(out / ".lock"))
        except Timeout:
            raise Refusal(
                f"Got --out {out}, but another run is being trained in it; expected a folder of its own "
                "for each run. Give another name, or wait until that run has ended.",
                WRONG_USE,
            ) from None
        # Only now, when no other process can put anything into the folder.
        refusal = None
        if resume and not folder.checkpoint.exists():
            refusal = Refusal(
                f"There is no run at {out} to go on with: checkpoint.nrde is missing. Leave --resume out."
            )
        elif not resume and (folder.model.exists() or folder.checkpoint.exists()):
            refusal = Refusal(
                f"Got --out {out}, which holds a run; expected a new folder, because a run is never overwritten. Give "
                "another name, or --resume to go on with it.",
                WRONG_USE,
            )
        if refusal is not None:
            folder.release()
            raise refusal
        return folder

    def release(self) -> None:
        """Let others use the folder. The end of a process, of whatever kind, does so too."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def begin(self, settings: str, data: Dataset, split: Split, how: str) -> None:
        """Write down what is trained on what."""
        write(self.settings, settings)
        write_json(self.path / "versions.json", versions() | {"command": " ".join(["neuralrde", *sys.argv[1:]])})
        ids = _ids(data)
        parts = {part: ids[getattr(split, part)].tolist() for part in PARTS}
        by = "row" if data.series.ids is None else "id"
        write_json(self.split, {"how": how, "data": fingerprint(data), "by": by, **parts}, indent=None)

    def read_history(self) -> list[Values]:
        return [json.loads(line) for line in self.history.read_text().splitlines() if line.strip()]

    def read_metrics(self) -> Values:
        return json.loads(self.metrics.read_text()) if self.metrics.exists() else {}

    def is_own(self, data: Dataset) -> bool:
        """Whether these are the data that the run was divided from, unchanged."""
        return self.split.exists() and json.loads(self.split.read_text())["data"] == fingerprint(data)

    def rows(self, part: str, data: Dataset) -> np.ndarray:
        """Which samples of the run's own data are in a part."""
        found = json.loads(self.split.read_text())
        if found["by"] == "row":
            return np.array(found[part], int)
        place = {id: row for row, id in enumerate(_ids(data).tolist())}
        return np.array([place[id] for id in found[part]], int)

    def why_no_model(self) -> str | None:
        """What to say of a run that has not ended; None if this is no such run."""
        if self.model.exists() or not self.settings.exists():
            return None
        if is_locked(self.path / ".lock"):
            return f"The run at {self.path} is still being trained; it has a model when that has ended."
        if self.checkpoint.exists():
            command = f"neuralrde fit --resume --out {shlex.quote(str(self.path))}"
            return f"The run at {self.path} was stopped before its end, so it has no model yet. Go on with `{command}`."
        return f"The run at {self.path} was stopped before its first checkpoint, so it has no model. Train it again."


def _made(path: Path) -> Path:
    """This folder, or the first of path-2, path-3, ... that nobody else has made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = itertools.chain([path], (path.with_name(f"{path.name}-{number}") for number in itertools.count(2)))
    for name in names:
        with contextlib.suppress(FileExistsError):
            name.mkdir(mode=0o700)
            return name
    raise AssertionError("names do not end")


def _ids(data: Dataset) -> np.ndarray:
    """The names of samples: their ids, or else their rows."""
    return np.arange(len(data)) if data.series.ids is None else np.asarray(data.series.ids)


def fingerprint(data: Dataset) -> str:
    """A checksum of the series in their order: values, lengths and times."""
    return digest_of(data.series.values, data.series.lengths, data.series.times)


def write_json(path: Path, value: object, *, indent: int | None = 2) -> None:
    write(path, json.dumps(value, indent=indent) + "\n")


def write(path: Path, text: str) -> None:
    """Whole or not at all; an error names the file."""
    with writing(path, "w") as file:
        file.write(text)
