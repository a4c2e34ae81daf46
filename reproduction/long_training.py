"""The protocols `logsig-ssm`, as that program trains and measures, and `defaults`, our estimators as they come."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from neuralrde import Config, LogSignatureClassifier, NeuralRDEClassifier
from neuralrde.datasets import Dataset, Split
from neuralrde.models import LogSigSSM
from neuralrde.signatures import log_signatures
from neuralrde.training import (
    CrossEntropy,
    Examples,
    Listener,
    OptaxOptimizer,
    Settings,
    TrainingState,
    accuracy,
    fit,
    predict,
    weights_of,
)

from .experiment import Experiment, Limits
from .long_settings import SERIES, SETTINGS, LongSettings, rule
from .results import Line


def unique(data: Dataset) -> Dataset:
    """Without the series that are there twice, and in the order that `np.unique` leaves, as theirs and Walker's."""
    _, rows = np.unique(data.series.values, axis=0, return_index=True)
    expected = SERIES.get(data.name, len(rows))
    if len(rows) != expected:
        raise ValueError(
            f"Got {data.name} with {len(rows)} different series of {len(data)}; expected {expected}, as in the "
            "published protocol. Is it the archive's file?"
        )
    return data[rows]


def mean_of_batches(outputs: np.ndarray, target: np.ndarray, batch: int, rng: np.random.Generator) -> float:
    """The mean of the accuracies of shuffled batches, the last of which is smaller: what LogSig-SSM reports.

    >>> right = np.eye(2)[[0] * 35 + [1]]  # 35 of 36: the mistake is worth 1/32 or 1/4 of a batch, half of that here
    >>> mean_of_batches(right, np.zeros(36, int), 32, np.random.default_rng(0))
    0.984375
    """
    order = rng.permutation(len(target))
    parts = [order[start : start + batch] for start in range(0, len(order), batch)]
    return float(np.mean([accuracy(outputs[rows], target[rows]) for rows in parts]))


def settings_of_results(experiment: Experiment, limits: Limits) -> dict[str, Any]:
    """The settings as results hold them."""
    if experiment.protocol == "defaults":
        return {}
    known = SETTINGS.get(experiment.dataset)
    every, most = limits.every or LongSettings.every, limits.most or LongSettings.most
    return ({"rule": "hundredths"} if known is None else known.as_json()) | {"every": every, "most": most}


def tokens_of(data: Dataset, split: Split, settings: LongSettings) -> np.ndarray:
    """Log-signatures at every `step` points, in float32: the raw channels, without time, and without the tail."""
    windows, values = settings.windows, data.series.values
    kept, found = (values.shape[1] - 1) // settings.step, []
    for path in values:
        looks: Any = {"lengths": windows.lengths, "whole": windows.whole}
        found.append(log_signatures(path.astype(np.float64), settings.depth, step=settings.step, **looks)[:kept])
    tokens = np.stack(found).astype(np.float32)
    if settings.standardise:
        # Over the token before the first window, too, which is zero.
        training = np.concatenate([np.zeros_like(tokens[:, :1]), tokens], axis=1)[split.train].reshape(
            -1, tokens.shape[2]
        )
        tokens = (tokens - training.mean(axis=0)) / (training.std(axis=0) + 1e-6)
    return tokens


def train_logsig_ssm(
    experiment: Experiment,
    limits: Limits,
    data: Dataset,
    split: Split,
    checkpoint: Path | None,
    listeners: Sequence[Listener] = (),
) -> Line:
    """Adam at a constant rate; after every so many steps a look at the validation set, which chooses the weights.

    As in that program a look that is as good as the best one counts as better, and validation and test are measured by
    the mean of batches, beside which the accuracy stands.
    """
    start, classes = time.monotonic(), data.classes or ()
    settings = SETTINGS.get(data.name) or rule(data.series.values.shape[1])
    settings = replace(settings, every=limits.every or settings.every, most=limits.most or settings.most)
    tokens, target = tokens_of(data, split, settings), np.asarray(data.target)
    seconds = time.monotonic() - start
    every = Examples((np.zeros((len(data), data.series.values.shape[2]), np.float32), tokens), target)
    train, validation, test = (every.take(rows) for rows in split)
    sizes = {name: getattr(settings, name) for name in ("width", "state", "blocks", "conv", "expand", "dropout")}
    key = jax.random.key(experiment.seed)
    model = LogSigSSM(data.series.values.shape[2], len(classes), **settings.windows.looks, **sizes, key=key)
    # A look comes after whole passes over the training set.
    passes = max(1, round(settings.every / -(-len(split.train) // settings.batch)))
    looks = -(-settings.most // settings.every)
    training = Settings(
        epochs=limits.epochs or passes * looks,
        batch_size=settings.batch,
        seed=experiment.seed,
        time_budget=limits.budget,
        optimizer=OptaxOptimizer(_adam(settings.rate)),
    )
    notes = None if checkpoint is None else checkpoint.with_suffix(".json")
    seen: dict[str, Any] = {"best": -1.0, "waited": 0, "epoch": 0, "looks": []}
    if notes is not None and notes.exists():
        seen = json.loads(notes.read_text("utf-8"))
    state: TrainingState | None = None
    stopped = "epochs"
    while True:
        until = min(seen["epoch"] + passes, training.epochs)
        how: Any = {"checkpoint": checkpoint, "resume": state is None, "listeners": listeners, "state": state}
        state = fit(model, train, loss=CrossEntropy(), settings=training, until=until, **how)
        if state.epoch < until:
            stopped = "budget" if limits.budget is not None and state.seconds >= limits.budget else "diverged"
            break
        look: dict[str, Any] = {"epoch": state.epoch}
        for name, part in (("validation", validation), ("test", test)):
            outputs, known = predict(state.model, part, batch=settings.batch), np.asarray(part.target)
            rng = np.random.default_rng([experiment.seed, state.epoch, name == "test"])
            look[name] = {
                "accuracy": accuracy(outputs, known),
                "mean_of_batches": mean_of_batches(outputs, known, settings.batch, rng),
            }
        better = look["validation"]["mean_of_batches"] >= seen["best"]
        seen = {
            "best": max(seen["best"], look["validation"]["mean_of_batches"]),
            "waited": 1 if better else seen["waited"] + 1,  # theirs counts the best one, too
            "epoch": state.epoch,
            "looks": [*seen["looks"], look],
            "chosen": look if better else seen["chosen"],
        }
        if notes is not None:
            notes.write_text(json.dumps(seen), "utf-8")
        if seen["waited"] > settings.patience:
            stopped = "patience"
        if stopped == "patience" or state.epoch >= training.epochs:
            break
    if notes is not None and stopped != "budget":
        notes.unlink(missing_ok=True)
    chosen = seen.get("chosen", {"epoch": 0, "validation": {}, "test": {}})
    return {
        "test": chosen["test"],
        "validation": chosen["validation"],
        "windows": int(tokens.shape[1]),
        "weights": int(sum(leaf.size for leaf in jax.tree.leaves(weights_of(state.model)))),
        "minutes": round((state.seconds + seconds) / 60, 3),
        "training_seconds": round(state.seconds, 2),
        "log_signature_seconds": round(seconds, 2),
        "epochs": state.epoch,
        "best_epoch": chosen["epoch"],
        "stopped": stopped,
    }


_OPTIMIZERS: dict[float, optax.GradientTransformation] = {}


def _adam(rate: float) -> optax.GradientTransformation:
    """One object per rate, because JAX compiles anew for a new one."""
    return _OPTIMIZERS.setdefault(rate, optax.adam(rate))


def train_defaults(experiment: Experiment, data: Dataset, split: Split) -> Line:
    """Our estimators as they come, fitted to training and validation part: they divide these as they like."""
    start, target = time.monotonic(), np.asarray(data.target)
    kinds: dict[str, Any] = {
        "closed-form": lambda: LogSignatureClassifier(random_state=experiment.seed),
        "neural": lambda: NeuralRDEClassifier(verbose=False, random_state=experiment.seed),
        "logsig-ssm": lambda: NeuralRDEClassifier(model=Config(LogSigSSM), verbose=False, random_state=experiment.seed),
    }
    known = np.concatenate([split.train, split.validation])
    estimator = kinds[experiment.model]().fit(data.series[known], target[known])
    found = float(np.mean(estimator.predict(data.series[split.test]) == target[split.test]))
    minutes = round((time.monotonic() - start) / 60, 3)
    return {"test": {"accuracy": found}, "validation": {}, "minutes": minutes, "epochs": 0, "stopped": "epochs"}
