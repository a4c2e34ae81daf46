"""The search for windows: which to try, how large a model over them would be, and successive halving.

Every candidate is trained under the schedule of a full training and only paused, so that what was spent on the
winner is not lost: it goes on from where it stands. (Jamieson and Talwalkar 2016, Non-stochastic best arm
identification and hyperparameter optimization.)
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax

from ..frozen import weights_of
from ..paths import Series, Windows
from ..signatures import basis_channels, log_signature_channels
from ..training import TrainingState

# What "auto" tries: steps for so many windows, and these depths.
SEARCHED_COUNTS = (16, 32, 64, 128)
SEARCHED_DEPTHS = (1, 2, 3)
# Beyond so many log-signature channels a depth is not searched: it would cost more than all the others.
MOST_CHANNELS = 500
# A training of more weights takes gigabytes and hours on most machines, and is a mistaken depth more often than a wish.
MOST_WEIGHTS = 50_000_000
# Measured for a training of large models: weights, the best of them, Adam's moments, gradients and what lies between.
_BYTES_PER_WEIGHT = 108

# Runs a candidate from its state (None at first) until an epoch.
Train = Callable[[Any, TrainingState | None, int], TrainingState]


def candidates(windows: Windows, prepared: Series) -> list[Windows]:
    """Windows to choose from, with numbers for all that is open, the cheapest first.

    >>> import numpy as np
    >>> candidates(Windows(step=8, depth="auto"), Series.from_array(np.zeros((1, 100, 2))))
    [Windows(step=8, depth=1), Windows(step=8, depth=2), Windows(step=8, depth=3)]
    """
    channels = prepared.values.shape[2]
    steps: list[Any] = [windows.step]
    if windows.step == "auto":
        steps = sorted({Windows.step_for(prepared, count) for count in SEARCHED_COUNTS})
    depths: list[Any] = [windows.depth]
    if windows.depth == "auto":
        depths = [n for n in SEARCHED_DEPTHS if n == 1 or log_signature_channels(channels, n) <= MOST_CHANNELS]
    every: list[Any] = [
        replace(windows, step=step, depth=depth).resolved(prepared) for step in steps for depth in depths
    ]
    cost: Any = lambda one: basis_channels(channels, one.depth, scales=one.scales) / (one.step or one.every)
    return sorted(every, key=cost)


def check_size(shapes: Callable[[], Any], channels: int, windows: Windows) -> Any:
    """The shapes of a model. Raises if it has too many weights; `channels` are those of the path, time included."""
    depth: Any = windows.depth
    logs = basis_channels(channels, depth, scales=windows.scales)
    # A model has at least a weight for each of them; the exact number is that of its shapes, if they can be had.
    weights, found = logs, None
    if logs <= MOST_WEIGHTS:
        found = shapes()
        weights = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter_eval_shape(weights_of, found)))
    if weights <= MOST_WEIGHTS:
        return found
    lower = ""
    if max(windows.depths) > 1:
        less: Any = tuple(max(1, n - 1) for n in depth) if isinstance(depth, tuple) else depth - 1
        lower = f"depth={less} ({basis_channels(channels, less, scales=windows.scales):,} log-signature channels), "
    raise ValueError(
        f"Got depth {depth} of {channels} channels, time included, which has {logs:,} log-signature channels: a model "
        f"of {weights / 1e6:,.0f} million weights, some {weights * _BYTES_PER_WEIGHT / 1e9:,.0f} GB in training; "
        f"expected at most {MOST_WEIGHTS / 1e6:.0f} million. Write {lower}fewer channels, or a smaller state or width."
    )


def successive_halving(
    candidates: Sequence[Any],
    run: Train,
    *,
    epochs: int,
    seconds: float | None = None,
    keep: float = 1 / 3,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Any, TrainingState, list[dict[str, Any]]]:
    """Train all candidates a little, keep the better ones, train those further.

    Returns the candidate with the best validation loss, its state so far, and what was seen on the way.

    Args:
        candidates: in the order in which to try them, cheapest first: when time is up, the rest is not tried.
        run: trains a candidate until an epoch.
        epochs: of a full training; the last round runs to a third of it (with `keep=1/3`).
        seconds: after which no more training is begun; None for no limit.
        keep: the share of candidates that go on to the next round, each for 1 / keep times the epochs.
        clock: tells the seconds.

    >>> from dataclasses import replace
    >>> def run(candidate, state, until):
    ...     return TrainingState(None, None, None, best_loss=abs(candidate - 5) + 1 / until, epoch=until)
    >>> best, state, trials = successive_halving(range(9), run, epochs=27)
    >>> best, state.epoch, [trial["epoch"] for trial in trials].count(3)
    (5, 9, 9)
    """
    end = None if seconds is None else clock() + seconds
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
            if end is not None and clock() >= end and best:
                break
            state = run(candidate, state, until)
            trials.append({"candidate": candidate, "epoch": state.epoch, "loss": state.best_loss})
            best.append((candidate, state))
        best.sort(key=lambda pair: pair[1].best_loss)
        alive = [*best[: max(1, int(len(alive) * keep))]]
        if end is not None and clock() >= end:
            break
    if not best:  # a single candidate
        best = [(candidates[0], run(candidates[0], None, max(1, round(epochs * keep))))]
    return (*best[0], trials)
