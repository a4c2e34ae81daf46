"""Several scales: at the end of each window, also the last 2, 4, 8, ... windows taken together."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def as_scales(scales: Any) -> tuple[int, ...]:
    """Scales as a tuple: how many windows each looks back over, the one that ends included.

    >>> as_scales([1, 2, 4])
    (1, 2, 4)
    """
    several: Any = (
        tuple(scales) if isinstance(scales, Sequence | np.ndarray) and not isinstance(scales, str) else (scales,)
    )
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in several)
    if not several or not whole or min(several) < 1 or max(several) > 2**20 or len(set(several)) < len(several):
        raise ValueError(
            f"Got scales={scales!r}; expected different whole numbers from 1 on, because each counts the windows that "
            "a scale looks back over. Write for example scales=(1, 2, 4, 8)."
        )
    return tuple(int(one) for one in several)


def depths_of(depth: Any, scales: tuple[int, ...]) -> tuple[Any, ...]:
    """The depth at each scale: one for all of them, or one for each.

    >>> depths_of(2, (1, 4)), depths_of((3, 2), (1, 4))
    ((2, 2), (3, 2))
    """
    if not isinstance(depth, tuple | list):
        return (depth,) * len(scales)
    if len(depth) != len(scales):
        raise ValueError(
            f"Got depth={depth!r} for scales={scales!r}; expected one depth for all scales, or {len(scales)}, one for "
            "each."
        )
    return tuple(depth)
