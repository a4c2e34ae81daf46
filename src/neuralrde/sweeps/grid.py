"""Every combination of lists."""

import itertools
from collections.abc import Mapping
from typing import Any


def grid_points(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination, the last name varying fastest. What is no list is one value.

    A value that is itself a list is written in a list: `[[1, 4], [1, 16]]` are two values.

    >>> grid_points({"model": "log-ncde", "depth": [1, 2], "seed": [0, 1]})[1:3]
    [{'model': 'log-ncde', 'depth': 1, 'seed': 1}, {'model': 'log-ncde', 'depth': 2, 'seed': 0}]
    """
    for name, values in lists.items():
        if isinstance(values, list) and not values:
            raise ValueError(f"Got no value for {name} in a grid; expected at least one. Leave {name} out.")
    each = [values if isinstance(values, list) else [values] for values in lists.values()]
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*each)]
