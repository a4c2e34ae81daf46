"""A run: data are read and divided, an estimator is trained and judged, and a run folder keeps what came out.

With folds there are several trainings: one per fold, to judge, and one on everything, to keep. The series may be in a
store: then everything that needs whole series (folds, the closed form, a picture of windows) is left out.
"""

import inspect
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..assessment import Baseline, Training, TrainingTargets, assess, baselines, measures, trivial, verdict
from ..datasets import Dataset, Split
from ..datasets.dataset import PARTS
from ..registry import to_plain
from ..stores import Store, is_store
from .closed_form import Floor, fit_rows, floor, without_validation
from .config import CLOSED_FORM, RunSettings, as_toml
from .describe import summary, task_hints
from .dividing import divided, divided_for_all, divided_into_folds
from .errors import WRONG_USE, Refusal, how_stopped
from .estimator import estimator_for, is_closed_form, resolve
from .judging import pooled_baselines
from .loading import open_data, open_store, targets, with_channels
from .pictures import draw_curves, draw_predictions, draw_windows
from .predictions import PredictionTable, pooled, predictions_of, write_csv
from .report import about_folds, about_training, about_trials, as_json, as_text, metric_line, picture_note
from .run_folder import RunFolder
from .screen import count
from .shell import in_flags
from .workers import Worker

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What is trained on what."""

    settings: RunSettings
    estimator: Any
    data: Dataset
    """With a store, a stand-in for it."""
    y: np.ndarray
    verbose: bool | None
    listeners: list[Any]
    store: Store | None = None
    """Where the series are, if they are not in `data`."""

    @property
    def closed_form(self) -> bool:
        """Whether nothing is trained."""
        return is_closed_form(self.estimator)

    @property
    def searched(self) -> bool:
        """Whether windows are searched for, or models compared."""
        if self.closed_form or self.store is not None:
            return False
        return self.estimator._part("windows").searched or self.settings.compared

    def fit(self, rows: Split, **options: Any) -> Any:
        """An estimator that was trained on the training rows."""
        from sklearn.base import clone

        estimator: Any = clone(self.estimator)
        if self.closed_form:
            return fit_rows(estimator, self.data, self.y, rows)
        estimator.set_params(verbose=self.verbose)
        options["listeners"] = self.listeners
        if self.store is not None:
            if len(rows.validation):
                options["validation"] = self.store[rows.validation]
            return estimator.fit(self.store[rows.train], **options)
        if len(rows.validation):
            options["validation"] = self.data[rows.validation].series, self.y[rows.validation]
        elif self.data.groups is not None and "groups" in inspect.signature(estimator.fit).parameters:
            options["groups"] = self.data.groups[rows.train]
        return estimator.fit(self.data[rows.train].series, self.y[rows.train], **options)

    def predict(self, estimator: Any, rows: np.ndarray) -> PredictionTable:
        """An estimator's predictions for some of the samples."""
        return predictions_of(estimator, self.data[rows] if self.store is None else self.store[rows])

    def baselines(self, train: np.ndarray, test: np.ndarray) -> list[Baseline]:
        """Those that can be had: without whole series, only the trivial one."""
        if self.store is None:
            return baselines(self.data[train], self.data[test], seed=self.settings.seed)
        return [trivial(TrainingTargets.of(self.data[train]), len(test))]


def train(
    settings: RunSettings,
    out: Path | None,
    *,
    resume: bool,
    plots: bool,
    say: Say,
    progress: str,
    tensorboard: bool,
    worker: Worker | None = None,
    data: Dataset | None = None,
    listeners: Sequence[Any] = (),
    with_floor: bool = True,
) -> dict[str, Any]:
    """Train, judge, and write a run folder. Of several processes the first does the writing and judging.

    A sweep has read the data already, listens to every epoch, and has the closed form as a run of its own.
    """
    # Data, and its parts.
    store = None
    if data is None and settings.data is not None and is_store(settings.data):
        store, data = open_store(settings)
        say(repr(store))
    elif data is None:
        data = open_data(settings.data, settings.table)
        settings = with_channels(settings, data)
    y = targets(data)
    if store is None:
        say(summary(data))
        for hint in task_hints(data, settings.table):
            say(f"  note    {hint}")
    if settings.closed_form and data.per_time:
        raise Refusal(
            "Got a target for each point with --model closed-form; expected one for each series, because the closed "
            "form looks at series as a whole. Leave --model out.",
            WRONG_USE,
        )
    splits: list[Split] = []
    if settings.folds:
        rows, how_split = divided_for_all(data, settings.divide, settings.seed), f"{settings.folds} folds"
        splits, how = divided_into_folds(data, settings.folds, settings.divide, settings.seed)
        say(f"  folds   {settings.folds}, {how}; then training on all of the data")
    else:
        rows, how_split = divided(data, settings.divide, settings.seed)
        say(f"  parts   train {len(rows.train)}, validation {len(rows.validation)}, test {len(rows.test)}: {how_split}")
    if settings.closed_form:
        rows = without_validation(rows)

    # Model. Loaded here and not above, because scikit-learn and diffrax would slow every --help down.
    from ..devices import try_all_cores
    from ..processes import Processes
    from ..training import EventFile, JSONLines

    try_all_cores()
    processes = Processes()
    heard = [*listeners, *([JSONLines(sys.stderr)] if progress == "json" else [])]
    verbose = None if progress == "bar" else False
    job = Job(settings, estimator_for(settings, data), data, y, verbose, heard, store)
    once = job.searched or job.closed_form or bool(settings.folds)
    if resume and once:
        raise _no_resume(job)

    # Training. What is resumed keeps its own settings until the checkpoint is found to belong to these.
    with RunFolder.of_all(processes, data.name, out, resume=resume) as folder:
        if worker is not None:
            worker.tell(folder.path)
        resolved = as_toml(resolve(settings, job.estimator))
        if not resume and processes.is_first:
            folder.begin(resolved, data, rows, how_split)
        if tensorboard and processes.is_first:
            job.listeners.append(EventFile(folder.path / "events"))
        has_floor = with_floor and store is None and not job.closed_form and not data.per_time and processes.is_first
        lowest = _floor(job, rows, folder, say) if has_floor else None
        begun = time.monotonic()
        try:
            cross = _cross_validated(job, splits, say, with_floor=lowest is not None) if splits else None
            options = {} if once else {"checkpoint": folder.checkpoint, "resume": resume}
            estimator = job.fit(rows, **options)
        except KeyboardInterrupt as error:
            again = "" if worker is None else f" {worker.flags}"
            hint = "" if once else f" Go on with `neuralrde fit --resume --out {folder.path}{again}`."
            word, code = how_stopped(error)
            raise Refusal(f"{word}.{hint}", code) from None
        seconds = time.monotonic() - begun
        found = _predicted(job, estimator, rows)  # all processes share this work
        result: dict[str, Any] = {}
        if processes.is_first:
            if resume:
                folder.begin(resolved, data, rows, how_split)
            estimator.save(folder.model)
            options = {"seconds": seconds, "plots": plots, "say": say}
            result = _finish(job, folder, rows, estimator, found, lowest, cross, **options)
        processes.agree(None)  # until now the others have waited
        return result


def _no_resume(job: Job) -> Refusal:
    what, advice = (
        "depth, step or model auto",
        ", or give --model, --depth and --step as an earlier metrics.json names them",
    )
    if job.settings.folds or job.closed_form:
        what, advice = "folds" if job.settings.folds else "--model closed-form", ""
    return Refusal(
        f"Got --resume with {what}; expected a single training, because that has one state to go on from. Run it "
        f"again{advice}.",
        WRONG_USE,
    )


def _predicted(job: Job, estimator: Any, rows: Split) -> dict[str, PredictionTable]:
    """The predictions for each part. After that, this process predicts for itself alone."""
    found = {part: job.predict(estimator, own) for part in PARTS if len(own := getattr(rows, part))}
    if not job.closed_form:
        import jax

        estimator._mesh = jax.local_devices()
    return found


def _floor(job: Job, rows: Split, folder: RunFolder, say: Say) -> Floor | None:
    """The closed form, kept in the run's folder, with a line about what it reaches; the training has yet to begin."""
    try:
        found = floor(job.data, job.y, rows, seed=job.settings.seed)
    except ValueError as error:  # what it cannot learn from, a neural model may
        say(f"  closed form left out: {in_flags(str(error))}")
        return None
    if not folder.closed_form.exists():  # a run that is resumed has it, and may yet be refused
        found.estimator.save(folder.closed_form)
    judged = rows.test if len(rows.test) else rows.validation
    if job.settings.folds or not len(judged):
        return found
    values = measures(job.predict(found.estimator, judged).known())
    which = f"on {count(len(judged), 'test sample')}" if len(rows.test) else "on the validation part"
    say(f"  closed form, in {found.seconds:.1f} s: {metric_line(values)} {which}")
    say("  now the neural model ...")
    return found


def _finish(
    job: Job,
    folder: RunFolder,
    rows: Split,
    estimator: Any,
    found: dict[str, PredictionTable],
    lowest: Floor | None,
    cross: "_Folds | None",
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
    sentences = verdict(assessment, _training(job, estimator, learned))
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
    say("\n" + "\n\n".join(filter(None, said)) + f"\n\nRun folder: {folder.path}")
    return result | {"folder": str(folder.path)}


def _training(job: Job, estimator: Any, learned: dict[str, Any]) -> Training:
    """How it went, for the verdict."""
    if job.closed_form:
        return Training(epochs=0, best=0, searched=False, out_of_time=False, parts={}, folds=job.settings.folds)
    budget = estimator.time_budget
    return Training(
        epochs=len(estimator.history_),
        best=int(estimator.best_epoch_),
        searched=job.searched,
        # A fifth of an epoch may have been left: training stops where one more would not fit.
        out_of_time=budget is not None and estimator.history_[-1].get("seconds", 0.0) >= 0.8 * budget,
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
        "trials": estimator.trials_,
    }


def _about_closed_form(estimator: Any) -> dict[str, Any]:
    return {"model": CLOSED_FORM, "features": estimator.features_, "penalty": estimator.penalty_}


@dataclass(frozen=True)
class _Folds:
    """All folds together: the predictions, the baselines, and a row of metrics.json per fold."""

    found: PredictionTable
    beside: list[Baseline]
    rows: list[dict[str, Any]]


def _cross_validated(job: Job, splits: Sequence[Split], say: Say, *, with_floor: bool) -> _Folds:
    """Train once per fold; say how each went, and how much they differ."""
    found, beside, rows, metric = [], [], [], ""
    for split in splits:
        one = job.predict(job.fit(split), split.test)
        others = job.baselines(split.train, split.test)
        if with_floor:
            others.append(floor(job.data, job.y, split, seed=job.settings.seed).baseline(job.data[split.test]))
        judged = assess(one.known(), others, seed=job.settings.seed)
        metric = judged.metric
        found.append((one, split.test))
        beside.append((others, split.test[one.sample[one.rows]]))
        values = {other.kind: values[metric] for other, values in judged.baselines}
        rows.append({"fold": len(rows) + 1, "samples": len(one.rows), metric: judged.value, "baselines": values})
        say(f"  fold {len(rows)} of {job.settings.folds}: {metric_line({metric: judged.value})}")
    say("\n" + about_folds(rows, metric))
    return _Folds(pooled(found), pooled_baselines(beside), rows)


def _pictures(
    estimator: Any, judged: PredictionTable, names: dict[str, str], part: Dataset | None, folder: RunFolder
) -> list[str]:
    """Draw them; what could not be drawn is said."""
    try:
        draw_predictions(judged, folder.pictures, **names)
        if is_closed_form(estimator):
            return []
        draw_curves(estimator.history_, folder.pictures)
        if part is not None and not (part.series.lengths > 1).any():
            return ["No picture of windows, because every series has only one point."]
        if part is not None:
            draw_windows(estimator, part.series, folder.pictures)
    except Exception as error:  # the model is trained and saved: nothing that a picture does may spoil that
        return [f"No pictures: {in_flags(str(error))}"]
    return []
