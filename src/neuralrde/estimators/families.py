"""Which model? Several families compared by cross-validation, under a time budget: what `model="auto"` does."""

import sys
import time
from typing import Any

import numpy as np
from sklearn.base import clone

from ..models import MODELS
from ..registry import Config
from .division import Samples, folds

FOLDS = 3
# What is compared: one of each kind, the default first. The others are special cases of these, or peers of the paper.
COMPARED = ("multi-scale-rde", "neural-rde", "log-ncde", "linear-rde", "oscillator-rde")
# After the first fold only the best go on: what is far behind on a third of the series does not win on all.
_FINALISTS = 2
# The smallest probability that counts, because one wrong series must not decide alone.
_LEAST = 1e-3


def is_auto(model: Any) -> bool:
    return isinstance(model, str) and model == "auto"


def choose_model(estimator: Any, samples: Samples, seed: int) -> tuple[Config, list[dict[str, Any]]]:
    """The model with the smallest loss on series that were left out, and a record of each that was tried.

    The loss is the log loss, or the squared error in units of the targets' variance. Half of a time budget is spent
    here, in equal parts. The closed form is compared too, as the floor: it cannot be chosen, but has a weight in
    the default.

    Args:
        estimator: with `model="auto"`; all its other parameters are those of the candidates, too.
        samples: the training set.
        seed: of the folds.
    """
    if estimator.per_time_:
        raise ValueError(
            'Got model="auto" and a target at every point; expected one target per series, because families are '
            f"compared by their predictions for whole series. Write one of {list(COMPARED)}."
        )
    begun, budget = time.monotonic(), estimator.time_budget
    fold = folds(samples.target, FOLDS, groups=samples.groups, shuffle=estimator.shuffle, seed=seed)
    records = [_closed_form(estimator, samples, fold)] if estimator.closed_form else []
    trials: dict[str, dict[str, Any]] = {}
    alive: list[str] = list(COMPARED)
    for number in range(FOLDS):
        for place, name in enumerate(alive):
            spent = time.monotonic() - begun
            if budget is not None and spent > budget / 2 and trials:
                break
            fits = len(alive) - place + (FOLDS - 1 - number) * min(len(alive), _FINALISTS)
            seconds = None if budget is None else max(1e-3, (budget / 2 - spent) / fits)
            loss = _loss(_candidate(estimator, name, seconds), estimator, samples, fold, number)
            _add(trials, name, loss, time.monotonic() - begun - spent)
        alive = sorted(trials, key=lambda name: trials[name]["loss"])[:_FINALISTS]
    # Those that were tried on all folds first.
    tried = sorted(trials.values(), key=lambda one: (-one["folds"], one["loss"]))
    _say(estimator, [*tried, *records])
    return Config(MODELS[tried[0]["model"]]), [*tried, *records]


def _add(trials: dict[str, dict[str, Any]], name: str, loss: float, seconds: float) -> None:
    """One more fold."""
    old = trials.get(name, {"loss": 0.0, "folds": 0, "seconds": 0.0})
    mean = (old["loss"] * old["folds"] + loss) / (old["folds"] + 1)
    trials[name] = {
        "model": name, "loss": mean, "folds": old["folds"] + 1, "seconds": round(old["seconds"] + seconds, 2)
    }  # fmt: skip


def _candidate(estimator: Any, name: str, seconds: float | None) -> Any:
    copy: Any = clone(estimator)
    return copy.set_params(model=name, time_budget=seconds, warm_start=False, verbose=False)


def _loss(candidate: Any, estimator: Any, samples: Samples, fold: np.ndarray, number: int) -> float:
    """A candidate's loss on one fold, fitted to the others."""
    known, new = samples[fold != number], samples[fold == number]
    candidate.fit(known.series, _as_given(estimator, known.target), known.weight, groups=known.groups)
    weight = None if new.weight is None else np.asarray(new.weight, np.float64)
    if estimator._task == "classification":
        probability = np.full((len(new), len(estimator.classes_)), _LEAST)
        probability[:, np.searchsorted(estimator.classes_, candidate.classes_)] = candidate.predict_proba(new.series)
        chosen = probability[np.arange(len(new)), new.target]
        return float(np.average(-np.log(np.maximum(chosen, _LEAST)), weights=weight))
    target = np.asarray(new.target, np.float64)
    missed = target - np.asarray(candidate.predict(new.series)).reshape(target.shape)
    spread = np.nanvar(np.asarray(samples.target, np.float64), axis=0)
    return float(np.average(np.nanmean(missed**2 / np.where(spread > 0, spread, 1.0), axis=1), weights=weight))


def _closed_form(estimator: Any, samples: Samples, fold: np.ndarray) -> dict[str, Any]:
    begun, closed = time.monotonic(), estimator._kind_inside()
    if estimator._task == "regression" and np.isnan(samples.target).any():
        return {"model": "closed-form", "loss": float("nan"), "folds": 0, "seconds": 0.0}
    losses = [_loss(closed(), estimator, samples, fold, number) for number in range(FOLDS)]
    seconds = round(time.monotonic() - begun, 2)
    return {"model": "closed-form", "loss": float(np.mean(losses)), "folds": FOLDS, "seconds": seconds}


def _as_given(estimator: Any, target: np.ndarray) -> np.ndarray:
    """Targets as a user gives them."""
    if estimator._task == "classification":
        return estimator.classes_[target]
    return target[:, 0] if estimator.one_dimensional_ else target


def _say(estimator: Any, trials: list[dict[str, Any]]) -> None:
    """What was found, where a progress bar would be shown."""
    if estimator.verbose is False or (estimator.verbose is None and not sys.stderr.isatty()):
        return
    for trial in trials:
        loss, number, seconds = trial["loss"], trial["folds"], trial["seconds"]
        print(f"{trial['model']}: loss {loss:.3f} on {number} of {FOLDS} folds, {seconds:.0f} s", file=sys.stderr)
