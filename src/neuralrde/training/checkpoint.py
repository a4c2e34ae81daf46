"""A training as data: settings, the state between two epochs, checkpoints, and what several processes begin with."""

import math
import os
import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax

from .._types import Model, Record, State
from .._write import digest_of, private_folder
from ..frozen import weights_of
from ..paths.checks import check_number, check_whole
from ..processes import Processes
from ..registry import make
from .archive import FileRefused, arrays_of, read_archive, with_arrays, write_archive
from .augmentation import RandomChoice
from .examples import Source
from .optimizers import AdamW


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train.

    Args:
        epochs: the largest number of passes over the training set.
        batch_size: examples per step.
        optimizer: `AdamW(...)`, or any of Optax's, such as `optax.lion(1e-4)`.
        patience: epochs without a better monitored loss after which training stops; None never stops early.
            The monitored loss is the validation set's, or without one the training set's. Either way the
            weights that had the best one are kept.
        seed: decides the order of examples. The same seed gives the same weights, bit for bit, on the same number of
            devices of one kind; on another number sums are rounded differently, and training amplifies the difference.
        time_budget: seconds after which training stops, at the end of an epoch; None for no limit. Runs stopped by
            a time budget are not reproducible.
        save_every: seconds between checkpoints, of which the first is written after the first epoch.

    >>> Settings(epochs=20, optimizer=AdamW(learning_rate=1e-3)).batch_size
    32
    """

    epochs: int = 100
    batch_size: int = 32
    optimizer: Any = field(default_factory=AdamW)
    patience: int | None = None
    seed: int = 0
    time_budget: float | None = None
    save_every: float = 30.0

    def __post_init__(self):
        object.__setattr__(self, "optimizer", make("optimizer", self.optimizer))
        for name in ("epochs", "batch_size"):
            check_whole(name, getattr(self, name), high=math.inf)
        for name in ("patience", "time_budget"):
            check_number(name, getattr(self, name), above=True, also=(None,))


@dataclass(frozen=True)
class TrainingState:
    """The state of a training: it is checkpoint, starting point of a resume, and result.

    An epoch makes a new state from an old one, so a failed epoch is undone by keeping the old state.
    """

    model: Model
    """The weights as they are now; `best` is what training is for."""
    optimizer: State
    best: Model
    """The model with the lowest monitored loss so far."""
    best_loss: float = math.inf
    best_epoch: int = 0
    epoch: int = 0
    """Epochs done."""
    rate_factor: float = 1.0
    """What the learning rate is multiplied by; halved each time a loss was not finite."""
    failures: int = 0
    """Losses that were not finite since the last good epoch."""
    seconds: float = 0.0
    """Time spent training, over all resumes."""
    history: tuple[Record, ...] = ()
    """One record for each epoch."""

    @classmethod
    def start(cls, model: Model, optimizer: optax.GradientTransformation) -> "TrainingState":
        # One program instead of one for every shape.
        return cls(model, eqx.filter_jit(optimizer.init)(weights_of(model)), model)

    def after(self, model: Model, optimizer: State, record: Record) -> "TrainingState":
        """The state one epoch later; the record says the monitored loss and the seconds so far."""
        epoch, best = self.epoch + 1, {}
        if record["monitored"] < self.best_loss:
            best = {"best": model, "best_loss": record["monitored"], "best_epoch": epoch}
        history, seconds = (*self.history, record), record["seconds"]
        done = {"model": model, "optimizer": optimizer, "epoch": epoch, "history": history, "seconds": seconds}
        return replace(self, failures=0, **done, **best)

    @property
    def waited(self) -> int:
        """Epochs since the best."""
        return self.epoch - self.best_epoch


# 2: weight_decay is the total over a training.
_FORMAT = 2
_TREES = ("model", "optimizer", "best")
_COUNTS = ("best_epoch", "epoch", "failures")
_NUMBERS = ("best_loss", "rate_factor", "seconds")
# A training may go on for longer, or save more often, and is still the same training.
_FREE = ("save_every", "time_budget")
# In the text of a function: another in every process.
ADDRESS = re.compile(" at 0x[0-9a-f]+")


class TrainingWarning(UserWarning):
    """Training had to be rescued, or a checkpoint could not be written."""


def save_checkpoint(path: str | os.PathLike, state: TrainingState, *, fingerprint: str) -> None:
    """Write the state, atomically; the fingerprint says which training it belongs to."""
    arrays, header = _packed(state)
    header = {"fingerprint": fingerprint, **header}
    private_folder(Path(path).parent)
    write_archive(path, "checkpoint", format=_FORMAT, header=header, arrays=arrays)


def load_checkpoint(path: str | os.PathLike, start: TrainingState, *, fingerprint: str) -> TrainingState:
    """The saved state. `start` is the initial state of the same training, and defines the structure."""
    header, arrays = read_archive(path, "checkpoint", format=_FORMAT)
    if header.get("fingerprint") != fingerprint:
        raise FileRefused(
            f"Got the checkpoint {str(path)!r} of another training; expected one with the same data, model and "
            "settings, because going on would end somewhere else. Give the same ones (an estimator's random_state too, "
            "as a number), or start a new checkpoint."
        )
    if not _sound(header):
        raise FileRefused(f"Got the checkpoint {str(path)!r} with numbers that no training leaves: it is damaged.")
    return _unpacked(start, arrays, header)


def _packed(state: TrainingState) -> tuple[dict[str, np.ndarray], Record]:
    """The state's numbers, without the functions that a model may hold."""
    arrays = {name: array for tree in _TREES for name, array in arrays_of(getattr(state, tree), tree).items()}
    return arrays, {"history": list(state.history), **{name: getattr(state, name) for name in _COUNTS + _NUMBERS}}


def _unpacked(start: TrainingState, arrays: dict[str, np.ndarray], header: Record) -> TrainingState:
    trees = {tree: with_arrays(getattr(start, tree), arrays, tree, exact=True) for tree in _TREES}
    numbers = {name: header[name] for name in _COUNTS + _NUMBERS}
    return TrainingState(**trees, **numbers, history=tuple(header["history"]))


def fingerprint_of(settings: Settings, *parts: Any) -> str:
    """A hash of the settings and of all arrays in `parts`: model, training and validation set, loss.

    A part that is not in memory has a `fingerprint` of its own.
    """
    decisive = {field.name: getattr(settings, field.name) for field in fields(settings) if field.name not in _FREE}
    content: list[Any] = [ADDRESS.sub("", repr(sorted(decisive.items())))]
    for part in parts:
        part = getattr(part, "fingerprint", part)  # a store knows the checksum of its files
        # Names and plain values. Not repr(): Equinox omits fields equal to their defaults.
        leaves, structure = jax.tree.flatten(part)
        plain = [leaf for leaf in leaves if not eqx.is_array(leaf) and not isinstance(leaf, np.ndarray)]
        content.append(ADDRESS.sub("", f"{structure} {plain}"))
        content += [item for pair in arrays_of(part).items() for item in pair]
    return digest_of(*content)


def _sound(header: Record) -> bool:
    """Whether the numbers in a header can be those of a training."""
    history = header.get("history")
    return (
        all(type(header.get(name)) is int and header[name] >= 0 for name in _COUNTS)
        and all(_is_number(header.get(name)) for name in _NUMBERS)
        and 0 < header["rate_factor"] <= 1
        and 0 <= header["seconds"] < math.inf
        and isinstance(history, list)
        and header["best_epoch"] <= header["epoch"] == len(history)
        and all(isinstance(record, dict) for record in history)
        and all(_is_number(record.get(name)) for record in history for name in ("monitored", "seconds"))
    )


def _is_number(value: Any) -> bool:
    # Whole numbers beyond these limits are no float.
    return (type(value) is float and not math.isnan(value)) or (type(value) is int and abs(value) < 2**53)


# Other machines may round log-signatures differently; other data differ by more.
_ROUNDING = 1e-3


def same_training(
    processes: Processes,
    settings: Settings,
    state: TrainingState,
    training: Source | RandomChoice,
    validation: Source | None,
) -> Settings:
    """The first process's settings. Raises in all if one would train something else (of data: first, last, number)."""
    mine = {
        "settings": ADDRESS.sub("", repr(replace(settings, time_budget=None))),
        "model": str([(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(eqx.filter(state.model, eqx.is_array))]),
        "number of epochs done": state.epoch,
        "number of training examples": len(training),
        "number of validation examples": 0 if validation is None else len(validation),
        "training examples": _ends(training),
        "validation examples": _ends(validation),
    }
    # A clock may have set the budget. So it is the first process's, which decides when time is up.
    theirs, budget = processes.agree((mine, settings.time_budget))
    differing = [name for name, value in mine.items() if not _alike(value, theirs[name])]
    # Which process it was, and what it has, only that one knows; that something is wrong, all must know.
    (wrong,) = processes.sum(bool(differing))
    if wrong:
        here = f"another {differing[0]} than in the first one" if differing else "the same as in the first one"
        raise ValueError(
            f"Got {int(wrong)} of {processes.count} processes whose arguments differ from the first one's (in process "
            f"{jax.process_index()}: {here}); expected the same model, data and settings in all, because each takes "
            "its own rows of every batch by itself. Give every process all of the data, and the same seed."
        )
    return replace(settings, time_budget=budget)


def agreed_state(
    processes: Processes, state: TrainingState, checkpoint: str | os.PathLike | None, fingerprint: str
) -> TrainingState:
    """The state to go on from, of the checkpoint if there is one: the first process's, to the last bit, in all."""

    def of_first() -> Any:
        found = state
        if checkpoint is not None and Path(checkpoint).exists():
            found = load_checkpoint(checkpoint, state, fingerprint=fingerprint)
        return found if processes.count == 1 else _packed(found)

    found = processes.from_first(of_first)
    return found if processes.count == 1 else _unpacked(state, *found)


def _ends(examples: Source | RandomChoice | None) -> list[np.ndarray]:
    """The first and the last example, of what can be looked at without computing an epoch."""
    if examples is None or isinstance(examples, RandomChoice):
        return []
    return [np.asarray(leaf) for leaf in jax.tree.leaves(examples.take(np.array([0, len(examples) - 1])))]


def _alike(mine: Any, theirs: Any) -> bool:
    if not isinstance(mine, list):
        return mine == theirs
    close = lambda a, b: a.shape == b.shape and np.allclose(a, b, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
    return len(mine) == len(theirs) and all(map(close, mine, theirs))
