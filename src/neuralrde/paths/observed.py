"""Statistics of each channel over what was observed: neither missing values nor padding count."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from .series import Series


def observed_values(series: Series) -> Iterator[Float[np.ndarray, "observations"]]:
    """For each channel its observed values, in float64."""
    valid = series.valid
    for channel, name in enumerate(series.channels):
        # One channel at a time: contiguous, so that NumPy sums pairwise and loses almost nothing.
        column = series.values[..., channel][valid].astype(np.float64, copy=False)
        column = column[~np.isnan(column)]
        if len(column) == 0:
            raise ValueError(
                f"Got the channel {name!r} without any observation in the training set; expected at least "
                "one, because there is nothing to learn its mean from. Leave the channel out, or fill it "
                "with a number of your own, `FillForward(default=0.0)`."
            )
        yield column
