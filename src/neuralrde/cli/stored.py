"""`neuralrde fit STORE`: a run whose series are in a store, without what needs whole series."""

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..assessment import Training, TrainingTargets, assess, measures, trivial, verdict
from ..datasets import Dataset
from ..paths import Series
from ..registry import to_plain
from ..stores import Store
from .config import RunSettings, as_toml, estimator_of, resolve
from .dividing import divided
from .errors import INTERRUPTED, TERMINATED, WRONG_USE, Refusal, is_termination
from .judging import as_json, as_text, picture_note
from .pictures import draw_curves, draw_predictions
from .predictions import PredictionTable, is_classifier, write_csv
from .run_folder import PARTS, RunFolder
from .screen import count, number, table
from .workers import Worker


def train_from_store(
    settings: RunSettings,
    out: Path | None,
    *,
    resume: bool,
    plots: bool,
    say: Any,
    progress: str,
    tensorboard: bool,
    worker: Worker | None = None,
) -> dict[str, Any]:
    """Train, judge, and write a run folder. Of several processes the first does the writing and judging."""
    store, word = Store(str(settings.data)), str(settings.data)
    _check(settings, store)
    data = stand_in(store, Path(word.rstrip("/")).name)
    say(repr(store))
    rows, how_split = divided(data, settings.divide, settings.seed)
    say(f"  parts   train {len(rows.train)}, validation {len(rows.validation)}, test {len(rows.test)}: {how_split}")

    from ..devices import try_all_cores
    from ..estimators import NeuralRDEClassifier, NeuralRDERegressor
    from ..processes import Processes
    from ..training import EventFile, JSONLines

    try_all_cores()
    processes = Processes()
    kind = NeuralRDERegressor if store.classes is None else NeuralRDEClassifier
    estimator = estimator_of(kind, settings, random_state=settings.seed)
    listeners: list[Any] = [JSONLines(sys.stderr)] if progress == "json" else []
    with RunFolder.of_all(processes, data.name, out, resume=resume) as folder:
        if worker is not None:
            worker.tell(folder.path)
        path = str(Path(word).resolve()) if Path(word).exists() else word
        resolved = as_toml(resolve(replace(settings, data=path), estimator))
        if not resume and processes.is_first:
            folder.begin(resolved, data, rows, how_split)
        if tensorboard and processes.is_first:
            listeners.append(EventFile(folder.path / "events"))
        begun = time.monotonic()
        options = {"validation": store[rows.validation]} if len(rows.validation) else {}
        estimator.set_params(verbose=None if progress == "bar" else False)
        try:
            estimator.fit(
                store[rows.train], listeners=listeners, checkpoint=folder.checkpoint, resume=resume, **options
            )
        except KeyboardInterrupt as error:
            word, code = ("Terminated", TERMINATED) if is_termination(error) else ("Interrupted", INTERRUPTED)
            again = "" if worker is None else f" {worker.flags}"
            raise Refusal(f"{word}. Go on with `neuralrde fit --resume --out {folder.path}{again}`.", code) from None
        seconds = time.monotonic() - begun
        # All processes predict; the first one has the results.
        parts = {part: getattr(rows, part) for part in PARTS if len(getattr(rows, part))}
        found = {part: predictions_from_store(estimator, store[rows]) for part, rows in parts.items()}
        result: dict[str, Any] = {}
        if processes.is_first:
            if resume:
                folder.begin(resolved, data, rows, how_split)
            estimator.save(folder.model)
            targets = TrainingTargets.of(data[rows.train])
            result = _finish(settings, estimator, store, targets, found, folder, seconds, plots, say)
        processes.agree(None)  # until now the others have waited
        return result


def _check(settings: RunSettings, store: Store) -> None:
    wrong = None
    if settings.folds:
        wrong = "--folds", "one training"
    elif settings.closed_form:
        wrong = "--model closed-form", "a neural model, because the closed form needs whole series"
    elif settings.table:
        wrong = (
            f"--{next(iter(settings.table)).replace('_', '-')}",
            "it in `neuralrde prepare`, which has read the table",
        )
    elif store.task is None:
        wrong = "a store without a target", "one that was prepared with --target"
    if wrong is not None:
        raise Refusal(f"Got {wrong[0]} for a store; expected {wrong[1]}.", WRONG_USE)


def stand_in(store: Store, name: str) -> Dataset:
    """A data set with the store's ids, targets and groups, and one number in place of each series: to be divided."""
    series = Series.from_array(np.arange(float(len(store)))[:, None], ids=store.ids)
    target, classes = store.target, store.classes
    if target is not None and classes is None:
        target = np.asarray(target, np.float64)
        target = target[:, 0] if target.shape[1] == 1 else target
    names = None if classes is None else [str(one) for one in classes]
    return Dataset(series, target, task=store.task, classes=names, groups=store.groups, name=name)  # type: ignore


def predictions_from_store(model: Any, store: Store) -> PredictionTable:
    """A model's predictions for the series of a store, beside what is true."""
    probability = model.predict_proba(store) if is_classifier(model) else None
    predicted = model.predict(store) if probability is None else model.classes_[probability.argmax(axis=-1)]
    classes = None if probability is None else [str(name) for name in model.classes_]
    true = store.labels
    if true is not None and classes is not None:
        true, predicted = true.astype(str), predicted.astype(str)
    return PredictionTable(store.ids, np.arange(len(store)), None, predicted, probability, classes, true, store.groups)


def _finish(
    settings: RunSettings,
    estimator: Any,
    store: Store,
    targets: TrainingTargets,
    found: dict[str, PredictionTable],
    folder: RunFolder,
    seconds: float,
    plots: bool,
    say: Any,
) -> dict[str, Any]:
    measured = {part: measures(one.known()) for part, one in found.items()}
    last = list(found)[-1]
    judged = found[last]
    assessment = assess(judged.known(), [trivial(targets, len(judged.rows))], seed=settings.seed)
    budget = estimator.time_budget
    training = Training(
        epochs=len(estimator.history_),
        best=int(estimator.best_epoch_),
        searched=False,
        out_of_time=budget is not None and estimator.history_[-1].get("seconds", 0.0) >= 0.8 * budget,
        parts={name: values for name, values in measured.items() if name != "test"},
        folds=0,
    )
    sentences, windows = verdict(assessment, training), estimator.windows_
    result = {
        "estimator": type(estimator).__name__,
        "model": to_plain("model", estimator.config_)["name"],
        "depth": windows.depth,
        "scales": windows.scales,
        "step": windows.step,
        "every": windows.every,
        "epochs": len(estimator.history_),
        "best_epoch": int(estimator.best_epoch_),
        "seconds": round(seconds, 2),
        "parts": measured,
        "assessment": as_json(assessment, sentences, last),
        "training_targets": asdict(targets),
        "store": store.fingerprint,
    }
    folder.finish(estimator.history_, result)
    write_csv(judged, folder.predictions)
    if plots:
        draw_predictions(judged, folder.pictures, name="target", note=picture_note(assessment))
        draw_curves(estimator.history_, folder.pictures)
    names = list(next(iter(measured.values())))
    rows = [[part, *(number(values[name]) for name in names)] for part, values in measured.items()]
    said = [
        f"{result['estimator']}, {result['model']}, {windows!r}: {count(result['epochs'], 'epoch')} in {seconds:.0f} s",
        table(rows, header=["part", *names]),
        as_text(assessment, sentences, f"{last.capitalize()} samples, and what is reached without this model"),
    ]
    say("\n" + "\n\n".join(said) + f"\n\nRun folder: {folder.path}")
    return result | {"folder": str(folder.path)}
