"""Schedules: the learning rate at a step, as a share of the full one.

A schedule is a function of the step and of the history alone, so that a resumed training goes on at the same
rate with nothing else to remember.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Schedule(Protocol):
    """What a schedule is: any function of step, total and history."""

    def __call__(self, step: int, total: int, history: Sequence[dict[str, Any]]) -> float:
        """The share of the learning rate for step `step` of `total`, given the epochs so far."""
        ...


def total_share(schedule: Schedule, total: int) -> float:
    """The sum of the shares over a whole training, as far as they are known before it begins.

    Where they depend on the history, as with `Plateau`, they are taken as they are without any: at the full rate.

    >>> total_share(ConstantRate(), 50), round(total_share(WarmupCosine(warmup=0.1), 50), 6)
    (50.0, 26.0)
    """
    return math.fsum(schedule(step, total, ()) for step in range(total))


@dataclass(frozen=True)
class ConstantRate:
    """The full rate throughout."""

    def __call__(self, step: int, total: int, history: Sequence[dict[str, Any]]) -> float:
        return 1.0


@dataclass(frozen=True)
class WarmupCosine:
    """Up in a straight line, down along half a cosine.

    Args:
        warmup: the share of all steps on the way up.
        floor: where the way down ends.

    >>> schedule = WarmupCosine(warmup=0.1)
    >>> [round(schedule(step, 100, []), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """

    warmup: float = 0.05
    floor: float = 0.0

    def __call__(self, step: int, total: int, history: Sequence[dict[str, Any]]) -> float:
        rising = self.warmup * total
        if step < rising:
            return min(1.0, (step + 1) / rising)
        progress = min(1.0, (step - rising) / max(1.0, total - rising))
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class Plateau:
    """Times `factor` whenever the monitored loss has not improved for `patience` epochs.

    >>> schedule = Plateau(patience=2, factor=0.1)
    >>> schedule(0, 100, [{"monitored": value} for value in (1.0, 0.9, 0.95, 0.92)])
    0.1

    Args:
        patience: epochs without improvement.
        factor: what the rate is multiplied by.
        floor: below which it does not fall.
    """

    patience: int = 15
    factor: float = 0.1
    floor: float = 1e-4

    def __call__(self, step: int, total: int, history: Sequence[dict[str, Any]]) -> float:
        best, waited, rate = math.inf, 0, 1.0
        for record in history:
            waited += 1
            if record["monitored"] < best:
                best, waited = record["monitored"], 0
            elif waited == self.patience:
                rate, waited = rate * self.factor, 0
        return max(rate, self.floor)
