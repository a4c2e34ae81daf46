"""Optimizers turn gradients into new weights; schedules say at which share of the full learning rate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import optax

from .._types import Record
from ..errors import ParameterError
from ..paths.checks import check_number
from ..registry import Config, Registry


@runtime_checkable
class Schedule(Protocol):
    """Any function of step, total and history, and of nothing else: so a resumed training goes on at the same rate."""

    def __call__(self, step: int, total: int, history: Sequence[Record]) -> float:
        """The share of the learning rate for step `step` of `total`, given the epochs so far."""
        ...


def total_share(schedule: Schedule, total: int) -> float:
    """The sum of the shares over a whole training, at the full rate where they depend on the history (`Plateau`).

    >>> total_share(ConstantRate(), 50), round(total_share(WarmupCosine(warmup=0.1), 50), 6)
    (50.0, 26.0)
    """
    return math.fsum(schedule(step, total, ()) for step in range(total))


@dataclass(frozen=True)
class ConstantRate:
    """The full learning rate throughout."""

    def __call__(self, step: int, total: int, history: Sequence[Record]) -> float:
        return 1.0


@dataclass(frozen=True)
class WarmupCosine:
    """The learning rate rises in a straight line and then falls along half a cosine.

    Args:
        warmup: the share of all steps in which the rate rises.
        floor: the share of the rate at the end.

    >>> schedule = WarmupCosine(warmup=0.1)
    >>> [round(schedule(step, 100, []), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """

    warmup: float = 0.05
    floor: float = 0.0

    def __call__(self, step: int, total: int, history: Sequence[Record]) -> float:
        rising = self.warmup * total
        if step < rising:
            return min(1.0, (step + 1) / rising)
        progress = min(1.0, (step - rising) / max(1.0, total - rising))
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class Plateau:
    """Multiplies the learning rate by `factor` whenever the monitored loss has not improved for `patience` epochs.

    >>> schedule = Plateau(patience=2, factor=0.1)
    >>> schedule(0, 100, [{"monitored": value} for value in (1.0, 0.9, 0.95, 0.92)])
    0.1

    Args:
        patience: epochs without improvement.
        factor: what the rate is multiplied by.
        floor: the lowest share of the rate.
    """

    patience: int = 15
    factor: float = 0.1
    floor: float = 1e-4

    def __call__(self, step: int, total: int, history: Sequence[Record]) -> float:
        best, waited, rate = math.inf, 0, 1.0
        for record in history:
            waited += 1
            if record["monitored"] < best:
                best, waited = record["monitored"], 0
            elif waited == self.patience:
                rate, waited = rate * self.factor, 0
        return max(rate, self.floor)


SCHEDULES = Registry("schedule", object, {"cosine": WarmupCosine, "plateau": Plateau, "constant": ConstantRate})


@dataclass(frozen=True, kw_only=True)
class AdamW:
    """AdamW with clipped gradients, a learning rate schedule, and a weight decay for the whole training.

    Args:
        learning_rate: the peak learning rate, which `schedule` scales.
        weight_decay: the decay over a whole training: it multiplies weights that the loss leaves alone by
            exp(-weight_decay), however many steps there are; 0 means no decay. Each step's part is proportional to the
            schedule's share of the rate, so training that stops early or slows down decays less. To convert a decay per
            step (Wang and Aitchison 2024, arXiv:2405.13698), multiply it by the learning rate and by the sum of the
            schedule's shares, about half the number of steps for `WarmupCosine()`.
        clip: the largest norm of a gradient; None does not clip.
        schedule: `WarmupCosine()`, `Plateau()` or `ConstantRate()`.

    >>> AdamW(learning_rate=1e-3).weight_decay
    0.2
    """

    learning_rate: float = 3e-3
    weight_decay: float = 0.2
    clip: float | None = 1.0
    schedule: Schedule = field(default_factory=WarmupCosine)

    def __post_init__(self):
        for name in ("learning_rate", "clip"):
            check_number(name, getattr(self, name), above=True, also=(None,))
        check_number("weight_decay", self.weight_decay, finite=True)
        if not callable(self.schedule):
            raise ParameterError("schedule", self.schedule, "WarmupCosine(), Plateau() or ConstantRate()")

    def transformation(self) -> optax.GradientTransformation:
        return _adam(self.clip)


@dataclass(frozen=True)
class OptaxOptimizer:
    """Any optimizer of Optax, with its own decay and clipping. It is slowed down after a loss that was not finite.

    Args:
        optimizer: complete with its learning rate, `optax.lion(1e-4)`, or without one, `optax.scale_by_lion()`.
        learning_rate: for an optimizer without one; None for a complete one.
        schedule: scales the learning rate. Optax's own schedules come with its optimizers.
    """

    optimizer: optax.GradientTransformation
    learning_rate: float | None = None
    schedule: Schedule = field(default_factory=ConstantRate)
    weight_decay: float = field(default=0.0, init=False)

    def transformation(self) -> optax.GradientTransformation:
        return self.optimizer


def _coerced(value: Any) -> Any:
    """Wrap an optimizer of Optax."""
    if isinstance(value, optax.GradientTransformation):
        return OptaxOptimizer(value)
    if isinstance(value, AdamW | OptaxOptimizer | str | Mapping | type | Config):
        return value
    raise ParameterError("optimizer", value, "AdamW(...), or one of Optax's, such as optax.lion(1e-4)")


OPTIMIZERS = Registry("optimizer", AdamW, {"adamw": AdamW}, coerce=_coerced)


@lru_cache  # JAX compiles anew for a new object, even if it does the same
def _adam(clip: float | None) -> optax.GradientTransformation:
    parts = [] if clip is None else [optax.clip_by_global_norm(clip)]
    return optax.chain(*parts, optax.scale_by_adam())
