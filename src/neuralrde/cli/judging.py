"""What part of the data a result is judged on, and how the judgement is printed and kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..assessment import Assessment, Baseline, TrainingTargets, baselines, trivial
from ..datasets import Dataset
from .closed_form import as_baseline, kept_floor
from .errors import Refusal
from .loading import is_runs_own
from .predictions import PredictionTable, predictions_of
from .run_folder import RunFolder
from .screen import number, table

_NAMES = {"accuracy": "accuracy", "rmse": "RMSE", "mae": "MAE"}


def part_to_judge(model: Path, word: str | None, data: Dataset, *, everything: bool) -> tuple[str, np.ndarray]:
    """ "test" or "all", and which samples: of the data that a run was trained with, only its test samples count."""
    every = np.arange(len(data))
    if everything or not model.is_dir():
        return "all", every
    folder = RunFolder(model)
    if folder.is_own(data):
        rows = folder.rows("test", data)
        if len(rows) == 0:
            raise Refusal(
                f"The run at {model} was trained on all of its data, so there are no test samples; the result of its "
                "folds is in metrics.json. Give other data, or --all to see how well it fits what it was trained on."
            )
        return "test", rows
    if is_runs_own(model, word):
        raise Refusal(
            f"{word or data.name} has changed since the run was trained, or other columns of it are read, so its test "
            "samples are no longer known. Restore it, or give --all to evaluate on all of it, which flatters the model "
            "where it was trained on these samples."
        )
    return "all", every


def baselines_for(model: Path, part: str, data: Dataset, found: PredictionTable, seed: int = 0) -> list[Baseline]:
    """Those that can be had: all for a run's test samples, else those that need nothing but the run's folder."""
    if not model.is_dir():
        return []
    folder = RunFolder(model)
    if part == "test":
        judged = data[folder.rows("test", data)]
        beside = baselines(data[folder.rows("train", data)], judged, seed=seed)
    else:
        judged, known = data, folder.read_metrics().get("training_targets")
        beside = [] if known is None else [trivial(TrainingTargets(**known), len(found.known().true))]
    floor = kept_floor(folder) if beside else None
    return beside if floor is None else [*beside, as_baseline(predictions_of(floor, judged))]


def pooled_baselines(folds: Sequence[tuple[list[Baseline], np.ndarray]]) -> list[Baseline]:
    """Of several folds as one, in the order of the data: those that every fold has.

    Args:
        folds: of each its baselines, and the sample that each of their rows belongs to.
    """
    order = np.argsort(np.concatenate([rows for _, rows in folds]), kind="stable")
    kinds = [one.kind for one in folds[0][0]]
    common = [kind for kind in kinds if all(kind in [one.kind for one in found] for found, _ in folds)]
    result = []
    for kind in common:
        each = [next(one for one in found if one.kind == kind) for found, _ in folds]
        names = list(dict.fromkeys(one.name for one in each))
        name = names[0] if len(names) == 1 else "largest class" if kind == "trivial" else kind
        result.append(Baseline(kind, name, np.concatenate([one.predicted for one in each])[order], each[0].explained))
    return result


def as_text(found: Assessment, sentences: Sequence[str], title: str) -> str:
    """A table of the model beside the baselines, and the verdict."""
    metrics = [name for name in ("accuracy", "rmse", "mae") if name in found.intervals]
    rows = [["this model", *(number(found.measures[name]) for name in metrics), _intervals(found, metrics)]]
    rows += [[one.name, *(number(values[name]) for name in metrics), one.explained] for one, values in found.baselines]
    text = f"{title}\n" + table(rows, header=["", *(_NAMES[name] for name in metrics), ""])
    return text + "\n\nVerdict\n" + "\n".join(f"  - {sentence}" for sentence in sentences)


def _intervals(found: Assessment, metrics: Sequence[str]) -> str:
    parts = []
    for name in metrics:
        ends = found.intervals[name]
        if ends is not None:
            which = "" if len(metrics) == 1 else f"{_NAMES[name]} "
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
    return {"part": part, **found.as_dict(), "verdict": list(sentences)}
