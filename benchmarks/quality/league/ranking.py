"""Which classifiers differ: mean ranks, Friedman's test, and Wilcoxon's tests of pairs with Holm's correction.

Demsar (2006), Statistical comparisons of classifiers over multiple data sets; Benavoli et al. (2016), Should we really
use post-hoc tests based on mean-ranks?
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

ALPHA = 0.05


@dataclass(frozen=True)
class Ranking:
    """Classifiers from the best to the worst.

    Args:
        ranks: the mean rank of each over the sets, the lowest first.
        friedman: p-value of the hypothesis that all are equal; None for fewer than three, or fewer than two sets.
        pairs: p-value of each pair, corrected for the number of pairs.
        cliques: neighbours among whom no pair differs, two or more each.
    """

    ranks: dict[str, float]
    friedman: float | None
    pairs: dict[frozenset[str], float]
    cliques: list[tuple[str, ...]]


def rank(accuracy: pd.DataFrame) -> Ranking:
    """From a table with a row per set and a column per classifier, without gaps.

    >>> found = rank(pd.DataFrame({"a": [0.9, 0.8, 0.7], "b": [0.8, 0.7, 0.6], "c": [0.8, 0.6, 0.5]}))
    >>> {name: round(value, 2) for name, value in found.ranks.items()}
    {'a': 1.0, 'b': 2.17, 'c': 2.83}
    >>> found.cliques  # three sets are too few to tell
    [('a', 'b', 'c')]
    """
    if accuracy.isna().any(axis=None):
        raise ValueError(f"Got a table with gaps, {accuracy.isna().sum().to_dict()}; expected a value in every cell.")
    mean = accuracy.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    names = list(mean.index)
    pairs = holm({frozenset(pair): _wilcoxon(*(accuracy[name] for name in pair)) for pair in combinations(names, 2)})
    friedman = None
    if len(names) > 2 and len(accuracy) > 1:
        friedman = float(stats.friedmanchisquare(*(accuracy[name] for name in names)).pvalue)
        friedman = 1.0 if np.isnan(friedman) else friedman  # all are equal on every set
    # Friedman's test comes first: where it finds no difference, pairs are not looked at.
    alike = lambda pair: (friedman is not None and friedman > ALPHA) or pairs[frozenset(pair)] > ALPHA
    return Ranking({name: float(mean[name]) for name in names}, friedman, pairs, _cliques(names, alike))


def holm(values: dict) -> dict:
    """p-values corrected for their number.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    corrected, highest = {}, 0.0
    for place, (name, value) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, value * (len(values) - place)))
        corrected[name] = highest
    return corrected


def _wilcoxon(first: pd.Series, second: pd.Series) -> float:
    difference = np.round(np.asarray(first) - np.asarray(second), 12)  # equal accuracies are equal
    return float(stats.wilcoxon(difference).pvalue) if difference.any() else 1.0


def _cliques(names: list[str], alike) -> list[tuple[str, ...]]:
    """The longest runs of neighbours in rank that are all alike."""
    found: list[tuple[str, ...]] = []
    for start in range(len(names)):
        stop = start + 1
        while stop < len(names) and all(alike((name, names[stop])) for name in names[start:stop]):
            stop += 1
        if stop - start > 1 and not (found and set(names[start:stop]) <= set(found[-1])):
            found.append(tuple(names[start:stop]))
    return found
