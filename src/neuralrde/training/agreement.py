"""What several processes make sure of before they train together: the same training, from the same state."""

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..processes import Processes
from .checkpoint import ADDRESS, load_checkpoint
from .state import Settings, TrainingState

_TREES = ("model", "optimizer", "best")
# Other machines may round log-signatures differently; other data differ by more.
_ROUNDING = 1e-3


def same_training(
    processes: Processes, settings: Settings, state: TrainingState, training: Any, validation: Any
) -> Settings:
    """The first process's settings. Raises in all processes if one of them would train something else.

    Whether all data are the same is not looked at: only their number, and the first and last of them.
    """
    own = {
        "settings": ADDRESS.sub("", repr(replace(settings, time_budget=None))),
        "model": str([(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(eqx.filter(state.model, eqx.is_array))]),
        "number of epochs done": state.epoch,
        "number of training examples": len(training),
        "number of validation examples": 0 if validation is None else len(validation),
    }
    ends = {"training examples": _ends(training), "validation examples": _ends(validation)}
    # A clock may have set the budget. So it is the first process's, which decides when time is up.
    theirs, their_ends, budget = processes.agree((own, ends, settings.time_budget))
    differing = [name for name, value in own.items() if value != theirs[name]]
    differing += [name for name, value in ends.items() if not _alike(value, their_ends[name])]
    # Which process it was, and what it has, only that one knows; that something is wrong, all must know.
    (wrong,) = processes.sum(bool(differing))
    if wrong:
        told = f"another {differing[0]} than in the first one" if differing else "the same as in the first one"
        raise ValueError(
            f"Got {int(wrong)} of {processes.count} processes whose arguments differ from the first one's (in process "
            f"{jax.process_index()}: {told}); expected the same model, data and settings in all, because each takes "
            "its own rows of every batch by itself. Give every process all of the data, and the same seed."
        )
    return replace(settings, time_budget=budget)


def agreed_state(
    processes: Processes, state: TrainingState, checkpoint: str | os.PathLike | None, fingerprint: str
) -> TrainingState:
    """The state to go on from: that of the checkpoint, if there is one, as the first process reads it.

    Weights that were drawn or fitted on another kind of machine may differ in their last bits: all begin with those
    of the first.
    """

    def of_first() -> Any:
        found = state
        if checkpoint is not None and Path(checkpoint).exists():
            found = load_checkpoint(checkpoint, state, fingerprint=fingerprint)
        return found if processes.count == 1 else _plain(found)

    found = processes.from_first(of_first)
    return found if processes.count == 1 else _rebuilt(state, *found)


def _plain(state: TrainingState) -> tuple[list[list[np.ndarray]], dict[str, Any]]:
    """The state's numbers, without the functions that a model may hold."""
    arrays = [[np.asarray(leaf) for leaf in _arrays(getattr(state, tree))] for tree in _TREES]
    return arrays, {field.name: getattr(state, field.name) for field in fields(state) if field.name not in _TREES}


def _rebuilt(state: TrainingState, arrays: list[list[np.ndarray]], others: dict[str, Any]) -> TrainingState:
    trees = {}
    for name, found in zip(_TREES, arrays, strict=True):
        dynamic, rest = eqx.partition(getattr(state, name), eqx.is_array)
        leaves = [jax.numpy.asarray(leaf) for leaf in found]
        trees[name] = eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), leaves), rest)
    return replace(state, **trees, **others)


def _arrays(tree: Any) -> list[Any]:
    return jax.tree.leaves(eqx.filter(tree, eqx.is_array))


def _ends(examples: Any) -> list[np.ndarray]:
    """The first and the last example, of what can be looked at without computing an epoch."""
    if not hasattr(examples, "take"):
        return []
    return [np.asarray(leaf) for leaf in jax.tree.leaves(examples.take(np.array([0, len(examples) - 1])))]


def _alike(own: list[np.ndarray], theirs: list[np.ndarray]) -> bool:
    close = lambda a, b: a.shape == b.shape and np.allclose(a, b, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
    return len(own) == len(theirs) and all(map(close, own, theirs))
