"""What a run reports: tables and sentences for people, and the same for metrics.json."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..assessment import Assessment
from ..assessment.metrics import title_of
from .config import CLOSED_FORM
from .screen import count, number, table


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


def as_json(found: Assessment, sentences: Sequence[str], part: str) -> dict[str, Any]:
    return {"part": part, **found.as_dict(), "measures": dict(found.measures), "verdict": list(sentences)}


def metric_line(values: Mapping[str, Any]) -> str:
    """The one metric that a result is known by.

    >>> metric_line({"samples": 40, "accuracy": 0.9, "macro_f1": 0.8})
    'accuracy 0.9000'
    """
    metric = "accuracy" if "accuracy" in values else "rmse"
    return f"{title_of(metric)} {number(values[metric])}"


def about_training(result: Mapping[str, Any]) -> str:
    """How the model was trained, and the metrics of each part."""
    names = list(next(iter(result["parts"].values())))
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


def about_blend(closed: float, neural: float) -> str:
    """The weights of both parts of a prediction.

    >>> about_blend(1.0, 0.0)
    'the neural part has weight 0: this is the closed form (its weight is 1)'
    >>> about_blend(0.8, 0.4)
    'weights: closed form 0.8, neural 0.4'
    """
    if neural == 0:
        return f"the neural part has weight 0: this is the closed form (its weight is {closed:.3g})"
    return f"weights: closed form {closed:.3g}, neural {neural:.3g}"


def only_closed_form(blend: Sequence[float] | None) -> list[str]:
    """The first sentence of a verdict, if no neural part is left in the predictions."""
    return [about_blend(*blend).capitalize() + "."] if blend is not None and blend[1] == 0 else []


def about_trials(result: Mapping[str, Any]) -> str:
    """A row for each trial, first of models and then of windows; the one that training went on with is marked."""
    every, texts = result.get("trials") or [], []
    titles = {"loss": "validation loss", "epoch": "epochs"}
    for models in (True, False):
        trials = [trial for trial in every if ("model" in trial) == models]
        if not trials:
            continue
        chosen = trials[0] if models else min(trials, key=lambda trial: (-trial["epoch"], trial["loss"]))
        rows = [[*map(number, trial.values()), "chosen" if trial is chosen else ""] for trial in trials]
        header = [*(titles.get(name, name) for name in trials[0]), ""]
        what = "Models" if models else "Search"
        texts.append(f"{what}: {count(len(trials), 'trial')}\n" + table(rows, header=header))
    return "\n\n".join(texts)


def about_folds(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """A row for each fold, beside the baselines that every fold has; and their means."""
    kinds = [kind for kind in rows[0]["baselines"] if all(kind in row["baselines"] for row in rows)]
    values = [[row[metric], *(row["baselines"][kind] for kind in kinds)] for row in rows]
    body = [[row["fold"], row["samples"], *map(number, own)] for row, own in zip(rows, values, strict=True)]
    mean, spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
    body.append(["mean", "", *(f"{number(float(m))} ± {s:.2g}" for m, s in zip(mean, spread, strict=True))])
    return table(body, header=["fold", "samples", title_of(metric), *kinds])
