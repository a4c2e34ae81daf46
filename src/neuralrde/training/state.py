"""A training as data: its settings, and its state between two epochs, which is all that it needs to go on."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import optax

from .._types import Model, Record, State
from ..errors import ParameterError, setting
from ..frozen import weights_of
from ..registry import make
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
            if getattr(self, name) < 1:
                remedy = f"Write for example {setting(name, 32)}."
                raise ParameterError(name, getattr(self, name), "at least 1", remedy=remedy)
        for name in ("patience", "time_budget"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ParameterError(name, value, "a number above 0")


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
