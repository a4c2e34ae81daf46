"""A run: read and divide the data, train an estimator, judge it, and keep the outcome in a run folder.

With folds there are several trainings: one per fold, to judge, and one on everything, to keep. The series may be in a
store: then everything that needs whole series (folds, the closed form, a picture of windows) is left out.
"""

import inspect
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets import Dataset, Split
from ...datasets.dataset import PARTS
from ..assessment import Baseline, Training, TrainingTargets, assess, baselines, measures, trivial, verdict
from ..stores import Store, is_store
from .console import WRONG_USE, Refusal, count, how_stopped
from .evaluation import PredictionTable, floor_baseline, pooled, pooled_baselines, predictions_of, write_csv
from .inspect import task_hints
from .loading import divided, divided_for_all, divided_into_folds, open_store, targets, with_channels
from .proposal import group_hints, open_or_propose
from .report import (
    about_folds,
    about_training,
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
from .run_folder import RunFolder, write, write_json
from .settings import CLOSED_FORM, RunSettings, as_toml, blend_of, closed_form_for, estimator_for, resolve

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

    def fit(self, rows: Split, **options: Any) -> Any:
        """An estimator that was trained on the training rows."""
        from sklearn.base import clone

        estimator: Any = clone(self.estimator)
        if self.settings.closed_form:
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

    def baselines(self, train: np.ndarray, test: np.ndarray, lowest: "Floor | None") -> list[Baseline]:
        """The baselines for these rows: without whole series, only the trivial one."""
        if self.store is not None:
            return [trivial(TrainingTargets.of(self.data[train]), len(test))]
        found = baselines(self.data[train], self.data[test], seed=self.settings.seed)
        return found if lowest is None else [*found, floor_baseline(lowest.estimator, self.data[test])]


@dataclass(frozen=True)
class Floor:
    """The closed form, fitted on what a run may learn from, and the seconds that this took."""

    estimator: Any
    seconds: float


def train(
    settings: RunSettings,
    out: Path | None,
    *,
    resume: bool,
    plots: bool,
    say: Say,
    progress: str,
    tensorboard: bool,
    data: Dataset | None = None,
    listeners: Sequence[Any] = (),
    with_floor: bool = True,
) -> dict[str, Any]:
    """Train, judge, and write a run folder.

    A sweep has read the data already, listens to every epoch, and has the closed form as a run of its own.
    """
    # Data, and its parts.
    store = None
    if data is None and settings.data is not None and is_store(settings.data):
        store, data = open_store(settings)
        summary = repr(store)
    else:
        if data is None:
            data = open_or_propose(settings.data, settings.table, to_fit=True)
            settings = with_channels(settings, data)
        summary = data.summary()
    say(summary)
    y = targets(data)
    for hint in [] if store else (*task_hints(data, settings.table), *group_hints(data)):
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
    from ...devices import try_all_cores
    from ...training import EventFile, JSONLines
    from ...training.listeners import ProgressLines

    try_all_cores()
    all_listeners = [*listeners, *([JSONLines(sys.stderr)] if progress == "json" else [])]
    if progress == "bar" and not sys.stderr.isatty():
        all_listeners.append(ProgressLines(say))
    verbose = None if progress == "bar" else False
    run = Run(settings, estimator_for(settings, data), data, y, verbose, all_listeners, store)
    resumable = not (settings.closed_form or settings.folds)
    if resume and not resumable:
        raise Refusal(
            f"Got --resume with {'folds' if settings.folds else '--model closed-form'}; expected a single training, "
            "because that has one state to go on from. Run it again.",
            WRONG_USE,
        )

    with RunFolder.new(data.name, out, resume=resume) as folder:
        begin = (as_toml(resolve(settings, run.estimator, stored=store is not None)), data, rows, how_split)
        if not resume:  # a resumed run keeps its settings until the checkpoint is found to belong to these
            folder.begin(*begin)
        if tensorboard:
            run.listeners.append(EventFile(folder.path / "events"))
        lowest = None
        if with_floor and store is None and not settings.closed_form and not data.per_time:
            lowest = _keep_floor(run, rows, folder, say)
        if not settings.closed_form:
            say("  now the neural model, which is compiled first ...")

        # Training.
        begun = time.monotonic()
        try:
            folds = _cross_validate(run, splits, say, with_floor=lowest is not None) if splits else None
            estimator = run.fit(rows, **({"checkpoint": folder.checkpoint, "resume": resume} if resumable else {}))
        except KeyboardInterrupt as error:
            word, code = how_stopped(error)
            command = f"neuralrde fit --resume --out {shlex.quote(str(folder.path))}"
            raise Refusal(f"{word}." + (f" Go on with `{command}`." if resumable else ""), code) from None
        seconds = time.monotonic() - begun
        if resume:
            folder.begin(*begin)
        estimator.save(folder.model)

        # Judgement: on the test part, on the validation part if there is no other, or on all folds together.
        predicted = {part: run.predict(estimator, own) for part in PARTS if len(own := getattr(rows, part))}
        measured = {part: measures(table.known()) for part, table in predicted.items()}
        part = list(predicted)[-1]
        if folds is None:
            judged, where = predicted[part], f"{part.capitalize()} samples"
            beside = run.baselines(rows.train, getattr(rows, part), lowest)
        else:
            judged, beside, _ = folds
            part, where = "folds", "All samples, each tested in its fold"
        assessment = assess(judged.known(), beside, seed=settings.seed)
        closed = only_closed_form(blend_of(estimator))
        sentences = [*closed, *verdict(assessment, _training(run, estimator, {} if closed else measured))]
        result = {
            "estimator": type(estimator).__name__,
            **_about_model(run, estimator),
            "seconds": round(seconds, 2),
            "parts": measured,
            "assessment": as_json(assessment, sentences, part),
            "training_targets": asdict(TrainingTargets.of(data[rows.train])),
            **({} if lowest is None else {"closed_form": {"seconds": round(lowest.seconds, 2)}}),
            **({} if folds is None else {"folds": folds[2]}),
            **({} if store is None else {"store": store.fingerprint}),
        }
        if history := getattr(estimator, "history_", None):
            write(folder.history, "".join(json.dumps(record) + "\n" for record in history))
        write_json(folder.metrics, result)
        write_csv(judged, folder.predictions)
        said = [about_training(result)]
        said += [as_text(assessment, sentences, f"{where}, and what is reached without this model")]

        # The model is trained and saved: nothing that a picture or a page does may spoil that.
        if plots:
            target = settings.table.get("target")
            names = {"name": target if isinstance(target, str) else "target", "note": picture_note(assessment)}
            try:
                draw_predictions(judged, folder.pictures, **names)
                if history:  # nothing is trained where the closed form leaves nothing to gain
                    draw_curves(history, folder.pictures, blended=blend_of(estimator) is not None)
                test = data[getattr(rows, list(predicted)[-1])]
                if store is None and not settings.closed_form and (test.series.lengths > 1).any():
                    draw_windows(estimator, test, folder.pictures)
                elif store is None and not settings.closed_form:
                    said.append("No picture of windows, because every series has only one point.")
            except Exception as error:
                said.append(f"No pictures: {error}")
        try:
            write(folder.report, run_page(folder, summary, result))
        except Exception as error:
            said.append(f"No report: {error}")
        say("\n" + "\n\n".join(said) + f"\n\nRun folder: {folder.path}\nReport:     {folder.report}")
        return result | {"folder": str(folder.path)}


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
    if len(judged) and not run.settings.folds:
        values = measures(run.predict(lowest.estimator, judged).known())
        which = f"on {count(len(judged), 'test sample')}" if len(rows.test) else "on the validation part"
        say(f"  closed form, in {lowest.seconds:.1f} s: {metric_line(values)} {which}")
    return lowest


def _cross_validate(
    run: Run, splits: Sequence[Split], say: Say, *, with_floor: bool
) -> tuple[PredictionTable, list[Baseline], list[dict[str, Any]]]:
    """Train once per fold, and say how each went: all predictions, the baselines, and a row of metrics per fold."""
    predicted, beside, rows, metric = [], [], [], ""
    for split in splits:
        fold = run.predict(run.fit(split), split.test)
        lowest = floor(run.data, run.y, split, seed=run.settings.seed) if with_floor else None
        others = run.baselines(split.train, split.test, lowest)
        judged = assess(fold.known(), others, seed=run.settings.seed)
        metric = judged.metric
        predicted.append((fold, split.test))
        beside.append((others, split.test[fold.sample[fold.rows]]))
        values = {other.kind: values[metric] for other, values in judged.baselines}
        rows.append({"fold": len(rows) + 1, "samples": len(fold.rows), metric: judged.value, "baselines": values})
        say(f"  fold {len(rows)} of {run.settings.folds}: {metric_line({metric: judged.value})}")
    say("\n" + about_folds(rows, metric))
    return pooled(predicted), pooled_baselines(beside), rows


def _training(run: Run, estimator: Any, measured: dict[str, Any]) -> Training:
    """How the training went, for the verdict; without measures of what was learned from, nothing is said of it."""
    learned = {name: values for name, values in measured.items() if name != "test"}
    if run.settings.closed_form or not learned:
        return Training(epochs=0, best=0, out_of_time=False, parts={}, folds=run.settings.folds)
    history, budget = estimator.history_, estimator.time_budget
    return Training(
        epochs=len(history),
        best=int(estimator.best_epoch_),
        # A fifth of an epoch may have been left: training stops where one more would not fit.
        out_of_time=budget is not None and bool(history) and history[-1].get("seconds", 0.0) >= 0.8 * budget,
        parts=learned,
        folds=run.settings.folds,
    )


def _about_model(run: Run, estimator: Any) -> dict[str, Any]:
    from ...registry import to_plain

    if run.settings.closed_form:
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
    }
