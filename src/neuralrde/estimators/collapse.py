"""Notices a classifier that has collapsed, which predicts one class for everything, and trains it again."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from ..paths import Windows
from ..processes import Processes
from ..training import AdamW, TrainingState, TrainingWarning, predict
from .run import Run

# A model that predicts one class this often, and whose loss is above this share of a constant prediction's.
_ONE_CLASS, _NO_BETTER = 0.98, 0.95
_RESTARTS = 2
# Of the optimizer: a shorter training has not had the time to learn.
_FEWEST_STEPS = 50


def restarted_if_collapsed(
    run: Run, windows: Windows, state: TrainingState
) -> tuple[TrainingState, list[dict[str, Any]]]:
    """The state, or that of another training if it has collapsed; and a record for each of several trainings.

    Another training begins from other weights, without weight decay, at half the rate. The one with the best monitored
    loss is kept.
    """
    tries, collapsed = [(run, state)], [_is_collapsed(run, windows, state)]
    while collapsed[-1] and len(tries) <= _RESTARTS and run.model is None and _can_be_gentler(run):
        last, budget = tries[-1][0].settings, run.settings.time_budget
        left = None if budget is None else budget - sum(one.seconds for _, one in tries)
        if left is not None and left <= 0:
            break
        settings = replace(last, optimizer=_gentler(last.optimizer), time_budget=left)
        warnings.warn(
            "The model predicts one class for nearly all series that it was trained on, and its loss is no better than "
            "that of a constant prediction. It is trained again from other weights, without weight decay, at a "
            f"learning rate of {settings.optimizer.learning_rate:g}.",
            TrainingWarning,
            stacklevel=4,
        )
        another = replace(run, settings=settings, seed=run.seed + len(tries))
        tries.append((another, another(windows)))
        collapsed.append(_is_collapsed(another, windows, tries[-1][1]))
    best = min(range(len(tries)), key=lambda i: tries[i][1].best_loss)
    if collapsed[best]:
        warnings.warn(
            "The model predicts one class for nearly all series that it was trained on: it has learned nothing that "
            "tells them apart. Look at the labels, try other depths and steps, or more `epochs`.",
            TrainingWarning,
            stacklevel=4,
        )
    if len(tries) == 1:  # whose optimizer may keep its learning rate to itself
        return state, []
    records = [
        {
            "learning_rate": float(one.settings.optimizer.learning_rate),
            "weight_decay": float(one.settings.optimizer.weight_decay),
            "epochs": state.epoch,
            "monitored": float(state.best_loss),
            "collapsed": collapsed[i],
            "kept": i == best,
        }
        for i, (one, state) in enumerate(tries)
    ]
    return tries[best][1], records


def _is_collapsed(run: Run, windows: Windows, state: TrainingState) -> bool:
    steps = state.epoch * -(-len(run.data.training) // run.settings.batch_size)
    if run.data.training.target.dtype.kind != "i" or not state.best_epoch or steps < _FEWEST_STEPS:
        return False
    examples = run.examples(state.best, run.data.training, windows)
    target, weight = np.asarray(examples.target), examples.weight
    weight = None if weight is None else np.asarray(weight)
    # Spares most trainings the predictions. An epoch's loss is that of weights on the move: the best epoch's alone may
    # be from before the collapse.
    losses = [state.history[epoch - 1]["loss"] for epoch in (state.best_epoch, state.epoch)]
    if max(losses) < 0.9 * constant_loss(target, weight):
        return False
    found = has_collapsed(predict(state.best, examples, mesh=run.mesh), target, weight)
    return Processes(run.mesh).agree(found)


def _can_be_gentler(run: Run) -> bool:
    return run.settings.optimizer.learning_rate is not None  # else it is inside an optimizer of Optax


def _gentler(optimizer: Any) -> Any:
    """Half the rate, and no weight decay."""
    changes = {"learning_rate": optimizer.learning_rate / 2}
    return replace(optimizer, **changes | ({"weight_decay": 0.0} if isinstance(optimizer, AdamW) else {}))


def has_collapsed(
    logits: Float[np.ndarray, "samples *cuts classes"],
    target: Int[np.ndarray, "samples *cuts"],
    weight: Float[np.ndarray, "samples"] | None = None,
) -> bool:
    """Whether predictions on the training set are nearly all one class, though the targets are not, and no better than
    a constant.

    >>> target = np.array([0, 1, 0, 1])
    >>> has_collapsed(np.zeros((4, 2)), target), has_collapsed(np.eye(2)[target], target)
    (True, False)
    """
    known = target >= 0
    predicted, classes = logits.argmax(-1)[known], target[known]
    share = np.bincount(predicted).max() / len(predicted)
    if share < _ONE_CLASS or share <= np.bincount(classes).max() / len(classes):
        return False
    losses = -np.take_along_axis(
        scipy.special.log_softmax(logits.astype(np.float64), axis=-1), np.maximum(target, 0)[..., None], axis=-1
    )[..., 0]
    weights = example_weights(target, weight)
    return bool((weights * losses)[known].sum() >= _NO_BETTER * constant_loss(target, weight))


def constant_loss(
    target: Int[np.ndarray, "samples *cuts"], weight: Float[np.ndarray, "samples"] | None = None
) -> float:
    """The cross-entropy of predicting the frequencies of the classes, whatever the series.

    >>> round(constant_loss(np.array([0, 0, 0, 1])), 3)
    0.562
    """
    known = target >= 0
    weights = example_weights(target, weight)[known]
    return float(scipy.special.entr(np.bincount(target[known], weights)).sum())


def example_weights(target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """How much each target counts in the loss, in all 1: examples by their weight, their known targets alike."""
    known = target >= 0
    own = np.ones(len(target)) if weight is None else np.asarray(weight, np.float64)
    own = own.reshape(-1, *[1] * (target.ndim - 1))
    counts = known.reshape(len(target), -1).sum(1).reshape(own.shape)
    weights = np.where(known, own / np.maximum(counts, 1), 0.0)
    return weights / weights.sum()
