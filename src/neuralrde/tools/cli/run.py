"""A run: open and divide the data, fit an estimator, judge it, and write the outcome into a run folder.

With folds there are several trainings: one per fold, to judge, and one on everything, to keep. The series may be in a
store: then everything that needs whole series (folds, the closed form, a picture of windows) is left out.
"""

import inspect
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._write import Values
from ...datasets import Dataset, Split
from ...datasets.dataset import PARTS
from ..assessment import Assessment, Baseline, Training, TrainingTargets, assess, baselines, measures, trivial, verdict
from ..stores import Store, is_store
from .console import WRONG_USE, Refusal, count, how_stopped
from .evaluation import PredictionTable, closed_form_baseline, pooled, pooled_baselines, predictions_of, write_csv
from .inspect import task_hints
from .loading import divided, divided_for_all, divided_into_folds, open_store, targets, with_channels
from .proposal import group_hints, open_or_propose
from .report import (
    about_folds,
    about_training,
    as_json,
    as_text,
    draw_curves,
    draw_explanations,
    draw_predictions,
    draw_windows,
    metric_line,
    only_closed_form,
    picture_note,
    run_page,
)
from .run_folder import RunFolder, write, write_json
from .settings import CLOSED_FORM, RunSettings, as_toml, blend_of, closed_form_for, estimator_for, resolve

if TYPE_CHECKING:
    from ...training import Listener
    from .settings import ClosedFormEstimator, Estimator

Say = Callable[[str], None]
# The closed form beside a neural model stays cheap: it learns from this many series at most, drawn at random.
_MOST = 10_000


@dataclass(frozen=True)
class Output:
    """What a run shows while it goes on, and what it writes beside the model."""

    say: Say
    progress: str
    """One of "bar", "json" and "none"."""
    plots: bool


QUIET = Output(say=lambda text: None, progress="none", plots=False)


@dataclass(frozen=True)
class Run:
    """What is trained on what."""

    settings: RunSettings
    data: Dataset
    """The series and targets, or a stand-in for a store."""
    y: np.ndarray
    rows: Split
    """The parts of the training whose outcome is kept."""
    how_split: str = ""
    splits: list[Split] = field(default_factory=list)
    """The parts of each fold."""
    store: Store | None = None
    """The store that the series are in, if they are not in `data`."""
    summary: str = ""
    estimator: Any = None
    """Not fitted."""
    verbose: bool | None = False
    listeners: "Sequence[Listener]" = ()

    @property
    def resumable(self) -> bool:
        """Whether it is a single training, which has one state to go on from."""
        return not (self.settings.closed_form or self.settings.folds)

    @property
    def judged_part(self) -> str:
        """The test part, the validation part if there is no other, or else the training part."""
        return next(part for part in reversed(PARTS) if len(getattr(self.rows, part)))

    def fit(self, rows: Split, **options: Any) -> "Estimator":
        """An estimator that was trained on the training rows."""
        from sklearn.base import clone

        estimator: Any = clone(self.estimator)
        if self.settings.closed_form:
            return _fit_with_validation(estimator, self.data, self.y, rows)
        estimator.set_params(verbose=self.verbose)
        options["listeners"] = self.listeners
        if self.store is not None:
            if len(rows.validation):
                options["validation"] = self.store[rows.validation]
            return estimator.fit(self.store[rows.train], **options)
        training = self.data[rows.train]
        if self.data.static is not None:
            options["static"] = training.static
        if len(rows.validation):
            held_out = self.data[rows.validation]
            options["validation"] = held_out.series, self.y[rows.validation], None, held_out.static
        if self.data.groups is not None and "groups" in inspect.signature(estimator.fit).parameters:
            options["groups"] = self.data.groups[rows.train]
        return estimator.fit(training.series, self.y[rows.train], **options)

    def predict(self, estimator: "Estimator", rows: np.ndarray) -> PredictionTable:
        """An estimator's predictions for some of the samples."""
        return predictions_of(estimator, self.data[rows] if self.store is None else self.store[rows])

    def baselines(self, train: np.ndarray, test: np.ndarray, closed_form: "ClosedForm | None") -> list[Baseline]:
        """The baselines for these rows: without whole series, only the trivial one."""
        if self.store is not None:
            return [trivial(TrainingTargets.of(self.data[train]), len(test))]
        found = baselines(self.data[train], self.data[test], seed=self.settings.seed)
        return found if closed_form is None else [*found, closed_form_baseline(closed_form.estimator, self.data[test])]


class ClosedForm(NamedTuple):
    """The closed form that a neural model is compared with, and the seconds that its fit took."""

    estimator: "Estimator"
    seconds: float


class Folds(NamedTuple):
    """The predictions of all folds together, the baselines for them, and a row of metrics per fold."""

    predicted: PredictionTable
    baselines: list[Baseline]
    rows: list[Values]


class Trained(NamedTuple):
    """What the trainings of a run leave."""

    estimator: "Estimator"
    seconds: float
    closed_form: ClosedForm | None
    folds: Folds | None


class Judgement(NamedTuple):
    """How good the estimator is: the predictions that say so, the verdict, and what goes into metrics.json."""

    predicted: PredictionTable
    assessment: Assessment
    text: str
    result: Values


def train(
    settings: RunSettings,
    out: Path | None,
    output: Output,
    *,
    resume: bool = False,
    data: Dataset | None = None,
    listeners: "Sequence[Listener]" = (),
    with_closed_form: bool = True,
) -> Values:
    """Train, judge, and write a run folder.

    A sweep has read the data already, listens to every epoch, and has the closed form as a run of its own.
    """
    run = _open(settings, data, output.say)
    if resume and not run.resumable:
        raise Refusal(
            f"Got --resume with {'folds' if run.settings.folds else '--model closed-form'}; expected a single "
            "training, because that has one state to go on from. Run it again.",
            WRONG_USE,
        )
    # A refusal above comes before JAX is loaded.
    from ...devices import try_all_cores

    try_all_cores()
    run = replace(run, estimator=estimator_for(run.settings, run.data))
    with RunFolder.new(run.data.name, out, resume=resume) as folder:
        verbose = None if output.progress == "bar" else False
        run = replace(run, verbose=verbose, listeners=[*listeners, *_listeners(output)])
        fitted = _fit(run, folder, output.say, resume=resume, with_closed_form=with_closed_form)
        judged = _judge(run, fitted)
        said = _write(run, folder, fitted, judged, plots=output.plots)
        output.say("\n" + "\n\n".join(said) + f"\n\nRun folder: {folder.path}\nReport:     {folder.report}")
        return judged.result | {"folder": str(folder.path)}


def _open(settings: RunSettings, data: Dataset | None, say: Say) -> Run:
    """Read the data, refuse what cannot be trained on, and divide the rest. No estimator yet."""
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
    return Run(settings, data, y, rows, how_split, splits, store, summary)


def _listeners(output: Output) -> "list[Listener]":
    """What shows how the training goes: a log gets lines, and a terminal has the estimator's own bar."""
    from ...training import JSONLines
    from ...training.listeners import ProgressLines

    found: list[Listener] = [JSONLines(sys.stderr)] if output.progress == "json" else []
    if output.progress == "bar" and not sys.stderr.isatty():
        found.append(ProgressLines(output.say))
    return found


def _fit(run: Run, folder: RunFolder, say: Say, *, resume: bool, with_closed_form: bool) -> Trained:
    """Fit the closed form, then the estimator: in each fold, and on the rows whose outcome is kept."""
    begin = (as_toml(resolve(run.settings, run.estimator, stored=run.store is not None)), run.data, run.rows)
    if not resume:  # a resumed run keeps its settings until the checkpoint is found to belong to these
        folder.begin(*begin, run.how_split)
    closed_form, folds = None, None
    if with_closed_form and run.store is None and not run.settings.closed_form and not run.data.per_time:
        closed_form = _keep_closed_form(run, folder, say)
    if not run.settings.closed_form:
        say("  now the neural model, which is compiled first ...")
    begun = time.monotonic()
    try:
        if run.splits:
            folds = _cross_validate(run, say, with_closed_form=closed_form is not None)
        options = {"checkpoint": folder.checkpoint, "resume": resume} if run.resumable else {}
        estimator = run.fit(run.rows, **options)
    except KeyboardInterrupt as error:
        word, code = how_stopped(error)
        command = f"neuralrde fit --resume --out {shlex.quote(str(folder.path))}"
        raise Refusal(f"{word}." + (f" Go on with `{command}`." if run.resumable else ""), code) from None
    seconds = time.monotonic() - begun
    if resume:
        folder.begin(*begin, run.how_split)
    estimator.save(folder.model)
    return Trained(estimator, seconds, closed_form, folds)


def without_validation(rows: Split) -> Split:
    """Nothing is stopped and nothing is chosen by a validation part, so that it can be learned from."""
    return replace(rows, train=np.sort(np.concatenate([rows.train, rows.validation])), validation=rows.validation[:0])


def _fit_with_validation(
    estimator: "ClosedFormEstimator", data: Dataset, y: np.ndarray, rows: Split
) -> "ClosedFormEstimator":
    """Fit on the training and the validation part; samples of a group are left out together."""
    rows = without_validation(rows)
    training = data[rows.train]
    return estimator.fit(training.series, y[rows.train], groups=training.groups, static=training.static)


def fit_closed_form(data: Dataset, y: np.ndarray, rows: Split, *, seed: int) -> ClosedForm:
    """The closed form with its defaults, on the training and the validation part."""
    begun = time.monotonic()
    rows = without_validation(rows)
    if len(rows.train) > _MOST:
        some = np.random.default_rng(seed).choice(rows.train, _MOST, replace=False)
        rows = replace(rows, train=np.sort(some))
    fitted = _fit_with_validation(closed_form_for(data)(random_state=seed), data, y, rows)
    return ClosedForm(fitted, time.monotonic() - begun)


def _keep_closed_form(run: Run, folder: RunFolder, say: Say) -> ClosedForm | None:
    """Fit the closed form, keep it in the run's folder, and say what it reaches, before the training."""
    rows = run.rows
    try:
        closed_form = fit_closed_form(run.data, run.y, rows, seed=run.settings.seed)
    except ValueError as error:  # what it cannot learn from, a neural model may
        say(f"  closed form left out: {error}")
        return None
    if not folder.closed_form.exists():  # a run that is resumed has it, and may yet be refused
        closed_form.estimator.save(folder.closed_form)
    judged = rows.test if len(rows.test) else rows.validation
    if len(judged) and not run.settings.folds:
        values = measures(run.predict(closed_form.estimator, judged).known())
        which = f"on {count(len(judged), 'test sample')}" if len(rows.test) else "on the validation part"
        say(f"  closed form, in {closed_form.seconds:.1f} s: {metric_line(values)} {which}")
    return closed_form


def _cross_validate(run: Run, say: Say, *, with_closed_form: bool) -> Folds:
    """Train once per fold, and say how each went."""
    predicted, beside, rows, metric, seed = [], [], [], "", run.settings.seed
    for split in run.splits:
        fold = run.predict(run.fit(split), split.test)
        closed_form = fit_closed_form(run.data, run.y, split, seed=seed) if with_closed_form else None
        others = run.baselines(split.train, split.test, closed_form)
        judged = assess(fold.known(), others, seed=seed)
        metric = judged.metric
        predicted.append((fold, split.test))
        beside.append((others, split.test[fold.sample[fold.rows]]))
        values = {other.kind: values[metric] for other, values in judged.baselines}
        rows.append({"fold": len(rows) + 1, "samples": len(fold.rows), metric: judged.value, "baselines": values})
        say(f"  fold {len(rows)} of {run.settings.folds}: {metric_line({metric: judged.value})}")
    say("\n" + about_folds(rows, metric))
    return Folds(pooled(predicted), pooled_baselines(beside), rows)


def _judge(run: Run, fitted: Trained) -> Judgement:
    """Judge the estimator on the test part, on the validation part if there is no other, or on all folds together."""
    estimator, _, closed_form, folds = fitted
    predicted = {part: run.predict(estimator, own) for part in PARTS if len(own := getattr(run.rows, part))}
    measured = {part: measures(table.known()) for part, table in predicted.items()}
    if folds is None:
        part = run.judged_part
        judged, where = predicted[part], f"{part.capitalize()} samples"
        beside = run.baselines(run.rows.train, getattr(run.rows, part), closed_form)
    else:
        part, where = "folds", "All samples, each tested in its fold"
        judged, beside = folds.predicted, folds.baselines
    assessment = assess(judged.known(), beside, seed=run.settings.seed)
    alone = only_closed_form(blend_of(estimator))
    sentences = [*alone, *verdict(assessment, _training(run, estimator, {} if alone else measured))]
    result = {
        "estimator": type(estimator).__name__,
        **_about_model(estimator),
        "seconds": round(fitted.seconds, 2),
        "parts": measured,
        "assessment": as_json(assessment, sentences, part),
        "training_targets": asdict(TrainingTargets.of(run.data[run.rows.train])),
        **({} if closed_form is None else {"closed_form": {"seconds": round(closed_form.seconds, 2)}}),
        **({} if folds is None else {"folds": folds.rows}),
        **({} if run.store is None else {"store": run.store.fingerprint}),
    }
    text = as_text(assessment, sentences, f"{where}, and what is reached without this model")
    return Judgement(judged, assessment, text, result)


def _training(run: Run, estimator: "Estimator", measured: Values) -> Training:
    """How the training went, for the verdict; without measures of what was learned from, nothing is said of it."""
    from ...estimators import LogSignatureClassifier, LogSignatureRegressor

    learned = {name: values for name, values in measured.items() if name != "test"}
    if isinstance(estimator, LogSignatureClassifier | LogSignatureRegressor) or not learned:
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


def _about_model(estimator: "Estimator") -> Values:
    from ...estimators import LogSignatureClassifier, LogSignatureRegressor
    from ...registry import to_plain

    if isinstance(estimator, LogSignatureClassifier | LogSignatureRegressor):
        return {"model": CLOSED_FORM, "features": estimator.features_, "penalty": estimator.penalty_}
    windows = estimator.windows_
    return {
        "model": to_plain("model", estimator.config_)["name"],
        "depth": windows.depths if windows.whole else windows.depth,
        "scales": windows.scales,
        "lengths": windows.lengths,
        "step": windows.step,
        "every": windows.every,
        "epochs": len(estimator.history_),
        "best_epoch": int(estimator.best_epoch_),
        "blend": blend_of(estimator),
    }


def _write(run: Run, folder: RunFolder, fitted: Trained, judged: Judgement, *, plots: bool) -> list[str]:
    """Write history, metrics, predictions, pictures and the report, and return what there is to say."""
    if history := fitted.estimator.fitted_.history:
        write(folder.history, "".join(json.dumps(record) + "\n" for record in history))
    write_json(folder.metrics, judged.result)
    write_csv(judged.predicted, folder.predictions)
    said = [about_training(judged.result), judged.text]
    # The model is trained and saved: nothing that a picture or a page does may spoil that.
    if plots:
        try:
            said += _draw(run, folder, fitted.estimator, judged)
        except Exception as error:
            said.append(f"No pictures: {error}")
    try:
        write(folder.report, run_page(folder, run.summary, judged.result))
    except Exception as error:
        said.append(f"No report: {error}")
    return said


def _draw(run: Run, folder: RunFolder, estimator: "Estimator", judged: Judgement) -> list[str]:
    """Draw what there is to see, and return why something is left out."""
    target = run.settings.table.get("target")
    name, note = target if isinstance(target, str) else "target", picture_note(judged.assessment)
    draw_predictions(judged.predicted, folder.pictures, name=name, note=note)
    if history := estimator.fitted_.history:  # nothing is trained where the closed form leaves no error
        draw_curves(history, folder.pictures, blended=blend_of(estimator) is not None)
    if run.store is not None:
        return []
    test = run.data[getattr(run.rows, run.judged_part)]
    if run.settings.closed_form:  # at once; that of a neural model takes as long as some epochs
        if not run.splits:
            draw_explanations(estimator, test, judged.predicted, folder.pictures)
        return []
    if not (test.series.lengths > 1).any():
        return ["No picture of windows, because every series has only one point."]
    draw_windows(estimator, test, folder.pictures)
    return []
