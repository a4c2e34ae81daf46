"""A trained model's predictions for data, the samples it is judged on, and the baselines beside it."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._write import private_folder, writing
from ..assessment import FLOOR, Baseline, Predictions, TrainingTargets, baselines, trivial
from ..datasets import Dataset
from ..paths import Series
from ..stores import Store
from .console import Refusal
from .loading import is_runs_own, open_for, targets
from .run_folder import RunFolder


@dataclass(frozen=True)
class PredictionTable:
    """One row per series, or one per point for models that predict at every point."""

    ids: np.ndarray
    sample: np.ndarray
    """The number of the series that a row belongs to."""
    points: np.ndarray | None
    """Times, or numbers of points; None for one prediction per series."""
    predicted: np.ndarray
    probability: np.ndarray | None
    classes: list[str] | None
    true: np.ndarray | None
    """What is true; empty or NaN where that is not known; None if it is known nowhere."""
    groups: np.ndarray | None
    """Of each row."""

    @property
    def rows(self) -> np.ndarray:
        """The rows whose target is known."""
        if self.true is None:
            raise Refusal("Got data without a target; expected one to compare with. Name its column with --target.")
        if self.classes is not None:
            return np.flatnonzero(self.true.astype(str) != "")
        return np.flatnonzero(np.isfinite(self.true.reshape(len(self.true), -1)).all(axis=1))

    def known(self) -> Predictions:
        """What is known to be true, and what is predicted there, as metrics take it."""
        rows = self.rows
        assert self.true is not None
        if len(rows) == 0:
            raise Refusal("Got data whose targets are all empty; expected some to compare with.")
        if self.classes is not None:
            true, predicted = self.true.astype(str), self.predicted.astype(str)
        else:
            true, predicted = (np.asarray(each, float).reshape(len(each), -1) for each in (self.true, self.predicted))
        units = self.sample if self.groups is None else np.unique(self.groups, return_inverse=True)[1].ravel()
        return Predictions(
            true[rows],
            predicted[rows],
            units[rows],
            "series" if self.groups is None else "group",
            None if self.probability is None else self.probability[rows],
            None if self.classes is None else tuple(self.classes),
        )


def load_model(path: Path) -> Any:
    """The estimator in a model file or a run folder."""
    from ..devices import try_all_cores
    from ..estimators import load

    try_all_cores()
    file = path / "model.nrde" if path.is_dir() else path
    if not file.exists():
        if path.is_dir() and (why := RunFolder(path).why_no_model()):
            raise Refusal(why)
        what = (
            "the folder of a finished run, with model.nrde in it" if path.is_dir() else "a model file or a run folder"
        )
        raise Refusal(f"There is no model at {path}; expected {what}, such as `neuralrde fit` makes.")
    model = load(file)
    if not hasattr(model, "predict"):
        raise Refusal(f"{file} holds a {type(model).__name__}, which predicts nothing; expected a model.")
    return model


def is_classifier(model: Any) -> bool:
    return hasattr(model, "classes_")


def predictions_of(model: Any, data: Dataset | Store) -> PredictionTable:
    """A model's predictions for series, in memory or in a store, and what is true where the data say so."""
    series, true = (data, data.labels) if isinstance(data, Store) else (data.series, _true_targets(model, data))
    probability = model.predict_proba(series) if is_classifier(model) else None
    predicted = model.predict(series) if probability is None else model.classes_[probability.argmax(axis=-1)]
    sample, points = np.arange(len(series)), None
    ids = sample if series.ids is None else np.asarray(series.ids)
    if isinstance(series, Series) and model.per_time_:
        valid = series.valid
        times = np.broadcast_to(np.arange(valid.shape[1]), valid.shape) if series.times is None else series.times
        ids, sample, points = np.repeat(ids, series.lengths), np.repeat(sample, series.lengths), times[valid]
        predicted, true = predicted[valid], None if true is None else true[valid]
        probability = None if probability is None else probability[valid]
    classes = None if probability is None else [str(name) for name in model.classes_]
    groups = None if data.groups is None else np.asarray(data.groups)[sample]
    return PredictionTable(ids, sample, points, predicted, probability, classes, true, groups)


def _true_targets(model: Any, data: Dataset) -> np.ndarray | None:
    """What is true, as the model predicts it; None if the data do not say. Targets of another kind are refused."""
    if data.target is None:
        return None
    if (data.classes is not None) != is_classifier(model):
        wanted = "classes" if is_classifier(model) else "numbers"
        raise Refusal(
            f"Got data whose target is {'real numbers' if data.classes is None else 'classes'} for a model that "
            f"predicts {wanted}. Say --task {'classification' if is_classifier(model) else 'regression'}, or name "
            "another --target."
        )
    if data.per_time != model.per_time_:
        raise Refusal(
            f"Got data with a target for each {'point' if data.per_time else 'series'} and a model that predicts "
            f"for each {'point' if model.per_time_ else 'series'}; expected the same."
        )
    return targets(data)


def pooled(folds: Sequence[tuple[PredictionTable, np.ndarray]]) -> PredictionTable:
    """The predictions of several folds as one, in the order of the data.

    Args:
        folds: of each its predictions, and the numbers of its samples in the data.
    """
    sample = np.concatenate([rows[found.sample] for found, rows in folds])
    order = np.argsort(sample, kind="stable")

    def join(name: str) -> Any:
        arrays = [getattr(found, name) for found, _ in folds]
        return None if arrays[0] is None else np.concatenate(arrays)[order]

    classes, probability = None, None
    if folds[0][0].classes is not None:
        # A class may be too small to be in each fold's training part; what a fold did not know has probability 0.
        classes = sorted({name for found, _ in folds for name in found.classes or []})
        probability = np.zeros((len(sample), len(classes)))
        start = 0
        for found, _ in folds:
            columns = [classes.index(name) for name in found.classes or []]
            probability[start : start + len(found.sample), columns] = found.probability
            start += len(found.sample)
        probability = probability[order]
    arrays = {name: join(name) for name in ("ids", "points", "predicted", "true", "groups")}
    return PredictionTable(sample=sample[order], probability=probability, classes=classes, **arrays)


def check_known(found: PredictionTable) -> None:
    """Refuse data none of whose classes the model knows: an accuracy of zero would tell nobody why."""
    if found.true is None or found.classes is None:
        return
    if not np.isin(found.true.astype(str), found.classes).any():
        raise Refusal(
            f"Got the classes {np.unique(found.true)[:5].tolist()}, none of which the model knows; expected some of "
            f"{found.classes[:5]}. Is --target the same column, spelled in the same way?"
        )


def write_csv(found: PredictionTable, target: Path | IO[str]) -> None:
    """One row per prediction: id, the point if there are several, predicted, true if known, probabilities."""
    if isinstance(target, Path):
        private_folder(target.parent)
        with writing(target, "w", newline="") as file:
            write_csv(found, file)
        return
    columns: dict[str, Any] = {"id": found.ids}
    if found.points is not None:
        columns["time"] = found.points
    columns |= _named("predicted", found.predicted)
    if found.true is not None:
        columns |= _named("true", found.true)
    if found.probability is not None:
        names = found.classes or []
        digits = np.vectorize(lambda p: float(f"{p:.6g}"), otypes=[float])  # a small one is not 0
        columns |= {f"p({name})": digits(found.probability[:, k]) for k, name in enumerate(names)}
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def _named(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    if array.ndim == 1:
        return {name: array}
    return {name if array.shape[1] == 1 else f"{name}_{k}": array[:, k] for k in range(array.shape[1])}


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
    if beside and folder.closed_form.exists():
        beside.append(floor_baseline(load_model(folder.closed_form), judged))
    return beside


def floor_baseline(estimator: Any, data: Dataset) -> Baseline:
    """The predictions of a closed form, as one of the baselines."""
    known = predictions_of(estimator, data).known()
    return Baseline(FLOOR, FLOOR, known.predicted, "random log-signature features and ridge")


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
