"""A run: data, model, training, and what came out of it. Or several trainings, one per fold, and one on everything."""

import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..assessment import Training, TrainingTargets, assess, baselines, measures, verdict
from ..datasets import Dataset, Split
from ..registry import to_plain
from .closed_form import Floor, fit_rows, floor, is_closed_form, kind_for, without_validation
from .config import CLOSED_FORM, RunSettings, as_toml, estimator_of, resolve
from .describe import summary, task_hints
from .dividing import divided, divided_for_all, folds
from .errors import INTERRUPTED, TERMINATED, WRONG_USE, Refusal, is_termination
from .judging import as_json, as_text, picture_note, pooled_baselines
from .loading import open_data, targets, with_channels
from .pictures import draw_curves, draw_predictions, draw_windows
from .predictions import PredictionTable, pooled, predictions_of, write_csv
from .run_folder import PARTS, RunFolder
from .screen import count, number, table
from .shell import in_flags

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What is trained on what."""

    settings: RunSettings
    estimator: Any
    data: Dataset
    y: np.ndarray
    verbose: bool | None
    listeners: list[Any]

    @property
    def closed_form(self) -> bool:
        """Whether nothing is trained."""
        return is_closed_form(self.estimator)

    @property
    def searched(self) -> bool:
        """Whether windows are searched for, or models compared."""
        if self.closed_form:
            return False
        return self.estimator._part("windows").searched or self.settings.compared

    def fit(self, rows: Split, **options: Any) -> Any:
        """An estimator that was trained on the training rows."""
        from sklearn.base import clone

        estimator: Any = clone(self.estimator)
        if self.closed_form:
            return fit_rows(estimator, self.data, self.y, rows)
        estimator.set_params(verbose=self.verbose)
        if len(rows.validation):
            options["validation"] = self.data[rows.validation].series, self.y[rows.validation]
        elif self.data.groups is not None and "groups" in inspect.signature(estimator.fit).parameters:
            options["groups"] = self.data.groups[rows.train]
        return estimator.fit(self.data[rows.train].series, self.y[rows.train], listeners=self.listeners, **options)


def train(
    settings: RunSettings,
    out: Path | None,
    *,
    resume: bool,
    plots: bool,
    say: Say,
    progress: str,
    tensorboard: bool,
) -> dict[str, Any]:
    """Train, judge, and write a run folder."""
    # Data, and its parts.
    data = open_data(settings.data, settings.table)
    settings = with_channels(settings, data)
    y = targets(data)
    say(summary(data))
    for hint in task_hints(data, settings.table):
        say(f"  note    {hint}")
    if settings.closed_form and data.per_time:
        raise Refusal(
            "Got a target for each point with --model closed-form; expected one for each series, because the closed "
            "form looks at series as a whole. Leave --model out.",
            WRONG_USE,
        )
    if settings.folds:
        rows, how_split = divided_for_all(data, settings.divide, settings.seed), f"{settings.folds} folds"
        splits, how = folds(data, settings.folds, settings.divide, settings.seed)
        say(f"  folds   {settings.folds}, {how}; then training on all of the data")
    else:
        rows, how_split = divided(data, settings.divide, settings.seed)
        say(f"  parts   train {len(rows.train)}, validation {len(rows.validation)}, test {len(rows.test)}: {how_split}")
    if settings.closed_form:
        rows = without_validation(rows)

    # Model. Loaded here and not above, because scikit-learn and diffrax would slow every --help down.
    from ..devices import try_all_cores
    from ..estimators import NeuralRDEClassifier, NeuralRDERegressor
    from ..training import EventFile, JSONLines

    try_all_cores()
    neural = NeuralRDERegressor if data.classes is None else NeuralRDEClassifier
    kind = kind_for(data) if settings.closed_form else neural
    job = Job(
        settings,
        estimator_of(kind, settings, random_state=settings.seed),
        data,
        y,
        None if progress == "bar" else False,
        [JSONLines(sys.stderr)] if progress == "json" else [],
    )
    once = job.searched or job.closed_form or bool(settings.folds)
    if resume and once:
        what = "folds" if settings.folds else "--model closed-form" if job.closed_form else "depth, step or model auto"
        raise Refusal(
            f"Got --resume with {what}; expected a single training, because that has one state to go on from. Run it "
            "again"
            + (
                "."
                if settings.folds or job.closed_form
                else ", or give --model, --depth and --step as an earlier metrics.json names them."
            ),
            WRONG_USE,
        )

    # Training. What is resumed keeps its own settings until the checkpoint is found to belong to these.
    with RunFolder.new(data.name, out, resume=resume) as folder:
        resolved = as_toml(resolve(settings, job.estimator))
        if not resume:
            folder.begin(resolved, data, rows, how_split)
        if tensorboard:
            job.listeners.append(EventFile(folder.path / "events"))
        lowest = None if job.closed_form or data.per_time else _floor(job, rows, folder, say)
        begun = time.monotonic()
        try:
            cross = _cross_validated(job, splits, say, with_floor=lowest is not None) if settings.folds else None
            options = {} if once else {"checkpoint": folder.checkpoint, "resume": resume}
            estimator = job.fit(rows, **options)
        except KeyboardInterrupt as error:
            hint = "" if once else f" Go on with `neuralrde fit --resume --out {folder.path}`."
            word, code = ("Terminated", TERMINATED) if is_termination(error) else ("Interrupted", INTERRUPTED)
            raise Refusal(f"{word}.{hint}", code) from None
        seconds = time.monotonic() - begun
        if resume:
            folder.begin(resolved, data, rows, how_split)
        estimator.save(folder.model)
        return _finish(job, folder, rows, estimator, lowest, cross, seconds=seconds, plots=plots, say=say)


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
    values = measures(predictions_of(found.estimator, job.data[judged]).known())
    metric = "accuracy" if job.data.classes is not None else "rmse"
    which = f"on {count(len(judged), 'test sample')}" if len(rows.test) else "on the validation part"
    say(f"  closed form, in {found.seconds:.1f} s: {_title(metric)} {number(values[metric])} {which}")
    say("  now the neural model ...")
    return found


def _finish(
    job: Job,
    folder: RunFolder,
    rows: Split,
    estimator: Any,
    lowest: Floor | None,
    cross: Any,
    *,
    seconds: float,
    plots: bool,
    say: Say,
) -> dict[str, Any]:
    """What came out: metrics, a verdict, predictions, pictures."""
    parts = {part: job.data[getattr(rows, part)] for part in PARTS if len(getattr(rows, part))}
    found = {part: predictions_of(estimator, data) for part, data in parts.items()}
    measured = {part: measures(one.known()) for part, one in found.items()}
    last = list(found)[-1]
    if cross is None:
        judged, beside = found[last], baselines(parts["train"], parts[last], seed=job.settings.seed)
        beside += [] if lowest is None else [lowest.baseline(parts[last])]
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
        "training_targets": asdict(TrainingTargets.of(parts["train"])),
    }
    if lowest is not None:
        result["closed_form"] = {"seconds": round(lowest.seconds, 2)}
    if cross is not None:
        result["folds"] = cross.rows
    folder.finish([] if job.closed_form else estimator.history_, result)
    write_csv(judged, folder.predictions)
    said = [
        _trials(result),
        _summary(result),
        as_text(assessment, sentences, f"{where}, and what is reached without this model"),
    ]
    if plots:
        target = job.settings.table.get("target")
        names = {"name": target if isinstance(target, str) else "target", "note": picture_note(assessment)}
        said += _pictures(estimator, judged, names, parts[last], folder)
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
    found: PredictionTable
    beside: list[Any]
    rows: list[dict[str, Any]]


def _cross_validated(job: Job, splits: Any, say: Say, *, with_floor: bool) -> _Folds:
    """Train once per fold; say how each went, and how much they differ."""
    found, beside, rows, metric = [], [], [], ""
    for split in splits:
        one = predictions_of(job.fit(split), job.data[split.test])
        others = baselines(job.data[split.train], job.data[split.test], seed=job.settings.seed)
        if with_floor:
            others.append(floor(job.data, job.y, split, seed=job.settings.seed).baseline(job.data[split.test]))
        judged = assess(one.known(), others, seed=job.settings.seed)
        metric = judged.metric
        found.append((one, split.test))
        beside.append((others, split.test[one.sample[one.rows]]))
        values = {other.kind: values[metric] for other, values in judged.baselines}
        rows.append({"fold": len(rows) + 1, "samples": len(one.rows), metric: judged.value, "baselines": values})
        say(f"  fold {len(rows)} of {job.settings.folds}: {_title(metric)} {number(judged.value)}")
    say("\n" + _folds_table(rows, metric))
    return _Folds(pooled(found), pooled_baselines(beside), rows)


def _folds_table(rows: list[dict[str, Any]], metric: str) -> str:
    kinds = [kind for kind in rows[0]["baselines"] if all(kind in row["baselines"] for row in rows)]
    values = [[row[metric], *(row["baselines"][kind] for kind in kinds)] for row in rows]
    body = [[row["fold"], row["samples"], *map(number, own)] for row, own in zip(rows, values, strict=True)]
    mean, spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
    body.append(["mean", "", *(f"{number(float(m))} ± {s:.2g}" for m, s in zip(mean, spread, strict=True))])
    return table(body, header=["fold", "samples", _title(metric), *kinds])


def _title(metric: str) -> str:
    return {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "macro_f1": "macro F1"}.get(metric, metric.replace("_", " "))


def _pictures(
    estimator: Any, judged: PredictionTable, names: dict[str, str], part: Dataset, folder: RunFolder
) -> list[str]:
    """Draw them; what could not be drawn is said."""
    try:
        draw_predictions(judged, folder.pictures, **names)
        if is_closed_form(estimator):
            return []
        draw_curves(estimator.history_, folder.pictures)
        if (part.series.lengths > 1).any():
            draw_windows(estimator, part.series, folder.pictures)
        else:
            return ["No picture of windows, because every series has only one point."]
    except Exception as error:  # the model is trained and saved: nothing that a picture does may spoil that
        return [f"No pictures: {in_flags(str(error))}"]
    return []


def _trials(result: dict[str, Any]) -> str:
    """A row for each trial: of models, the best first, and then of windows; what was gone on with is marked."""
    every, texts = result.get("trials") or [], []
    titles = {"loss": "validation loss", "epoch": "epochs"}
    for models in (True, False):
        trials = [trial for trial in every if ("model" in trial) == models]
        if not trials:
            continue
        chosen = trials[0] if models else min(trials, key=lambda trial: (-trial["epoch"], trial["loss"]))
        shown = lambda value: value if isinstance(value, str) else number(value)
        rows = [[*(shown(value) for value in trial.values()), "chosen" if trial is chosen else ""] for trial in trials]
        header = [*(titles.get(name, name) for name in trials[0]), ""]
        what = "Models" if models else "Search"
        texts.append(f"{what}: {count(len(trials), 'trial')}\n" + table(rows, header=header))
    return "\n\n".join(texts)


def _summary(result: dict[str, Any]) -> str:
    names = list(next(iter(result["parts"].values())))
    rows = [[part, *(number(values[name]) for name in names)] for part, values in result["parts"].items()]
    if result["model"] == CLOSED_FORM:
        how = f"{result['features']:,} features, penalty {result['penalty']:.3g}, in {result['seconds']:.1f} s"
    else:
        cut = f"step {result['step']}" if result["step"] is not None else f"every {result['every']:g}"
        how = (
            f"{result['model']}, depth {result['depth']}, {cut}: {count(result['epochs'], 'epoch')} in "
            f"{result['seconds']:.0f} s, the weights of epoch {result['best_epoch']} kept"
        )
    return f"{result['estimator']}, {how}\n" + table(rows, header=["part", *(_title(name) for name in names)])
