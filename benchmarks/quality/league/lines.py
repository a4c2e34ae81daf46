"""Results as lines of JSON, one per run. Of two lines about the same run the later one counts."""

import csv
import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .data import LEAGUES, VARIANTS

Line = dict[str, Any]
ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "league" / "lines.jsonl"
PUBLISHED = Path(__file__).with_name("pyrregular.csv")
KEY = ("split", "damage", "seed", "set", "classifier")


def key_of(line: Line) -> tuple:
    return tuple(line[name] for name in KEY)


def read_lines(path: Path = RESULTS) -> list[Line]:
    """The lines that count; none if there is no file."""
    if not path.exists():
        return []
    found: dict[tuple, Line] = {}
    for number, text in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            line = json.loads(text)
            found[key_of(line)] = line
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(
                f"Got {path.name}, whose line {number} is no result ({error!r}); expected JSON with {', '.join(KEY)}. "
                "Delete the line if a run was interrupted while it wrote."
            ) from None
    return list(found.values())


def of_league(lines: Sequence[Line], league: str) -> list[Line]:
    """The lines about a league's sets, with those that others have published."""
    own = [line for line in lines if VARIANTS.get(line["set"], line["set"]) in LEAGUES[league]]
    return own + (published() if own and league == "irregular" else [])


def published(path: Path = PUBLISHED) -> list[Line]:
    """Accuracy and AUROC that Pyrregular published, the means over its seeds; a line per set and classifier."""
    found: dict[tuple, Line] = {}
    for row in csv.DictReader(line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")):
        measure, name = row.pop("measure"), row.pop("set")
        for classifier, value in row.items():
            line = dict(zip(KEY, ("official", "none", 0, name, classifier), strict=True))
            found.setdefault(key_of(line), line)[measure] = float(value)
    return list(found.values())


def append_line(line: Line, path: Path = RESULTS) -> None:
    """Write in one piece, so that several programs may write to one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


def tidy(path: Path = RESULTS) -> None:
    """Leave out the lines that do not count any more, and sort the others. No run may be writing meanwhile."""
    lines = sorted(read_lines(path), key=lambda line: tuple(map(str, key_of(line))))
    scratch = path.with_suffix(".new")
    scratch.write_text("".join(json.dumps(line) + "\n" for line in lines))
    scratch.replace(path)


def still_to_run(wanted: Sequence[tuple], lines: Sequence[Line], *, tag: str, again: bool) -> list[tuple]:
    """Keys without a line; with `again`, those without a line of this tag."""
    done = {key_of(line) for line in lines if not again or line["tag"] == tag}
    return [key for key in wanted if key not in done]


@cache
def code_tag() -> str:
    """Short for the library's source as it is now. What changes nothing there does not change it."""
    source = ROOT / "src" / "neuralrde"
    digest = hashlib.sha256()
    for file in sorted(path for ending in ("py", "cpp", "h") for path in source.rglob(f"*.{ending}")):
        digest.update(str(file.relative_to(source)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:10]


@cache
def commit() -> str:
    """The commit of the checkout, with a + if tracked files have changed since; "unknown" without Git."""
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout
    try:
        return git("rev-parse", "--short=10", "HEAD").strip() + (
            "+" if git("diff", "HEAD", "--stat", "--", "src") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
