"""A trained model's predictions for data, the samples it is judged on, and the baselines beside it."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ..._write import private_folder, writing
from ...datasets import Dataset
from ...errors import few
from ...paths import Series
from ..assessment import CLOSED_FORM, Baseline, Predictions, TrainingTargets, baselines, trivial
from ..stores import Store
from .console import Refusal
from .flags import Table
from .loading import is_runs_own, open_for, static_of, targets
from .run_folder import RunFolder

if TYPE_CHECKING:
    from .settings import Estimator


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
    """The group of each row."""

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


def load_model(path: Path, *, forecasters: bool = False) -> Any:
    """The estimator in a model file or a run folder: a classifier or a regressor, or with `forecasters` also one."""
    from ...devices import try_all_cores
    from ...estimators import load
    from ...estimators.forecasting import Forecaster
    from ...estimators.targets import ClassTargets, NumberTargets

    try_all_cores()
    file = path / "model.nrde" if path.is_dir() else path
    if not file.exists():
        if path.is_dir() and (why := RunFolder(path).why_no_model()):
            raise Refusal(why)
        folder = "the folder of a finished run, with model.nrde in it"
        what = folder if path.is_dir() else "a model file or a run folder"
        raise Refusal(f"There is no model at {path}; expected {what}, such as `neuralrde fit` makes.")
    model = load(file)
    if forecasters and isinstance(model, Forecaster):
        return model
    if not isinstance(model, ClassTargets | NumberTargets):
        raise Refusal(f"{file} holds a {type(model).__name__}; expected a classifier or a regressor.")
    return model  # type: ignore  # one of ours, because a file names no other


def predictions_of(model: "Estimator", data: Dataset | Store) -> PredictionTable:
    """A model's predictions for series, in memory or in a store, and what is true where the data say so."""
    series, true = (data, data.labels) if isinstance(data, Store) else (data.series, _true_targets(model, data))
    classifies = model.fitted_.targets.classes is not None
    beside = {} if isinstance(data, Store) else static_of(model, data)
    probability = model.predict_proba(series, **beside) if classifies else None  # type: ignore  # a classifier has it
    predicted = model.predict(series, **beside) if probability is None else model.fitted_.labels(probability)
    sample, points = np.arange(len(series)), None
    ids = sample if series.ids is None else np.asarray(series.ids)
    if isinstance(series, Series) and model.per_time_:
        valid = series.valid
        times = np.broadcast_to(np.arange(valid.shape[1]), valid.shape) if series.times is None else series.times
        ids, sample, points = np.repeat(ids, series.lengths), np.repeat(sample, series.lengths), times[valid]
        predicted, true = predicted[valid], None if true is None else true[valid]
        probability = None if probability is None else probability[valid]
    classes = None if probability is None else [str(name) for name in model.fitted_.targets.classes]
    groups = None if data.groups is None else np.asarray(data.groups)[sample]
    return PredictionTable(ids, sample, points, predicted, probability, classes, true, groups)


def _true_targets(model: "Estimator", data: Dataset) -> np.ndarray | None:
    """What is true, as the model predicts it; None if the data do not say. Targets of another kind are refused."""
    if data.target is None:
        return None
    if data.task != (task := model.fitted_.targets.task):
        kind, wanted = ("real numbers", "classes") if data.classes is None else ("classes", "numbers")
        raise Refusal(
            f"Got data whose target is {kind} for a model that predicts {wanted}. Say --task {task}, or name another "
            "--target."
        )
    if data.per_time != model.per_time_:
        each = ("series", "point")
        raise Refusal(
            f"Got data with a target for each {each[data.per_time]} and a model that predicts for each "
            f"{each[model.per_time_]}; expected the same."
        )
    return targets(data)


def closed_form_baseline(estimator: "Estimator", data: Dataset) -> Baseline:
    """The predictions of a closed form, as one of the baselines."""
    known = predictions_of(estimator, data).known()
    return Baseline(CLOSED_FORM, CLOSED_FORM, known.predicted, "random log-signature features and ridge")


def pooled(folds: Sequence[tuple[PredictionTable, np.ndarray]]) -> PredictionTable:
    """The predictions of several folds as one, in the order of the data; beside each, the numbers of its samples."""
    sample = np.concatenate([rows[found.sample] for found, rows in folds])
    order = np.argsort(sample, kind="stable")
    classes = sorted({name for found, _ in folds for name in found.classes or ()}) or None

    def join(arrays: list[Any]) -> Any:
        return None if arrays[0] is None else np.concatenate(arrays)[order]

    def of_all_classes(found: PredictionTable) -> np.ndarray | None:
        """A class may be too small to be in each fold's training part: what a fold did not know has probability 0."""
        if classes is None or found.classes is None:
            return None
        wide = np.zeros((len(found.sample), len(classes)))
        wide[:, [classes.index(name) for name in found.classes]] = found.probability
        return wide

    joined = {n: join([getattr(found, n) for found, _ in folds]) for n in ("ids", "points", "predicted", "true")}
    return PredictionTable(
        sample=sample[order],
        probability=join([of_all_classes(found) for found, _ in folds]),
        classes=classes,
        groups=join([found.groups for found, _ in folds]),
        **joined,
    )


def pooled_baselines(folds: Sequence[tuple[list[Baseline], np.ndarray]]) -> list[Baseline]:
    """The baselines that every fold has, as one in the order of the data; beside each, the samples of its rows."""
    order = np.argsort(np.concatenate([rows for _, rows in folds]), kind="stable")
    result = []
    for kind in [one.kind for one in folds[0][0]]:
        each = [one for found, _ in folds for one in found if one.kind == kind]
        if len(each) == len(folds):
            name = each[0].name if len({one.name for one in each}) == 1 else kind
            name = "largest class" if name == "trivial" else name
            result.append(
                Baseline(kind, name, np.concatenate([one.predicted for one in each])[order], each[0].explained)
            )
    return result


def write_csv(found: PredictionTable, target: Path | IO[str]) -> None:
    """One row per prediction: id, the point if there are several, predicted, true if known, probabilities."""
    if isinstance(target, Path):
        private_folder(target.parent)
        with writing(target, "w", newline="") as file:
            return write_csv(found, file)
    columns: dict[str, np.ndarray] = {"id": found.ids}
    if found.points is not None:
        columns["time"] = found.points
    for name, array in (("predicted", found.predicted), ("true", found.true)):
        if array is not None and array.ndim == 2 and array.shape[1] > 1:
            columns |= {f"{name}_{k}": array[:, k] for k in range(array.shape[1])}
        elif array is not None:
            columns[name] = array.reshape(len(array))
    if found.probability is not None:
        digits = np.vectorize(lambda p: float(f"{p:.6g}"), otypes=[float])  # a small one is not 0
        columns |= {f"p({name})": digits(found.probability[:, k]) for k, name in enumerate(found.classes or [])}
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def predictions_to_judge(
    model: Path, word: str | None, table: Table, *, everything: bool = False
) -> tuple[Dataset, str, PredictionTable]:
    """DATA, which part of it a model is judged on ("test" or "all"), and the model's predictions for that part.

    Of the data that a run was trained with, only its test samples count, unless `everything` is wanted.
    """
    estimator, folder = load_model(model), RunFolder(model)
    data = open_for(model, word, table, task=estimator.fitted_.targets.task)
    part, rows = "all", np.arange(len(data))
    if model.is_dir() and not everything and folder.is_own(data):
        part, rows = "test", folder.rows("test", data)
        if len(rows) == 0:
            raise Refusal(
                f"The run at {model} was trained on all of its data, so there are no test samples; the result of its "
                "folds is in metrics.json. Give other data, or --all to see how well it fits what it was trained on."
            )
    elif not everything and is_runs_own(model, word):
        raise Refusal(
            f"{word or data.name} has changed since the run was trained, or other columns of it are read, so its test "
            "samples are no longer known. Restore it, or give --all to evaluate on all of it, which flatters the model "
            "where it was trained on these samples."
        )
    found = predictions_of(estimator, data[rows])
    if found.true is not None and found.classes and not np.isin(found.true.astype(str), found.classes).any():
        raise Refusal(  # an accuracy of zero would tell nobody why
            f"Got the classes {few(np.unique(found.true).tolist(), 5)}, none of which the model knows; expected some "
            f"of {few(found.classes, 5)}. Is --target the same column, spelled in the same way?"
        )
    return data, part, found


def baselines_for(model: Path, part: str, data: Dataset, found: PredictionTable) -> list[Baseline]:
    """All baselines for a run's test samples, else those that need nothing but the run's folder."""
    folder = RunFolder(model)
    if part == "test":
        judged = data[folder.rows("test", data)]
        beside = baselines(data[folder.rows("train", data)], judged, seed=0)
    else:
        judged, known = data, folder.read_metrics().get("training_targets")
        beside = [] if known is None else [trivial(TrainingTargets(**known), len(found.known().true))]
    if beside and folder.closed_form.exists():
        beside.append(closed_form_baseline(load_model(folder.closed_form), judged))
    return beside
