"""Settings: all that decides how a model is trained, beside the model and the data."""

import math
from dataclasses import dataclass, field

from .schedules import Schedule, WarmupCosine


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train.

    Args:
        epochs: passes over the training set, at most.
        batch: examples in a step.
        rate: the learning rate, which `schedule` scales.
        schedule: `WarmupCosine()`, `Plateau()` or `ConstantRate()`.
        weight_decay: how much AdamW shrinks weights over the whole training, whatever the number of steps: by
            itself it makes them exp(-weight_decay) times as large. A step's part of it is in proportion to the
            schedule's share of the rate. Training that stops early, or slows down (`Plateau`, a loss that was not
            finite), shrinks them less. 0 is Adam. An `optimiser` given to `fit` decays as it likes. A decay per
            step, which is common elsewhere, shrinks weights more the more data there are (Wang and Aitchison
            2024, arXiv:2405.13698). To convert one: multiply it by the rate and the sum of the schedule's shares,
            about half the number of steps for `WarmupCosine()`.
        clip: the largest norm of a gradient; None does not clip.
        patience: epochs without a better monitored loss after which training stops; None never stops early.
            The monitored loss is the validation set's, or without one the training set's. Either way the
            weights that had the best one are kept.
        seed: of the order of examples. The same seed gives the same weights, bit for bit, on the same number of
            devices of one kind. On another number of them sums are rounded differently, and training amplifies the
            difference: one core and two can end at visibly different weights, equally good.
        time_budget: seconds after which training stops, at the end of an epoch; None for no limit. Runs stopped by
            a time budget are not reproducible.
        save_every: seconds between checkpoints, of which the first is written after the first epoch.

    >>> Settings(epochs=20, rate=1e-3).batch
    32
    """

    epochs: int = 100
    batch: int = 32
    rate: float = 3e-3
    schedule: Schedule = field(default_factory=WarmupCosine)
    weight_decay: float = 0.015
    clip: float | None = 1.0
    patience: int | None = None
    seed: int = 0
    time_budget: float | None = None
    save_every: float = 30.0

    def __post_init__(self):
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"Got {name}={getattr(self, name)}; expected at least 1. Write for example {name}=32.")
        for name in ("rate", "clip", "patience", "time_budget"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"Got {name}={value}; expected a number above 0.")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"Got weight_decay={self.weight_decay}; expected 0 (Adam) or more (AdamW).")
