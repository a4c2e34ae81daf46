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
from .answers import Answers, answers, pooled, write_csv
from .config import Settings, as_toml, check_model_names, resolve
from .describe import summary, task_hints
from .dividing import divided, divided_for_all, folds
from .errors import INTERRUPTED, TERMINATED, WRONG_USE, Refusal, is_termination
from .judging import as_json, as_text, picture_note, pooled_baselines
from .loading import open_data, targets, with_channels
from .pictures import draw_answers, draw_curves, draw_windows
from .run_folder import PARTS, RunFolder
from .screen import count, number, table
from .shell import in_flags

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What is trained on what."""

    settings: Settings
    kind: type
    data: Dataset
    y: np.ndarray
    verbose: bool
    listeners: list[Any]

    @property
    def searched(self) -> bool:
        """Whether depth or step are searched for."""
        return "auto" in (self.settings.model.get("depth"), self.settings.model.get("step"))

    def fit(self, rows: Split, **options: Any) -> Any:
        """An estimator that was trained on the training rows."""
        estimator: Any = self.kind(random_state=self.settings.seed, verbose=self.verbose, **self.settings.model)
        if len(rows.validation):
            options["validation"] = self.data[rows.validation].series, self.y[rows.validation]
        elif self.data.groups is not None and "groups" in inspect.signature(estimator.fit).parameters:
            options["groups"] = self.data.groups[rows.train]
        return estimator.fit(self.data[rows.train].series, self.y[rows.train], listeners=self.listeners, **options)


def train(
    settings: Settings,
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
    if settings.folds:
        rows, told = divided_for_all(data, settings.divide, settings.seed), f"{settings.folds} folds"
        splits, how = folds(data, settings.folds, settings.divide, settings.seed)
        say(f"  folds   {settings.folds}, {how}; then training on all of the data")
    else:
        rows, told = divided(data, settings.divide, settings.seed)
        say(f"  parts   train {len(rows.train)}, validation {len(rows.validation)}, test {len(rows.test)}: {told}")

    # Model. Loaded here and not above, because scikit-learn and diffrax would slow every --help down.
    from ..devices import try_all_cores
    from ..estimators import NeuralRDEClassifier, NeuralRDERegressor
    from ..training import EventFile, JSONLines

    try_all_cores()
    kind = NeuralRDERegressor if data.classes is None else NeuralRDEClassifier
    check_model_names(settings.model, kind)
    job = Job(settings, kind, data, y, progress == "bar", [JSONLines(sys.stderr)] if progress == "json" else [])
    once = job.searched or bool(settings.folds)
    if resume and once:
        what = "folds" if settings.folds else "depth or step auto"
        raise Refusal(
            f"Got --resume with {what}; expected a single training, because that has one state to go on from. Run it "
            "again"
            + ("." if settings.folds else ", or give --depth and --step as an earlier metrics.json names them."),
            WRONG_USE,
        )

    # Training. What is resumed keeps its own settings until the checkpoint is found to belong to these.
    with RunFolder.new(data.name, out, resume=resume) as folder:
        resolved = as_toml(resolve(settings, kind(**settings.model).get_params()))
        if not resume:
            folder.begin(resolved, data, rows, told)
        if tensorboard:
            job.listeners.append(EventFile(folder.path / "events"))
        begun = time.monotonic()
        try:
            cross = _cross_validated(job, splits, say) if settings.folds else None
            estimator = job.fit(rows, checkpoint=None if once else folder.checkpoint, resume=resume)
        except KeyboardInterrupt as error:
            hint = "" if once else f" Go on with `neuralrde fit --resume --out {folder.path}`."
            word, code = ("Terminated", TERMINATED) if is_termination(error) else ("Interrupted", INTERRUPTED)
            raise Refusal(f"{word}.{hint}", code) from None
        seconds = time.monotonic() - begun
        if resume:
            folder.begin(resolved, data, rows, told)
        estimator.save(folder.model)
        return _finish(job, folder, rows, estimator, cross, seconds=seconds, plots=plots, say=say)


def _finish(
    job: Job, folder: RunFolder, rows: Split, estimator: Any, cross: Any, *, seconds: float, plots: bool, say: Say
) -> dict[str, Any]:
    """What came out: metrics, a verdict, predictions, pictures."""
    parts = {part: job.data[getattr(rows, part)] for part in PARTS if len(getattr(rows, part))}
    found = {part: answers(estimator, data) for part, data in parts.items()}
    measured = {part: measures(one.known()) for part, one in found.items()}
    last = list(found)[-1]
    if cross is None:
        judged, beside = found[last], baselines(parts["train"], parts[last], seed=job.settings.seed)
        part, where = last, f"{last.capitalize()} samples"
    else:
        judged, beside, part, where = cross.found, cross.beside, "folds", "All samples, each tested in its fold"
    assessment = assess(judged.known(), beside, seed=job.settings.seed)
    budget = estimator.time_budget
    training = Training(
        epochs=len(estimator.history_),
        best=int(estimator.best_epoch_),
        searched=job.searched,
        # A fifth of an epoch may have been left: training stops where one more would not fit.
        out_of_time=budget is not None and estimator.history_[-1].get("seconds", 0.0) >= 0.8 * budget,
        parts={name: values for name, values in measured.items() if name != "test"},
        folds=job.settings.folds,
    )
    sentences = verdict(assessment, training)
    result = {
        "model": job.kind.__name__,
        "depth": int(estimator.depth_),
        "step": None if estimator.step_ is None else int(estimator.step_),
        "every": None if estimator.step_ is not None else float(estimator.cut_),
        "epochs": len(estimator.history_),
        "best_epoch": int(estimator.best_epoch_),
        "seconds": round(seconds, 2),
        "parts": measured,
        "assessment": as_json(assessment, sentences, part),
        "training_targets": asdict(TrainingTargets.of(parts["train"])),
        "trials": [_trial(trial) for trial in estimator.trials_],
    } | ({} if cross is None else {"folds": cross.rows})
    folder.finish(estimator.history_, result)
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


@dataclass(frozen=True)
class _Folds:
    found: Answers
    beside: list[Any]
    rows: list[dict[str, Any]]


def _cross_validated(job: Job, splits: Any, say: Say) -> _Folds:
    """Train once per fold; say how each went, and how much they differ."""
    found, beside, rows, metric = [], [], [], ""
    for split in splits:
        one = answers(job.fit(split), job.data[split.test])
        others = baselines(job.data[split.train], job.data[split.test], seed=job.settings.seed)
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


def _pictures(estimator: Any, judged: Answers, names: dict[str, str], part: Dataset, folder: RunFolder) -> list[str]:
    """Draw them; what could not be drawn is said."""
    try:
        draw_curves(estimator.history_, folder.pictures)
        draw_answers(judged, folder.pictures, **names)
        if (part.series.lengths > 1).any():
            draw_windows(estimator, part.series, folder.pictures)
        else:
            return ["No picture of windows, because every series has only one point."]
    except Exception as error:  # the model is trained and saved: nothing that a picture does may spoil that
        return [f"No pictures: {in_flags(str(error))}"]
    return []


def _trial(trial: dict[str, Any]) -> dict[str, Any]:
    """What was tried in a search, by its names."""
    what = trial["candidate"]
    named = dict(what) if isinstance(what, dict) else dict(zip(("depth", "step"), what, strict=False))
    named |= {name: value for name, value in trial.items() if name != "candidate"}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in named.items()}


def _trials(result: dict[str, Any]) -> str:
    """A row for each trial of a search; the one that was gone on with is marked."""
    trials = result["trials"]
    if not trials:
        return ""
    titles = {"loss": "validation loss", "epoch": "epochs"}
    chosen = min(trials, key=lambda trial: (-trial["epoch"], trial["loss"]))
    rows = [[*(number(value) for value in trial.values()), "chosen" if trial is chosen else ""] for trial in trials]
    header = [*(titles.get(name, name) for name in trials[0]), ""]
    return f"Search: {count(len(trials), 'trial')}\n" + table(rows, header=header)


def _summary(result: dict[str, Any]) -> str:
    cut = f"step {result['step']}" if result["step"] is not None else f"every {result['every']:g}"
    names = list(next(iter(result["parts"].values())))
    rows = [[part, *(number(values[name]) for name in names)] for part, values in result["parts"].items()]
    return (
        f"{result['model']}, depth {result['depth']}, {cut}: {count(result['epochs'], 'epoch')} in "
        f"{result['seconds']:.0f} s, the weights of epoch {result['best_epoch']} kept\n"
        + table(rows, header=["part", *(_title(name) for name in names)])
    )
