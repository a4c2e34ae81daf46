"""The state of a training: what it is between two epochs, and all that it needs to go on."""

import math
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import optax


@dataclass(frozen=True)
class TrainingState:
    """One state is checkpoint, resume and result.

    Nothing in it changes: an epoch makes a new state from an old one, so that an epoch gone wrong is undone by
    keeping the old. The order of examples is drawn from (seed, epoch), hence there is no generator to save.
    """

    model: Any
    """The weights as they are now; `best` is what training is for."""
    optimiser: Any
    best: Any
    """The model with the lowest monitored loss so far."""
    best_loss: float = math.inf
    best_epoch: int = 0
    epoch: int = 0
    """Epochs done."""
    caution: float = 1.0
    """What the learning rate is multiplied by; halved each time a loss was not finite."""
    failures: int = 0
    """Losses that were not finite since the last good epoch."""
    seconds: float = 0.0
    """Time spent training, over all resumes."""
    history: tuple[dict[str, Any], ...] = ()
    """One record for each epoch."""

    @classmethod
    def start(cls, model: Any, optimiser: optax.GradientTransformation) -> "TrainingState":
        return cls(model, optimiser.init(eqx.filter(model, eqx.is_inexact_array)), model)

    def after(self, model: Any, optimiser: Any, record: dict[str, Any]) -> "TrainingState":
        """The state one epoch later; the record says the monitored loss and the seconds so far."""
        monitored, epoch = record["monitored"], self.epoch + 1
        best = (model, monitored, epoch) if monitored < self.best_loss else (self.best, self.best_loss, self.best_epoch)
        return replace(
            self,
            model=model,
            optimiser=optimiser,
            best=best[0],
            best_loss=best[1],
            best_epoch=best[2],
            epoch=epoch,
            failures=0,
            seconds=record["seconds"],
            history=(*self.history, record),
        )

    @property
    def waited(self) -> int:
        """Epochs since the best."""
        return self.epoch - self.best_epoch
