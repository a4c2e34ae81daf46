"""The weights of the closed form and the ensemble in a prediction, as both earn them on series that were left out.

Every member of an ensemble has left out a part of the series, and ridge regression knows in closed form what it would
have predicted for each series without it. So there are honest predictions of both for all series, and none had to be
held out. Two numbers are chosen by them, which even a few series can decide.
"""

from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float, Int

from ..models import CrossFitted, out_of_fold
from ..processes import Processes
from ..training import CrossEntropy, Huber, SquaredError, TrainingState, predict
from .division import FEWEST_TO_DECIDE, Samples
from .file import made_of_parts
from .run import Run
from .sources import VersionOutputs

Outputs = Float[np.ndarray, "samples outputs"]

# What is believed about the factors before any series has been seen counts as much as so many series.
_PRIOR = 2.0
# An error of this share of the targets' spread is none.
_NO_ERROR = 1e-2
# For classes: the closed form as it is, because its logits are calibrated already, and of the ensemble what it earns.
_BEFORE = (1.0, 0.0)


def fit_blend(estimator: Any, run: Run, windows: Any, state: TrainingState, samples: Samples, closed: Any) -> None:
    """Learn `closed_form_` and `blend_`, and calibrate the estimator with predictions for series that were left out.

    A part without weight is not kept.

    Args:
        estimator: to learn them.
        run, windows, state: of the training of its ensemble.
        samples: the training set, not yet prepared.
        closed: the closed form, as `fitted_closed_form` gave it.
    """
    estimator.closed_form_, estimator.blend_ = None, [0.0, 1.0]
    fold = run.folds
    if not isinstance(state.model, CrossFitted) or fold is None or estimator.per_time_:
        return
    examples = run.examples(state.model.ensemble, run.data.training, windows)
    neural = out_of_fold(predict(state.model, examples, mesh=run.mesh), fold).astype(np.float64)
    beside = np.zeros_like(neural) if closed is None else left_out_by(closed)
    known = fold >= 0
    target, weight = samples.target[known], None if examples.weight is None else np.asarray(examples.weight)[known]
    fit = {"classification": class_weights, "regression": number_weights}[estimator._task]
    if isinstance(estimator.loss_, CrossEntropy) or closed is not None:
        keep_blend(estimator, run, closed, fit(beside[known], neural[known], target, weight))
    outputs = blended(beside, neural, estimator.blend_)[known]
    estimator._calibrate_with([VersionOutputs(outputs)], target, None if (g := samples.groups) is None else g[known])


def keep_blend(estimator: Any, run: Run, closed: Any, weights: list[float]) -> None:
    """Keep both parts with their weights, or the one that has any."""
    processes = Processes(run.mesh)
    if processes.count > 1:
        # Linear algebra may round differently on another machine: all processes keep what the first one has.
        parts, weights = processes.agree((None if closed is None else closed._parts_of_file("model"), weights))
        if parts is not None:
            header, arrays = parts
            closed = made_of_parts(type(closed), header, arrays, "model")
    estimator.blend_ = weights
    estimator.closed_form_ = closed if weights[0] > 0 else None
    if estimator._only_closed_form:
        estimator.model_ = None


def left_out_by(closed: Any) -> Outputs:
    """What the closed form puts out for each series of its training set, if it is left out of it; once."""
    # As many numbers as there are series: not for files.
    return closed.__dict__.pop("_left_out") * float(closed.model_.sharpness)


def blended(closed: Outputs, neural: Outputs, weights: Any) -> Outputs:
    """The outputs that a prediction is made of."""
    return weights[0] * closed + weights[1] * neural


def fitted_closed_form(estimator: Any, run: Run, samples: Samples) -> Any:
    """The estimator in closed form for the same series; None where it has no weight."""
    if run.folds is None or estimator.per_time_ or not samples.source.in_memory:  # it looks at series as a whole
        return None
    if not estimator.closed_form or not isinstance(estimator.loss_, CrossEntropy | SquaredError | Huber):
        return None
    target = samples.target if estimator._task == "regression" else estimator.classes_[samples.target]
    weight = run.weights(run.data.training)
    return estimator._kind_inside()().fit(samples.series, target, weight, groups=samples.groups)


def nothing_to_gain(closed: Any, samples: Samples) -> bool:
    """Whether the closed form is right about all series when they are left out, and there are enough to tell."""
    if closed is None or samples.units < FEWEST_TO_DECIDE:
        return False
    left_out, target = closed._left_out, samples.target
    if target.dtype.kind == "i":
        return bool((left_out.argmax(axis=1) == target).all())
    return bool((np.nanmean((left_out - target) ** 2, axis=0) <= _NO_ERROR**2 * np.nanvar(target, axis=0)).all())


def class_weights(
    closed: Outputs, neural: Outputs, target: Int[np.ndarray, "samples"], weight: Any = None
) -> list[float]:
    """The factors of both logits with the smallest log loss, none below zero; of few series, near (1, 0).

    >>> right, noise = np.eye(2)[[0, 1, 0, 1] * 25] * 4, np.random.default_rng(0).normal(size=(100, 2)) * 4
    >>> closed, neural = class_weights(right, noise, np.array([0, 1, 0, 1] * 25))
    >>> closed > 1 and neural < 0.2
    True
    """
    rows, total = np.arange(len(target)), len(target)
    used = closed.any()
    before = np.array(_BEFORE if used else (0.0, 1.0))

    def loss(factors: np.ndarray) -> float:
        logits = blended(closed, neural, factors)
        losses = scipy.special.logsumexp(logits, axis=1) - logits[rows, target]
        prior = _PRIOR / total * ((factors - before) ** 2).sum()
        return float(np.average(losses, weights=weight) + prior)

    bounds = [(0.0, 4.0 if used else 0.0), (0.0, 4.0)]
    return [float(one) for one in scipy.optimize.minimize(loss, before, bounds=bounds).x]


def number_weights(closed: Outputs, neural: Outputs, target: Outputs, weight: Any = None) -> list[float]:
    """The shares of both predictions, in all 1, with the smallest squared error, in units of each output's spread.

    >>> target = np.arange(100.0)[:, None]
    >>> [round(share, 1) for share in number_weights(target, target + 50.0 * (-1.0) ** target, target)]
    [1.0, 0.0]
    """
    spread, known = np.nanstd(target, axis=0), ~np.isnan(target)
    spread = np.where(spread > 0, spread, 1.0)
    apart, missed = (np.where(known, one / spread, 0.0) for one in (neural - closed, target - closed))
    weight = np.ones(len(target)) if weight is None else np.asarray(weight, np.float64) / np.mean(weight)
    # Least squares in one number, between 0 and 1, drawn towards one half by as much as a few series would.
    size = _PRIOR * float((apart**2).mean(axis=0).sum())
    sums = float((weight[:, None] * apart * missed).sum()), float((weight[:, None] * apart**2).sum())
    share = float(np.clip((sums[0] + size / 2) / (sums[1] + size), 0.0, 1.0)) if size > 0 else 0.5
    return [1.0 - share, share]
