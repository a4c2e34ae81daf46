"""Which samples a trained model is judged on, and which baselines it is compared with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..assessment import Baseline, TrainingTargets, baselines, trivial
from ..datasets import Dataset
from .closed_form import as_baseline, kept_floor
from .errors import Refusal
from .loading import is_runs_own, open_for
from .predictions import PredictionTable, check_known, is_classifier, load_model, predictions_of
from .run_folder import RunFolder


def predictions_to_judge(
    model: Path, word: str | None, table: dict[str, Any], *, everything: bool = False
) -> tuple[Dataset, str, PredictionTable]:
    """DATA, which part of it a model is judged on ("test" or "all"), and the model's predictions for that part."""
    estimator = load_model(model)
    data = open_for(model, word, table, classifier=is_classifier(estimator))
    part, rows = _part_to_judge(model, word, data, everything=everything)
    found = predictions_of(estimator, data[rows])
    check_known(found)
    return data, part, found


def _part_to_judge(model: Path, word: str | None, data: Dataset, *, everything: bool) -> tuple[str, np.ndarray]:
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
