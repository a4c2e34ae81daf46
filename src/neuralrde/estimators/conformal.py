"""Conformal prediction: intervals that hold a given share of targets, whatever the model.

Held-out targets have scores, which say how far they are from their predictions. Of a new target, drawn like these, the
score is below the k-th smallest of n with probability k / (n + 1). So the interval of all targets with at most that
score holds the new one with that probability, whether the model is good or not. (Vovk, Gammerman and Shafer 2005; Lei
et al. 2018. For intervals of different widths see Romano, Patterson and Candès 2019.)
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def conformal_score(scores: Sequence[Sequence[float]] | None, share: float) -> Float[np.ndarray, "outputs"]:
    """For each output, the score that so large a share of targets do not exceed.

    >>> conformal_score([list(range(1, 100))], 0.9).tolist()  # the 90th of 99
    [90.0]
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
        raise ValueError(
            f"Got interval={share} with {fewest} held-out targets, which can promise at most "
            f"{fewest / (fewest + 1):.3g}; expected {needed}. Calibrate with more: `model.calibrate(X, y)`."
        )
    return np.array([float(one[math.ceil(share * (len(one) + 1) - 1e-9) - 1]) for one in scores])
