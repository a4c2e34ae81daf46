"""Conformal prediction: intervals that hold a given share of targets, whatever the model.

Held-out targets have scores, which say how far they are from their predictions. Of a new target, drawn like these, the
score is below the k-th smallest of n with probability k / (n + 1). So the interval of all targets with at most that
score holds the new one with that probability. (Vovk, Gammerman and Shafer 2005; Lei et al. 2018. For intervals of
different widths see Romano, Patterson and Candès 2019.)

Series of one patient are alike, and it is another patient who comes next. So groups are counted, not series: each of G
groups has the same weight 1 / (G + 1), shared by its own scores, and the rest is that of the new one (Lee, Barber and
Willett 2023, hierarchical conformal prediction).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from ..training import AbstractLoss


class VersionOutputs(NamedTuple):
    """A model's outputs for one version of new series."""

    outputs: np.ndarray
    factor: float = 1.0
    """What targets are multiplied by in this version."""


def conformal_score(scores: Sequence[Sequence[float]] | None, share: float) -> Float[np.ndarray, "outputs"]:
    """For each output, the score that so large a share of targets do not exceed.

    >>> conformal_score([list(range(1, 11))], 0.5).tolist()  # 6 of 11: 5 of 11 are less than a half
    [6.0]
    """
    if scores is None:
        raise ValueError(
            f"Got interval={share}, but no series were held out to calibrate intervals with. Write "
            "`model.calibrate(X, y)` with series that were not trained on, or give `fit` a validation set."
        )
    fewest = min(len(one) for one in scores)
    # Not 19.000000000000004 of 19.
    place = math.ceil(share * (fewest + 1) - 1e-9)
    if place > fewest:
        needed = f"at least {math.ceil(share / (1 - share) - 1e-9)} of them" if share < 1 else "a share below 1"
        most = math.floor(1000 * fewest / (fewest + 1)) / 1000
        raise ValueError(
            f"Got interval={share} with {fewest} held-out targets, or groups of them, which can promise at most "
            f"{most:g}; expected {needed}. Write interval={most:g}, or fit or calibrate with more."
        )
    return np.array([float(one[math.ceil(share * (len(one) + 1) - 1e-9) - 1]) for one in scores])


def held_out_scores(
    scores: Float[np.ndarray, "samples outputs"], groups: Shaped[np.ndarray, "samples"] | None = None
) -> list[list[float]]:
    """What `conformal_score` counts: for each output the known scores in order, or as many of them as there are groups.

    Of G groups, the k-th is the smallest score that a weight of k groups does not exceed.

    >>> held_out_scores(np.array([[3.0], [1.0], [np.nan], [2.0]]))
    [[1.0, 2.0, 3.0]]
    >>> held_out_scores(np.array([[9.0], [1.0], [2.0], [3.0], [4.0]]), np.array(["a", "b", "b", "b", "b"]))
    [[4.0, 9.0]]
    """
    groups, found = np.arange(len(scores)) if groups is None else groups, []
    for column in scores.T:
        known = np.flatnonzero(~np.isnan(column))
        order = known[np.argsort(column[known], kind="stable")]
        _, group, sizes = np.unique(groups[order], return_inverse=True, return_counts=True)
        reached = np.cumsum(1.0 / sizes[group])
        # Sums of a third are not exact.
        places = np.searchsorted(reached, np.arange(1, len(sizes) + 1) - 1e-9)
        found.append(column[order[places]].tolist())
    return found


def median_of(versions: Sequence[VersionOutputs], predict: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The median of the versions' predictions, in the targets' own units.

    >>> versions = [VersionOutputs(np.array([60.0 * factor]), factor) for factor in (1.0, 2.0, 0.5)]
    >>> median_of(versions, np.asarray)
    array([60.])
    """
    return np.median([predict(version.outputs) / version.factor for version in versions], axis=0)


def median_scores(versions: Sequence[VersionOutputs], target: np.ndarray, loss: AbstractLoss) -> np.ndarray:
    """The scores of targets with which the medians of all versions' intervals just hold them.

    The lower end of the median interval is below a target where the ends of most versions are. So the median score of
    the versions that lie above the target decides, those below counting as 0; the same holds for the upper end.
    """
    low, high = [], []
    for outputs, factor in versions:
        scores, scaled = loss.scores(outputs, target * factor), target * factor
        below = scaled < loss.predict(outputs)
        low.append(np.where(below, scores, 0.0))
        high.append(np.where(below, 0.0, scores))
    return np.maximum(np.median(low, axis=0), np.median(high, axis=0))


def calibration_scores(
    loss: AbstractLoss, versions: Sequence[VersionOutputs], target: np.ndarray, groups: np.ndarray | None = None
) -> list[list[float]]:
    """The scores that intervals are made of, from outputs for series that were left out of training."""
    versions = [VersionOutputs(outputs.astype(np.float64), factor) for outputs, factor in versions]
    return held_out_scores(median_scores(versions, target.astype(np.float64), loss), groups)


def check_scores(scores: list[list[float]] | None) -> None:
    if scores is not None and any(one != sorted(one) for one in scores):
        raise ValueError("Got scores that are not in order.")
