"""A run: read and divide the data, train an estimator, judge it, and keep the outcome in a run folder.

With folds there are several trainings: one per fold, to judge, and one on everything, to keep. The series may be in a
store: then everything that needs whole series (folds, the closed form, a picture of windows) is left out.
"""

import inspect
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..assessment import Baseline, Training, TrainingTargets, assess, baselines, measures, trivial, verdict
from ..datasets import Dataset, Split
from ..datasets.dataset import PARTS
from ..paths import Windows
from ..registry import to_plain
from ..stores import Store, is_store
from .console import WRONG_USE, Refusal, count, how_stopped
from .describe import task_hints
from .evaluation import PredictionTable, floor_baseline, pooled, pooled_baselines, predictions_of, write_csv
from .loading import open_store, targets, with_channels
from .proposal import group_hints, open_or_propose
from .report import (
    about_folds,
    about_training,
    about_trials,
    as_json,
    as_text,
    draw_curves,
    draw_predictions,
    draw_windows,
    metric_line,
    only_closed_form,
    picture_note,
    run_page,
)
from .run_folder import RunFolder, write
from .settings import (
    CLOSED_FORM,
    RunSettings,
    as_toml,
    blend_of,
    closed_form_for,
    estimator_for,
    is_closed_form,
    resolve,
)
from .split import divided, divided_for_all, divided_into_folds
from .workers import Worker

Say = Callable[[str], None]
# The closed form beside a neural model stays cheap: it learns from this many series at most, drawn at random.
_MOST = 10_000


@dataclass(frozen=True)
class Run:
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
        return Windows.of(self.estimator.windows).searched or self.settings.compared

    def fit(self, rows: Split, **options: Any) -> Any:
        """An estimator that was trained on the training rows."""
        from sklearn.base import clone

        estimator: Any = clone(self.estimator)
        if self.closed_form:
            return _fit_closed_form(estimator, self.data, self.y, rows)
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
        """The baselines for these rows: without whole series, only the trivial one."""
        if self.store is None:
            return baselines(self.data[train], self.data[test], seed=self.settings.seed)
        return [trivial(TrainingTargets.of(self.data[train]), len(test))]


@dataclass(frozen=True)
class Floor:
    """The closed form, fitted on what a run may learn from, and the seconds that this took."""

    estimator: Any
    seconds: float


@dataclass(frozen=True)
class Folds:
    """All folds together: the predictions, the baselines, and a row of metrics.json per fold."""

    predictions: PredictionTable
    baselines: list[Baseline]
    rows: list[dict[str, Any]]


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
        data = open_or_propose(settings.data, settings.table, to_fit=True)
        settings = with_channels(settings, data)
    y = targets(data)
    if store is None:
        say(data.summary())
        for hint in (*task_hints(data, settings.table), *group_hints(data)):
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

    # Model. A refusal above comes before JAX is loaded.
    from ..devices import try_all_cores
    from ..processes import Processes
    from ..training import EventFile, JSONLines
    from ..training.listeners import ProgressLines

    try_all_cores()
    processes = Processes()
    all_listeners = [*listeners, *([JSONLines(sys.stderr)] if progress == "json" else [])]
    if progress == "bar" and not sys.stderr.isatty():
        all_listeners.append(ProgressLines(say))
    verbose = None if progress == "bar" else False
    run = Run(settings, estimator_for(settings, data), data, y, verbose, all_listeners, store)
    once = run.searched or run.closed_form or bool(settings.folds)
    if resume and once:
        raise _no_resume(run)

    # Training. What is resumed keeps its own settings until the checkpoint is found to belong to these.
    with RunFolder.of_all(processes, data.name, out, resume=resume) as folder:
        if worker is not None:
            worker.tell(folder.path)
        resolved = as_toml(resolve(settings, run.estimator, stored=store is not None))
        if not resume and processes.is_first:
            folder.begin(resolved, data, rows, how_split)
        if tensorboard and processes.is_first:
            run.listeners.append(EventFile(folder.path / "events"))
        has_floor = with_floor and store is None and not run.closed_form and not data.per_time and processes.is_first
        lowest = _keep_floor(run, rows, folder, say) if has_floor else None
        if not run.closed_form:
            say("  now the neural model, which is compiled first ...")
        begun = time.monotonic()
        try:
            folds = _cross_validate(run, splits, say, with_floor=lowest is not None) if splits else None
            options = {} if once else {"checkpoint": folder.checkpoint, "resume": resume}
            estimator = run.fit(rows, **options)
        except KeyboardInterrupt as error:
            again = "" if worker is None else f" {worker.flags}"
            hint = "" if once else f" Go on with `neuralrde fit --resume --out {shlex.quote(str(folder.path))}{again}`."
            word, code = how_stopped(error)
            raise Refusal(f"{word}.{hint}", code) from None
        seconds = time.monotonic() - begun
        # All processes share this work; afterwards nothing is predicted by the trained estimator.
        predicted = {part: run.predict(estimator, own) for part in PARTS if len(own := getattr(rows, part))}
        result: dict[str, Any] = {}
        if processes.is_first:
            if resume:
                folder.begin(resolved, data, rows, how_split)
            estimator.save(folder.model)
            options = {"seconds": seconds, "plots": plots, "say": say}
            result = _finish(run, folder, rows, estimator, predicted, lowest, folds, **options)
        processes.agree(None)  # until now the others have waited
        return result


def _no_resume(run: Run) -> Refusal:
    what, advice = (
        "depth, step or model auto",
        ", or give --model, --depth and --step as an earlier metrics.json names them",
    )
    if run.settings.folds or run.closed_form:
        what, advice = "folds" if run.settings.folds else "--model closed-form", ""
    return Refusal(
        f"Got --resume with {what}; expected a single training, because that has one state to go on from. Run it "
        f"again{advice}.",
        WRONG_USE,
    )


def without_validation(rows: Split) -> Split:
    """Nothing is stopped and nothing is chosen by a validation part, so that it can be learned from."""
    return replace(rows, train=np.sort(np.concatenate([rows.train, rows.validation])), validation=rows.validation[:0])


def _fit_closed_form(estimator: Any, data: Dataset, y: np.ndarray, rows: Split) -> Any:
    """Fit on the training and the validation part; samples of a group are left out together."""
    rows = without_validation(rows)
    groups = None if data.groups is None else np.asarray(data.groups)[rows.train]
    return estimator.fit(data[rows.train].series, y[rows.train], groups=groups)


def floor(data: Dataset, y: np.ndarray, rows: Split, *, seed: int) -> Floor:
    """The closed form with its defaults, on the training and the validation part."""
    begun = time.monotonic()
    rows = without_validation(rows)
    if len(rows.train) > _MOST:
        some = np.random.default_rng(seed).choice(rows.train, _MOST, replace=False)
        rows = replace(rows, train=np.sort(some))
    fitted = _fit_closed_form(closed_form_for(data)(random_state=seed), data, y, rows)
    return Floor(fitted, time.monotonic() - begun)


def _keep_floor(run: Run, rows: Split, folder: RunFolder, say: Say) -> Floor | None:
    """Fit the closed form, keep it in the run's folder, and say what it reaches, before the training."""
    try:
        lowest = floor(run.data, run.y, rows, seed=run.settings.seed)
    except ValueError as error:  # what it cannot learn from, a neural model may
        say(f"  closed form left out: {error}")
        return None
    if not folder.closed_form.exists():  # a run that is resumed has it, and may yet be refused
        lowest.estimator.save(folder.closed_form)
    judged = rows.test if len(rows.test) else rows.validation
    if run.settings.folds or not len(judged):
        return lowest
    values = measures(run.predict(lowest.estimator, judged).known())
    which = f"on {count(len(judged), 'test sample')}" if len(rows.test) else "on the validation part"
    say(f"  closed form, in {lowest.seconds:.1f} s: {metric_line(values)} {which}")
    return lowest


def _cross_validate(run: Run, splits: Sequence[Split], say: Say, *, with_floor: bool) -> Folds:
    """Train once per fold; say how each went, and how much they differ."""
    predicted, beside, rows, metric = [], [], [], ""
    for split in splits:
        fold = run.predict(run.fit(split), split.test)
        others = run.baselines(split.train, split.test)
        if with_floor:
            lowest = floor(run.data, run.y, split, seed=run.settings.seed)
            others.append(floor_baseline(lowest.estimator, run.data[split.test]))
        judged = assess(fold.known(), others, seed=run.settings.seed)
        metric = judged.metric
        predicted.append((fold, split.test))
        beside.append((others, split.test[fold.sample[fold.rows]]))
        values = {other.kind: values[metric] for other, values in judged.baselines}
        rows.append({"fold": len(rows) + 1, "samples": len(fold.rows), metric: judged.value, "baselines": values})
        say(f"  fold {len(rows)} of {run.settings.folds}: {metric_line({metric: judged.value})}")
    say("\n" + about_folds(rows, metric))
    return Folds(pooled(predicted), pooled_baselines(beside), rows)


def _finish(
    run: Run,
    folder: RunFolder,
    rows: Split,
    estimator: Any,
    predicted: dict[str, PredictionTable],
    lowest: Floor | None,
    folds: Folds | None,
    *,
    seconds: float,
    plots: bool,
    say: Say,
) -> dict[str, Any]:
    """Judge the predictions, and write metrics, predictions, pictures and the report."""
    measured = {part: measures(table.known()) for part, table in predicted.items()}
    last = list(predicted)[-1]
    test = run.data[getattr(rows, last)]
    if folds is None:
        judged, beside = predicted[last], run.baselines(rows.train, getattr(rows, last))
        beside += [] if lowest is None else [floor_baseline(lowest.estimator, test)]
        part, where = last, f"{last.capitalize()} samples"
    else:
        judged, beside, part, where = (
            folds.predictions,
            folds.baselines,
            "folds",
            "All samples, each tested in its fold",
        )
    assessment = assess(judged.known(), beside, seed=run.settings.seed)
    learned = {name: values for name, values in measured.items() if name != "test"}
    closed = only_closed_form(blend_of(estimator))
    sentences = [*closed, *verdict(assessment, _training(run, estimator, {} if closed else learned))]
    result = {
        "estimator": type(estimator).__name__,
        **_about_model(run, estimator),
        "seconds": round(seconds, 2),
        "parts": measured,
        "assessment": as_json(assessment, sentences, part),
        "training_targets": asdict(TrainingTargets.of(run.data[rows.train])),
    }
    if lowest is not None:
        result["closed_form"] = {"seconds": round(lowest.seconds, 2)}
    if folds is not None:
        result["folds"] = folds.rows
    if run.store is not None:
        result["store"] = run.store.fingerprint
    folder.finish([] if run.closed_form else estimator.history_, result)
    write_csv(judged, folder.predictions)
    said = [
        about_trials(result),
        about_training(result),
        as_text(assessment, sentences, f"{where}, and what is reached without this model"),
    ]
    # The model is trained and saved: nothing that a picture or a page does may spoil that.
    if plots:
        target = run.settings.table.get("target")
        names = {"name": target if isinstance(target, str) else "target", "note": picture_note(assessment)}
        try:
            said += _draw(estimator, judged, names, None if run.store is not None else test, folder)
        except Exception as error:
            said.append(f"No pictures: {error}")
    try:
        write(folder.report, run_page(folder, run.data.summary() if run.store is None else repr(run.store), result))
    except Exception as error:
        said.append(f"No report: {error}")
    say("\n" + "\n\n".join(filter(None, said)) + f"\n\nRun folder: {folder.path}\nReport:     {folder.report}")
    return result | {"folder": str(folder.path)}


def _training(run: Run, estimator: Any, learned: dict[str, Any]) -> Training:
    """How the training went, for the verdict; without measures of what was learned from, nothing is said of it."""
    if run.closed_form or not learned:
        return Training(epochs=0, best=0, searched=False, out_of_time=False, parts={}, folds=run.settings.folds)
    history, budget = estimator.history_, estimator.time_budget
    return Training(
        epochs=len(history),
        best=int(estimator.best_epoch_),
        searched=run.searched,
        # A fifth of an epoch may have been left: training stops where one more would not fit.
        out_of_time=budget is not None and bool(history) and history[-1].get("seconds", 0.0) >= 0.8 * budget,
        parts=learned,
        folds=run.settings.folds,
    )


def _about_model(run: Run, estimator: Any) -> dict[str, Any]:
    if run.closed_form:
        return {"model": CLOSED_FORM, "features": estimator.features_, "penalty": estimator.penalty_}
    windows = estimator.windows_
    return {
        "model": to_plain("model", estimator.config_)["name"],
        "depth": windows.depth,
        "scales": windows.scales,
        "step": windows.step,
        "every": windows.every,
        "epochs": len(estimator.history_),
        "best_epoch": int(estimator.best_epoch_),
        "blend": blend_of(estimator),
        "trials": estimator.trials_,
    }


def _draw(
    estimator: Any, judged: PredictionTable, names: dict[str, str], part: Dataset | None, folder: RunFolder
) -> list[str]:
    """Draw the pictures of a run; returns what could not be drawn."""
    draw_predictions(judged, folder.pictures, **names)
    if is_closed_form(estimator):
        return []
    if estimator.history_:  # nothing is trained where the closed form leaves nothing to gain
        draw_curves(estimator.history_, folder.pictures, blended=blend_of(estimator) is not None)
    if part is not None and not (part.series.lengths > 1).any():
        return ["No picture of windows, because every series has only one point."]
    if part is not None:
        draw_windows(estimator, part, folder.pictures)
    return []
