"""Intervals: where a metric would lie on other test sets of this size. All are of 95 % confidence."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

# The 97.5 % quantile of the normal distribution, and the quantiles between which 95 % of a bootstrap lie.
_Z = 1.959963984540054
_EDGES = (0.025, 0.975)
_REPLICATES = 2000
# Counts of units drawn at once, for memory.
_PIECE = 4_000_000


def wilson(right: float, total: float) -> tuple[float, float]:
    """Wilson's score interval of a share. It is right even for few samples and for shares near 0 or 1.

    >>> low, high = wilson(37, 41)
    >>> round(low, 2), round(high, 2)
    (0.77, 0.96)
    """
    if total <= 0:
        raise ValueError(f"Got {total} samples; expected at least one, because a share of none is no share.")
    share, z2 = right / total, _Z**2 / total
    middle = (share + z2 / 2) / (1 + z2)
    half = _Z * np.sqrt(share * (1 - share) / total + z2 / (4 * total)) / (1 + z2)
    # At 0 and 1 an edge is the share itself, but for rounding.
    return min(share, max(0.0, float(middle - half))), max(share, min(1.0, float(middle + half)))


def accuracy_interval(right: Bool[np.ndarray, "n"], units: Int[np.ndarray, "n"]) -> tuple[float, float] | None:
    """Wilson's interval of an accuracy, for as many samples as are independent.

    Several predictions for one patient, or one for each point of a series, are worth fewer independent ones. How many
    fewer follows from how much the units' own accuracies differ (the design effect of a cluster sample); where they
    do not differ at all, a unit counts once.

    >>> right = np.array([True, True, True, False] * 10)
    >>> low, high = accuracy_interval(right, np.arange(40))
    >>> round(low, 2), round(high, 2)
    (0.6, 0.86)

    Args:
        right: whether each prediction is right.
        units: the number of the series, or of the group, that each belongs to.

    Returns:
        The ends, or None for a single unit of several predictions, which says nothing about others.
    """
    numbers, unit = np.unique(units, return_inverse=True)
    total, share = len(right), float(np.mean(right))
    if len(numbers) == total:
        return wilson(share * total, total)
    if len(numbers) == 1:
        return None
    hits, sizes = np.bincount(unit, right), np.bincount(unit)
    between = len(numbers) / (len(numbers) - 1) * float(((hits - share * sizes) ** 2).sum()) / total**2
    alone = share * (1 - share) / total
    independent = min(total, total * alone / between) if between > 0 else len(numbers)
    return wilson(share * independent, independent)


def bootstrap_interval(
    errors: Float[np.ndarray, "n"],
    units: Int[np.ndarray, "n"],
    *,
    of: Callable[[np.ndarray], np.ndarray] = np.sqrt,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The interval of a function of a mean error, by resampling units (series, groups).

    >>> errors = np.random.default_rng(0).normal(size=400) ** 2
    >>> low, high = bootstrap_interval(errors, np.arange(400))
    >>> bool(low < np.sqrt(errors.mean()) < high)
    True

    Args:
        errors: squared ones for the RMSE, absolute ones for the MAE.
        units: the number of the series, or of the group, that each belongs to.
        of: what to take of the mean: `np.sqrt` for the RMSE, `np.asarray` for the MAE.
        seed: of the draws.

    Returns:
        The ends, or None for a single unit, which says nothing about others.
    """
    numbers, unit = np.unique(units, return_inverse=True)
    if len(numbers) < 2:
        return None
    sums, sizes = np.bincount(unit, errors), np.bincount(unit)
    rng, drawn = np.random.default_rng(seed), []
    piece = max(1, _PIECE // len(numbers))
    for start in range(0, _REPLICATES, piece):
        rows = min(piece, _REPLICATES - start)
        times = rng.multinomial(len(numbers), np.full(len(numbers), 1 / len(numbers)), size=rows)
        drawn.append(of((times @ sums) / (times @ sizes)))
    low, high = np.quantile(np.concatenate(drawn), _EDGES)
    return float(low), float(high)
