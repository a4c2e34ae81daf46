"""A run as a page: one HTML file that loads nothing, with data, verdict, pictures, settings and how to predict."""

import json
import shlex
from base64 import b64encode
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from ..assessment.metrics import title_of
from ..sweeps.page import page, table
from .config import settings_of
from .report import about_folds, about_training, about_trials
from .run_folder import RunFolder

_PICTURES = ("confusion.png", "predicted_against_true.png", "learning_curves.png", "windows.png")


def run_page(folder: RunFolder, data: str, result: Mapping[str, Any]) -> str:
    """The text of the file.

    Args:
        folder: of the run, with all else in it.
        data: about the data, for people.
        result: as in metrics.json.
    """
    return page(folder.path.resolve().name, "\n".join(_sections(folder, data, result)))


def _sections(folder: RunFolder, data: str, result: Mapping[str, Any]) -> Iterator[str]:
    found = result["assessment"]
    metrics = [name for name in found["intervals_95"] if name in found["baselines"][0]]
    ends = found["intervals_95"][found["metric"]]
    interval = "" if ends is None else f" (95 % interval {ends[0]:.4g} to {ends[1]:.4g})"
    tested = f"{found['units']['count']:,} {found['units']['of']} tested"
    yield f'<p class="state">{title_of(found["metric"])} {found["value"]:.4g}{interval}, {escape(tested)}</p>'
    yield "<h2>Verdict</h2><ul>" + "".join(f"<li>{escape(one)}</li>" for one in found["verdict"]) + "</ul>"
    rows = [["this model", *(found["measures"][name] for name in metrics), ""]]
    rows += [[one["name"], *(one[name] for name in metrics), one["what"]] for one in found["baselines"]]
    yield table(["", *map(title_of, metrics), "what it is"], rows, id="baselines")
    for name in _PICTURES:
        if (file := folder.pictures / name).exists():
            picture = b64encode(file.read_bytes()).decode()
            said = name.removesuffix(".png").replace("_", " ").capitalize()
            yield f'<figure><img alt="{said}" src="data:image/png;base64,{picture}"></figure>'
    yield f"<h2>Data</h2><pre>{escape(data)}</pre>"
    folds = about_folds(result["folds"], found["metric"]) if "folds" in result else ""
    training = "\n\n".join(filter(None, [about_trials(result), folds, about_training(result)]))
    yield f"<h2>Training</h2><pre>{escape(training)}</pre>"
    yield f"<h2>How to predict</h2><pre>{escape(_how_to_predict(folder))}</pre>"
    yield f"<details><summary>Settings</summary><pre>{escape(folder.settings.read_text('utf-8'))}</pre></details>"
    versions = json.loads((folder.path / "versions.json").read_text())
    yield f"<details><summary>Versions</summary><pre>{escape(json.dumps(versions, indent=2))}</pre></details>"


def _how_to_predict(folder: RunFolder) -> str:
    """At a shell and in Python, with what the columns of a table are."""
    where, own = shlex.quote(str(folder.path)), settings_of(folder.settings, table={}, estimator={})
    kept = ("id", "time", "columns", "wide", "header", "sensor", "value", "time_format", "decimal", "thousands")
    options = "".join(f", {name}={own.table[name]!r}" for name in kept if name in own.table)
    return f"""# at a shell
neuralrde predict {where} NEW.csv --out predicted.csv
neuralrde evaluate {where}
neuralrde serve {where}

# in Python
from neuralrde import read
from neuralrde.estimators import load

model = load({str(folder.model)!r})
data = read("NEW.csv"{options})
print(model.predict(data.series))"""
