"""Conformal prediction: intervals that hold a given share of targets, whatever the model.

Held-out targets have scores, which say how far they are from their predictions. Of a new target, drawn like these, the
score is below the k-th smallest of n with probability k / (n + 1). So the interval of all targets with at most that
score holds the new one with that probability, whether the model is good or not. (Vovk, Gammerman and Shafer 2005; Lei
et al. 2018. For intervals of different widths see Romano, Patterson and Candès 2019.)

Series of one patient are alike, and it is another patient who comes next. So groups are counted, not series: each of G
groups has the same weight 1 / (G + 1), shared by its own scores, and the rest is that of the new one (Lee, Barber and
Willett 2023, hierarchical conformal prediction).
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped


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
