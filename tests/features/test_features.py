"""What the ridge sees of features: their spread counts, their size does not."""

import numpy as np
import pytest

from neuralrde.features.features import Standardised


@pytest.mark.parametrize("factor", [1e-20, 1e-3, 1.0, 1e12])
def test_units_do_not_matter(factor):
    features = np.random.default_rng(0).normal(2.0, 1.0, size=(50, 4))
    expected = (features - features.mean(axis=0)) / features.std(axis=0) / 2  # the root of their number
    # float32: 24 bits of numbers of about 2 spreads.
    np.testing.assert_allclose(Standardised.fit(features * factor)(features * factor), expected, atol=1e-6)


def test_what_varies_by_rounding_alone_counts_for_nothing():
    features = np.full((50, 2), 0.1)
    features[:, 0] += 1e-9 * np.arange(50)
    features[0, 1] = np.nan
    np.testing.assert_array_equal(Standardised.fit(features)(features), 0.0)
