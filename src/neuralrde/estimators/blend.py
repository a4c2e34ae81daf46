"""The factors of the closed form's and an ensemble's outputs in a prediction, as both earn them on left-out series.

Two numbers are chosen, which even a few series can decide.
"""

from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float, Int

Outputs = Float[np.ndarray, "samples outputs"]

# What is believed about the factors before any series has been seen counts as much as this many series.
_PRIOR = 2.0
# For classes: the closed form as it is, because its logits are calibrated already, and of the ensemble what it earns.
_BEFORE = (1.0, 0.0)


def class_factors(
    closed: Outputs, neural: Outputs, target: Int[np.ndarray, "samples"], weight: Any = None
) -> list[float]:
    """The factors of both logits with the smallest log loss, none below zero; of few series, near (1, 0).

    >>> right, noise = np.eye(2)[[0, 1, 0, 1] * 25] * 4, np.random.default_rng(0).normal(size=(100, 2)) * 4
    >>> closed, neural = class_factors(right, noise, np.array([0, 1, 0, 1] * 25))
    >>> closed > 1 and neural < 0.2
    True
    """
    rows, total = np.arange(len(target)), len(target)
    used = closed.any()
    before = np.array(_BEFORE if used else (0.0, 1.0))

    def loss(factors: np.ndarray) -> float:
        logits = factors[0] * closed + factors[1] * neural
        losses = scipy.special.logsumexp(logits, axis=1) - logits[rows, target]
        prior = _PRIOR / total * ((factors - before) ** 2).sum()
        return float(np.average(losses, weights=weight) + prior)

    bounds = [(0.0, 4.0 if used else 0.0), (0.0, 4.0)]
    return [float(one) for one in scipy.optimize.minimize(loss, before, bounds=bounds).x]


def number_factors(closed: Outputs, neural: Outputs, target: Outputs, weight: Any = None) -> list[float]:
    """The shares of both predictions, in all 1, with the smallest squared error, in units of each output's spread.

    >>> target = np.arange(100.0)[:, None]
    >>> [round(share, 1) for share in number_factors(target, target + 50.0 * (-1.0) ** target, target)]
    [1.0, 0.0]
    """
    spread, known = np.nanstd(target, axis=0), ~np.isnan(target)
    spread = np.where(spread > 0, spread, 1.0)
    apart, missed = (np.where(known, one / spread, 0.0) for one in (neural - closed, target - closed))
    weight = np.ones(len(target)) if weight is None else np.asarray(weight, np.float64) / np.mean(weight)
    # Least squares in one number, between 0 and 1, drawn towards one half by as much as a few series would.
    size = _PRIOR * float((apart**2).mean(axis=0).sum())
    sums = float((weight[:, None] * apart * missed).sum()), float((weight[:, None] * apart**2).sum())
    share = float(np.clip((sums[0] + size / 2) / (sums[1] + size), 0.0, 1.0)) if size > 0 else 0.5
    return [1.0 - share, share]
