"""A model's answers to data, and how good they are."""

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..datasets import Dataset
from .errors import Refusal
from .loading import targets


@dataclass(frozen=True)
class Answers:
    """One row a sample, or one a point for models that answer at every point."""

    ids: np.ndarray
    points: np.ndarray | None
    """Times, or numbers of points; None for one answer a sample."""
    predicted: np.ndarray
    probability: np.ndarray | None
    classes: list[str] | None
    true: np.ndarray | None


def load_model(path: Path) -> Any:
    """The estimator in a model file or a run folder."""
    from ..devices import try_all_cores
    from ..estimators import LogSignatureTransformer, load

    try_all_cores()
    file = path / "model.nrde" if path.is_dir() else path
    if not file.exists():
        what = (
            "the folder of a finished run, with model.nrde in it" if path.is_dir() else "a model file or a run folder"
        )
        raise Refusal(f"There is no model at {path}; expected {what}, such as `neuralrde fit` makes.")
    model = load(file)
    if isinstance(model, LogSignatureTransformer):
        raise Refusal(f"{file} holds a LogSignatureTransformer, which predicts nothing; expected a model.")
    return model


def is_classifier(model: Any) -> bool:
    return hasattr(model, "classes_")


def answers(model: Any, data: Dataset) -> Answers:
    """Predictions, and what is true where the data say so."""
    series, true = data.series, None
    if data.target is not None:
        if (data.classes is not None) != is_classifier(model):
            wanted = "classes" if is_classifier(model) else "numbers"
            raise Refusal(
                f"Got data whose target is {'real numbers' if data.classes is None else 'classes'} for a model that "
                f"predicts {wanted}. Say --task {'classification' if is_classifier(model) else 'regression'}, or name "
                "another --target."
            )
        true = targets(data)
        if data.per_time != model.per_time_:
            raise Refusal(
                f"Got data with a target for each {'point' if data.per_time else 'sample'} and a model that answers "
                f"for each {'point' if model.per_time_ else 'sample'}; expected the same."
            )
    probability = model.predict_proba(series) if is_classifier(model) else None
    predicted = model.predict(series) if probability is None else model.classes_[probability.argmax(axis=-1)]
    ids = np.arange(len(series)) if series.ids is None else np.asarray(series.ids)
    points = None
    if model.per_time_:
        valid = series.valid
        times = np.broadcast_to(np.arange(valid.shape[1]), valid.shape) if series.times is None else series.times
        ids, points = np.repeat(ids, series.lengths), times[valid]
        predicted, true = predicted[valid], None if true is None else true[valid]
        probability = None if probability is None else probability[valid]
    classes = None if probability is None else [str(name) for name in model.classes_]
    return Answers(ids, points, predicted, probability, classes, true)


def measures(found: Answers) -> dict[str, Any]:
    """What people report: accuracy and its kin, or errors in the unit of the target."""
    from sklearn import metrics

    if found.true is None:
        raise Refusal("Got data without a target; expected one to compare with. Name its column with --target.")
    result: dict[str, Any] = {"samples": len(found.true)}
    if found.probability is not None:
        true, predicted = found.true.astype(str), found.predicted.astype(str)
        result["accuracy"] = float((true == predicted).mean())
        result["balanced_accuracy"] = float(
            np.mean([(predicted[true == name] == name).mean() for name in np.unique(true)])
        )
        result["macro_f1"] = float(metrics.f1_score(true, predicted, average="macro", zero_division=0.0))  # type: ignore
        column = {name: k for k, name in enumerate(found.classes or [])}
        # A class that the model has never seen has probability 0; the loss of that is large, and finite.
        likely = [
            row[column[name]] if name in column else 0.0 for row, name in zip(found.probability, true, strict=True)
        ]
        result["log_loss"] = float(-np.log(np.maximum(likely, 1e-12)).mean())
        return result
    true, predicted = (np.asarray(array, float).reshape(len(found.true), -1) for array in (found.true, found.predicted))
    known = np.isfinite(true).all(axis=1)
    true, predicted = true[known], predicted[known]
    result["samples"] = len(true)
    result["rmse"] = float(np.sqrt(((predicted - true) ** 2).mean()))
    result["mae"] = float(np.abs(predicted - true).mean())
    result["r2"] = float(metrics.r2_score(true, predicted)) if len(true) > 1 else float("nan")
    return result


def check_known(found: Answers) -> None:
    """Refuse data none of whose classes the model knows: an accuracy of zero would tell nobody why."""
    if found.true is None or found.classes is None:
        return
    if not np.isin(found.true.astype(str), found.classes).any():
        raise Refusal(
            f"Got the classes {np.unique(found.true)[:5].tolist()}, none of which the model knows; expected some of "
            f"{found.classes[:5]}. Is --target the same column, spelled in the same way?"
        )


def write_csv(found: Answers, target: Path | TextIO) -> None:
    """A row an answer: id, the point if there are several, predicted, true if known, probabilities."""
    if isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with open(partial, "w", newline="") as file:
                write_csv(found, file)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        return
    columns: dict[str, Any] = {"id": found.ids}
    if found.points is not None:
        columns["time"] = found.points
    columns |= _named("predicted", found.predicted)
    if found.true is not None:
        columns |= _named("true", found.true)
    if found.probability is not None:
        names = found.classes or []
        columns |= {f"p({name})": np.round(found.probability[:, k], 6) for k, name in enumerate(names)}
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def _named(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    if array.ndim == 1:
        return {name: array}
    return {name if array.shape[1] == 1 else f"{name}_{k}": array[:, k] for k in range(array.shape[1])}
