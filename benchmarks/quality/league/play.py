"""Run classifiers on sets, and write a line about each run as soon as it is done."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from neuralrde.tools.assessment import Predictions, measures

from .classifiers import CLASSIFIERS, TAKES_TABLES, Absent, Outcome
from .damage import damaged
from .data import SPLITS, LeagueSet, load_set
from .lines import RESULTS, Line, append_line, code_tag, commit


def play(keys: Sequence[tuple], *, tag: str | None = None, path: Path = RESULTS) -> list[str]:
    """Run each (split, damage, seed, set, classifier). Returns what failed; the others go on."""
    tag = tag or code_tag()
    failed, absent = [], set()
    for number, (split, damage, seed, name, classifier) in enumerate(keys, start=1):
        if classifier in absent:
            continue
        label = f"[{number}/{len(keys)}] {name}, {classifier}, seed {seed}, damage {damage}, {split} split"
        try:
            line = run(prepared(name, split, damage, seed), classifier, seed)
        except Absent as error:
            absent.add(classifier)
            failed.append(f"{classifier} does not play: {error}")
            print(failed[-1], flush=True)
            continue
        except Exception as error:
            failed.append(f"{label}: {type(error).__name__}: {error}")
            print(failed[-1], flush=True)
            continue
        about = {"split": split, "damage": damage, "seed": seed, "set": name, "classifier": classifier}
        append_line({**about, **line, "tag": tag, "code": code_tag(), "commit": commit()}, path)
        seconds = f"{line['fit_seconds']:.2f} + {line['predict_seconds']:.2f} s"
        print(f"{label}: {line['accuracy']:.1%}, {seconds}", flush=True)
    return failed


@lru_cache(maxsize=2)
def prepared(name: str, split: str, damage: str, seed: int) -> LeagueSet:
    """A set, divided and then damaged in both parts; the classifiers that follow one another share it."""
    whole = SPLITS[split](load_set(name), seed)
    series = damaged(whole.series, damage, name=name, seed=seed)
    return LeagueSet(name, series, whole.labels, whole.train, whole.test, whole.static)


def run(data: LeagueSet, classifier: str, seed: int) -> Line:
    """Fit on the training part, predict the test part, and measure."""
    load = os.getloadavg()[0]
    train, test = data.series[data.train], data.series[data.test]
    beside = {}
    if data.static is not None:
        if classifier not in TAKES_TABLES:
            raise Absent("it takes no table beside the series")
        beside = {"static": (data.static.iloc[data.train], data.static.iloc[data.test])}
    found = CLASSIFIERS[classifier].run(train, data.labels[data.train], test, seed, **beside)
    return {
        **measured(found, data.labels[data.test]),
        **ranked(found, data.labels, data.test),
        "fit_seconds": round(found.fit_seconds, 4),
        "predict_seconds": round(found.predict_seconds, 4),
        **data.size,
        "versions": found.versions,
        "machine": machine(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "load": round(load, 1),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def measured(found: Outcome, true: np.ndarray) -> Line:
    """Accuracy, and the log loss where there are probabilities."""
    predictions = Predictions(
        np.asarray(true, str),
        np.asarray(found.predicted, str),
        np.arange(len(true)),
        probability=found.probability,
        classes=found.classes or None,
    )
    values = measures(predictions)
    return {"accuracy": values["accuracy"], "log_loss": values.get("log_loss")}


def ranked(found: Outcome, labels: np.ndarray, test: np.ndarray) -> Line:
    """How well probabilities of the rarer of two classes rank the test part: AUROC and average precision."""
    names, counts = np.unique(labels.astype(str), return_counts=True)
    if len(names) != 2 or found.probability is None:
        return {}
    from sklearn.metrics import average_precision_score, roc_auc_score

    rare = names[np.argmin(counts)]
    true, score = labels[test].astype(str) == rare, found.probability[:, found.classes.index(rare)]
    return {
        "auroc": float(roc_auc_score(true, score)),
        "average_precision": float(average_precision_score(true, score)),
    }


@cache
def machine() -> str:
    """Cores and processor, by which seconds are to be judged."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {models[0] if models else platform.machine()}"
