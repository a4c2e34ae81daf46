"""The outcome of a run: metrics, a verdict, predictions and pictures, kept in its folder and said."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ..assessment import Baseline, Training, TrainingTargets, assess, measures, verdict
from ..datasets import Dataset, Split
from ..registry import to_plain
from .closed_form import Floor
from .config import CLOSED_FORM
from .describe import summary
from .estimator import blend_of, is_closed_form
from .job import Job
from .pictures import draw_curves, draw_predictions, draw_windows
from .predictions import PredictionTable, write_csv
from .report import about_training, about_trials, as_json, as_text, only_closed_form, picture_note
from .run_folder import RunFolder, write
from .run_page import run_page
from .shell import in_flags

Say = Callable[[str], None]


@dataclass(frozen=True)
class Folds:
    """All folds together: the predictions, the baselines, and a row of metrics.json per fold."""

    found: PredictionTable
    beside: list[Baseline]
    rows: list[dict[str, Any]]


def finish(
    job: Job,
    folder: RunFolder,
    rows: Split,
    estimator: Any,
    found: dict[str, PredictionTable],
    lowest: Floor | None,
    cross: Folds | None,
    *,
    seconds: float,
    plots: bool,
    say: Say,
) -> dict[str, Any]:
    """What came out: metrics, a verdict, predictions, pictures."""
    measured = {part: measures(one.known()) for part, one in found.items()}
    last = list(found)[-1]
    test = job.data[getattr(rows, last)]
    if cross is None:
        judged, beside = found[last], job.baselines(rows.train, getattr(rows, last))
        beside += [] if lowest is None else [lowest.baseline(test)]
        part, where = last, f"{last.capitalize()} samples"
    else:
        judged, beside, part, where = cross.found, cross.beside, "folds", "All samples, each tested in its fold"
    assessment = assess(judged.known(), beside, seed=job.settings.seed)
    learned = {name: values for name, values in measured.items() if name != "test"}
    closed = only_closed_form(blend_of(estimator))
    sentences = [*closed, *verdict(assessment, _training(job, estimator, {} if closed else learned))]
    result = {
        "estimator": type(estimator).__name__,
        **(_about_closed_form(estimator) if job.closed_form else _about_neural(estimator)),
        "seconds": round(seconds, 2),
        "parts": measured,
        "assessment": as_json(assessment, sentences, part),
        "training_targets": asdict(TrainingTargets.of(job.data[rows.train])),
    }
    if lowest is not None:
        result["closed_form"] = {"seconds": round(lowest.seconds, 2)}
    if cross is not None:
        result["folds"] = cross.rows
    if job.store is not None:
        result["store"] = job.store.fingerprint
    folder.finish([] if job.closed_form else estimator.history_, result)
    write_csv(judged, folder.predictions)
    said = [
        about_trials(result),
        about_training(result),
        as_text(assessment, sentences, f"{where}, and what is reached without this model"),
    ]
    if plots:
        target = job.settings.table.get("target")
        names = {"name": target if isinstance(target, str) else "target", "note": picture_note(assessment)}
        said += _pictures(estimator, judged, names, None if job.store is not None else test, folder)
    said += _page(job, folder, result)
    say("\n" + "\n\n".join(filter(None, said)) + f"\n\nRun folder: {folder.path}\nReport:     {folder.report}")
    return result | {"folder": str(folder.path)}


def _training(job: Job, estimator: Any, learned: dict[str, Any]) -> Training:
    """How it went, for the verdict; without measures of what was learned from, nothing is said of it."""
    if job.closed_form or not learned:
        return Training(epochs=0, best=0, searched=False, out_of_time=False, parts={}, folds=job.settings.folds)
    budget = estimator.time_budget
    return Training(
        epochs=len(estimator.history_),
        best=int(estimator.best_epoch_),
        searched=job.searched,
        # A fifth of an epoch may have been left: training stops where one more would not fit.
        out_of_time=budget is not None
        and bool(estimator.history_)
        and estimator.history_[-1].get("seconds", 0.0) >= 0.8 * budget,
        parts=learned,
        folds=job.settings.folds,
    )


def _about_neural(estimator: Any) -> dict[str, Any]:
    return {
        "model": to_plain("model", estimator.config_)["name"],
        "depth": estimator.windows_.depth,
        "scales": estimator.windows_.scales,
        "step": estimator.windows_.step,
        "every": estimator.windows_.every,
        "epochs": len(estimator.history_),
        "best_epoch": int(estimator.best_epoch_),
        "blend": blend_of(estimator),
        "trials": estimator.trials_,
    }


def _about_closed_form(estimator: Any) -> dict[str, Any]:
    return {"model": CLOSED_FORM, "features": estimator.features_, "penalty": estimator.penalty_}


def _page(job: Job, folder: RunFolder, result: dict[str, Any]) -> list[str]:
    """Write the report; that it could not be written is said."""
    try:
        write(folder.report, run_page(folder, summary(job.data) if job.store is None else repr(job.store), result))
    except Exception as error:  # as for pictures
        return [f"No report: {in_flags(str(error))}"]
    return []


def _pictures(
    estimator: Any, judged: PredictionTable, names: dict[str, str], part: Dataset | None, folder: RunFolder
) -> list[str]:
    """Draw them; what could not be drawn is said."""
    try:
        draw_predictions(judged, folder.pictures, **names)
        if is_closed_form(estimator):
            return []
        if estimator.history_:  # nothing is trained where the closed form leaves nothing to gain
            draw_curves(estimator.history_, folder.pictures, blended=blend_of(estimator) is not None)
        if part is not None and not (part.series.lengths > 1).any():
            return ["No picture of windows, because every series has only one point."]
        if part is not None:
            draw_windows(estimator, part, folder.pictures)
    except Exception as error:  # the model is trained and saved: nothing that a picture does may spoil that
        return [f"No pictures: {in_flags(str(error))}"]
    return []
