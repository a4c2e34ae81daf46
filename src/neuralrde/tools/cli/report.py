"""What a run reports, about its data and its result: sentences and tables, pictures, and a page that has all of it."""

import json
import shlex
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from ..._write import Values
from ...datasets import Dataset
from ...plots import (
    calibration,
    confusion,
    explanation,
    learning_curves,
    predicted_against_true,
    save,
    windows_over_series,
)
from ..assessment import Assessment
from ..assessment.metrics import rare_class, title_of
from .console import count, number, table
from .evaluation import PredictionTable
from .inspect import about_blend, is_dated
from .loading import static_of
from .run_folder import RunFolder
from .settings import CLOSED_FORM, settings_of

if TYPE_CHECKING:
    from .settings import Estimator

_PAGE = Path(__file__).with_name("report_page.html")
_PICTURES = ("confusion.png", "predicted_against_true.png", "calibration.png", "learning_curves.png", "windows.png")
_PICTURES += ("surest_right.png", "surest_wrong.png")


def as_text(found: Assessment, sentences: Sequence[str], title: str) -> str:
    """A table of the model beside the baselines, and the verdict."""
    metrics = [name for name in ("accuracy", "rmse", "mae") if name in found.intervals]
    rows = [["this model", *(number(found.measures[name]) for name in metrics), _intervals(found, metrics)]]
    rows += [[one.name, *(number(values[name]) for name in metrics), one.explained] for one, values in found.baselines]
    text = f"{title}\n" + table(rows, header=["", *(title_of(name) for name in metrics), ""])
    return text + "\n\nVerdict\n" + "\n".join(f"  - {sentence}" for sentence in sentences)


def _intervals(found: Assessment, metrics: Sequence[str]) -> str:
    parts = []
    for name in metrics:
        ends = found.intervals[name]
        if ends is not None:
            which = "" if len(metrics) == 1 else f"{title_of(name)} "
            parts.append(f"{which}{number(ends[0])} to {number(ends[1])}")
    off = found.measures.get("calibration_error")
    calibration = "" if off is None else f"; calibration error {number(off)}"
    return (f"95 % interval {', '.join(parts)}" if parts else "no interval: one unit only") + calibration


def picture_note(found: Assessment) -> str:
    """One line for a picture: the interval, and the baselines."""
    ends = "" if found.interval is None else f"95 % interval {_short(found, found.interval[0])} to "
    ends += "" if found.interval is None else _short(found, found.interval[1])
    others = [f"{one.name} {_short(found, values[found.metric])}" for one, values in found.baselines]
    return "; ".join(filter(None, [ends, *others])).replace("`", "'")


def _short(found: Assessment, value: float) -> str:
    return f"{value:.1%}" if found.metric == "accuracy" else f"{value:.3g}"


def as_json(found: Assessment, sentences: Sequence[str], part: str) -> Values:
    return {"part": part, **found.as_dict(), "measures": dict(found.measures), "verdict": list(sentences)}


def metric_line(values: Values) -> str:
    """The one metric that a result is known by.

    >>> metric_line({"samples": 40, "accuracy": 0.9, "macro_f1": 0.8})
    'accuracy 0.9000'
    """
    metric = "accuracy" if "accuracy" in values else "rmse"
    return f"{title_of(metric)} {number(values[metric])}"


def about_training(result: Values) -> str:
    """How the model was trained, and the metrics of each part."""
    first, *others = result["parts"].values()
    names = [name for name in first if all(name in one for one in others)]
    rows = [[part, *(number(values[name]) for name in names)] for part, values in result["parts"].items()]
    if result["model"] == CLOSED_FORM:
        how = f"{result['features']:,} features, penalty {result['penalty']:.3g}, in {result['seconds']:.1f} s"
    else:
        cut = f"step {result['step']}" if result["step"] is not None else f"every {result['every']:g}"
        kept = f", the weights of epoch {result['best_epoch']} kept" if result["epochs"] else ""
        how = (
            f"{result['model']}, depth {result['depth']}, {cut}: {count(result['epochs'], 'epoch')} in "
            f"{result['seconds']:.0f} s{kept}"
        )
        how += "" if result["blend"] is None else f"; {about_blend(*result['blend'])}"
    return f"{result['estimator']}, {how}\n" + table(rows, header=["part", *map(title_of, names)])


def only_closed_form(blend: Sequence[float] | None) -> list[str]:
    """The first sentence of a verdict, if no neural part is left in the predictions."""
    return [about_blend(*blend).capitalize() + "."] if blend is not None and blend[1] == 0 else []


def about_folds(rows: Sequence[Values], metric: str) -> str:
    """A row for each fold, beside the baselines that every fold has; and their means."""
    kinds = [kind for kind in rows[0]["baselines"] if all(kind in row["baselines"] for row in rows)]
    values = [[row[metric], *(row["baselines"][kind] for kind in kinds)] for row in rows]
    body = [[row["fold"], row["samples"], *map(number, own)] for row, own in zip(rows, values, strict=True)]
    mean, spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
    body.append(["mean", "", *(f"{number(float(m))} ± {s:.2g}" for m, s in zip(mean, spread, strict=True))])
    return table(body, header=["fold", "samples", title_of(metric), *kinds])


def draw_curves(history: list[Values], folder: Path, *, blended: bool = False) -> Path:
    """Learning curves; with `blended`, they say that they are not of what predicts in the end."""
    title = "The neural part, before it is blended" if blended else "Learning curves"
    return save(learning_curves(history, title=title), folder / "learning_curves.png")


def draw_predictions(found: PredictionTable, folder: Path, *, name: str = "target", note: str | None = None) -> Path:
    """A confusion matrix of classes, or predicted against true numbers; the note says what to compare it with."""
    known = found.known()
    if (rare := rare_class(known)) is not None:
        name_of, true, sure = rare
        save(calibration(true, sure, name=name_of), folder / "calibration.png")
    if found.classes is not None:
        picture = confusion(known.true, known.predicted, classes=found.classes, note=note)
        return save(picture, folder / "confusion.png")
    picture = predicted_against_true(known.true, known.predicted, name=name, note=note)
    return save(picture, folder / "predicted_against_true.png")


def draw_windows(model: "Estimator", data: Dataset, folder: Path) -> Path:
    """The first series of more than one point as the model sees it: prepared, cut, and its log-signatures."""
    one = data[np.array([np.argmax(data.series.lengths > 1)])]
    prepared, windows = model.transform_(one.series), model.fitted_.windows
    path = prepared.values[0, : prepared.lengths[0]]
    cuts = np.unique(np.minimum(windows.cuts(prepared), len(path) - 1))[None]
    picture = windows_over_series(
        path,
        cuts=cuts[0],
        depth=windows.depths,
        scales=windows.looks["scales"],
        since=windows.starts(prepared, cuts),
        channels=prepared.channels,
        times=times_of(one, len(path)),
    )
    return save(picture, folder / "windows.png")


def draw_explanations(model: "Estimator", data: Dataset, found: PredictionTable, folder: Path) -> None:
    """Why the classifier said what it said of the series that it was surest of, rightly and wrongly."""
    if found.probability is None or found.true is None or found.points is not None:
        return
    sure, right = found.probability.max(axis=1), found.predicted.astype(str) == found.true.astype(str)
    for name, rows in (("right", np.flatnonzero(right)), ("wrong", np.flatnonzero(~right))):
        if len(rows):
            row = int(rows[sure[rows].argmax()])
            explained = model.explain(data.series[[row]], **static_of(model, data[[row]]))
            output = int(explained.outputs[0].argmax())
            said = f"Surest {name}: {found.ids[row]}, predicted {found.predicted[row]} ({sure[row]:.1%})"
            picture = explanation(explained, output=output, dates=is_dated(data), title=said)
            save(picture, folder / f"surest_{name}.png")


def times_of(one: Dataset, points: int) -> np.ndarray | None:
    """The times of a single series' points, dates as dates; None if nobody knows them."""
    times = one.series.times
    if times is None or one.series.lengths[0] != points:
        return None
    return (times[0, :points] * 1e6).astype("datetime64[us]") if is_dated(one) else times[0, :points]


def run_page(folder: RunFolder, data: str, result: Values) -> str:
    """The text of report.html; `data` is about the data, for people, and the result as in metrics.json."""
    title, body = escape(folder.path.resolve().name), "\n".join(_sections(folder, data, result))
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(title=title, body=body)


def _sections(folder: RunFolder, data: str, result: Values) -> Iterator[str]:
    import pandas as pd

    found = result["assessment"]
    metrics = [name for name in found["intervals_95"] if name in found["baselines"][0]]
    ends = found["intervals_95"][found["metric"]]
    interval = "" if ends is None else f" (95 % interval {ends[0]:.4g} to {ends[1]:.4g})"
    tested = f"{found['units']['count']:,} {found['units']['of']} tested"
    yield f'<p class="state">{title_of(found["metric"])} {found["value"]:.4g}{interval}, {escape(tested)}</p>'
    yield "<h2>Verdict</h2><ul>" + "".join(f"<li>{escape(one)}</li>" for one in found["verdict"]) + "</ul>"
    rows = [["this model", *(found["measures"][name] for name in metrics), ""]]
    rows += [[one["name"], *(one[name] for name in metrics), one["what"]] for one in found["baselines"]]
    beside = pd.DataFrame(rows, columns=["", *map(title_of, metrics), "what it is"])  # type: ignore
    yield beside.to_html(index=False, border=0, float_format="{:.4g}".format)
    for name in _PICTURES:
        if (file := folder.pictures / name).exists():
            picture = b64encode(file.read_bytes()).decode()
            said = name.removesuffix(".png").replace("_", " ").capitalize()
            yield f'<figure><img alt="{said}" src="data:image/png;base64,{picture}"></figure>'
    yield f"<h2>Data</h2><pre>{escape(data)}</pre>"
    folds = about_folds(result["folds"], found["metric"]) if "folds" in result else ""
    training = "\n\n".join(filter(None, [folds, about_training(result)]))
    yield f"<h2>Training</h2><pre>{escape(training)}</pre>"
    yield f"<h2>How to predict</h2><pre>{escape(_how_to_predict(folder))}</pre>"
    yield f"<details><summary>Settings</summary><pre>{escape(folder.settings.read_text('utf-8'))}</pre></details>"
    versions = json.loads((folder.path / "versions.json").read_text())
    yield f"<details><summary>Versions</summary><pre>{escape(json.dumps(versions, indent=2))}</pre></details>"


def _how_to_predict(folder: RunFolder) -> str:
    """Commands for a shell and for Python, with what the columns of a table are."""
    where, own = shlex.quote(str(folder.path)), settings_of(folder.settings, table={}, estimator={})
    kept = (
        "id",
        "time",
        "columns",
        "static",
        "wide",
        "header",
        "sensor",
        "value",
        "time_format",
        "decimal",
        "thousands",
    )
    options = "".join(f", {name}={own.table[name]!r}" for name in kept if name in own.table)
    beside = ", static=data.static" if "static" in own.table else ""
    return f"""# at a shell
neuralrde predict {where} NEW.csv --out predicted.csv
neuralrde evaluate {where}
neuralrde serve {where}

# in Python
from neuralrde import read
from neuralrde.estimators import load

model = load({str(folder.model)!r})
data = read("NEW.csv"{options})
print(model.predict(data.series{beside}))"""
