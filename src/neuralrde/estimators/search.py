"""Successive halving: train all candidates a little, keep the better ones, train those further.

Every candidate is trained under the schedule of a full training and only paused, so that what was spent on the
winner is not lost: it goes on from where it stands. (Jamieson and Talwalkar 2016, Non-stochastic best arm
identification and hyperparameter optimization.)
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from ..training import TrainingState

# Runs a candidate from its state (None at first) until an epoch.
Run = Callable[[Any, TrainingState | None, int], TrainingState]


def successive_halving(
    candidates: Sequence[Any], run: Run, *, epochs: int, seconds: float | None = None, keep: float = 1 / 3
) -> tuple[Any, TrainingState, list[dict[str, Any]]]:
    """The candidate with the best validation loss, its state so far, and what was seen on the way.

    Args:
        candidates: in the order in which to try them, cheapest first: when time is up, the rest is not tried.
        run: trains a candidate until an epoch.
        epochs: of a full training; the last round runs to a third of it (with `keep=1/3`).
        seconds: after which no more training is begun; None for no limit.
        keep: the share of candidates that go on to the next round, each for 1 / keep times the epochs.

    >>> from dataclasses import replace
    >>> def run(candidate, state, until):
    ...     return TrainingState(None, None, None, best_loss=abs(candidate - 5) + 1 / until, epoch=until)
    >>> best, state, trials = successive_halving(range(9), run, epochs=27)
    >>> best, state.epoch, [trial["epoch"] for trial in trials].count(3)
    (5, 9, 9)
    """
    end = None if seconds is None else time.monotonic() + seconds
    rounds, remaining = 1, len(candidates)
    while remaining > 1:
        remaining, rounds = max(1, int(remaining * keep)), rounds + 1
    alive: list[tuple[Any, TrainingState | None]] = [(candidate, None) for candidate in candidates]
    best: list[tuple[Any, TrainingState]] = []
    trials: list[dict[str, Any]] = []
    for number in range(1, rounds):
        until = max(1, round(epochs * keep ** (rounds - number)))
        best = []
        for candidate, state in alive:
            if end is not None and time.monotonic() >= end and best:
                break
            state = run(candidate, state, until)
            trials.append({"candidate": candidate, "epoch": state.epoch, "loss": state.best_loss})
            best.append((candidate, state))
        best.sort(key=lambda pair: pair[1].best_loss)
        alive = [*best[: max(1, int(len(alive) * keep))]]
        if end is not None and time.monotonic() >= end:
            break
    if not best:  # a single candidate
        best = [(candidates[0], run(candidates[0], None, max(1, round(epochs * keep))))]
    return (*best[0], trials)
