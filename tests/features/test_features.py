"""What the ridge sees of features: their spread counts, their size does not."""

import numpy as np
import pytest

from neuralrde import LogSignatureClassifier
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


def test_features_that_memory_does_not_hold_are_computed_again(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = rng.normal(size=(600, 30, 2)).cumsum(axis=1) + np.sin(np.linspace(0, 3, 30) * (1 + y[:, None]))[..., None] * 3
    kept = LogSignatureClassifier(draws=2).fit(X, y)
    monkeypatch.setattr("neuralrde.features.features._KEPT", 1 << 18)  # a third of them
    monkeypatch.setattr("neuralrde.features.ridge._LARGEST", 100)
    again = LogSignatureClassifier(draws=2).fit(X, y)
    # Means and spreads are those of a third of the series, and the penalty is chosen by a part of them.
    assert np.abs(kept.predict_proba(X) - again.predict_proba(X)).mean() < 0.02
