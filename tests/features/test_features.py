"""What the ridge sees of features: their spread counts, their size does not."""

import numpy as np
import pytest

from neuralrde import LogSignatureClassifier, load, log_signature
from neuralrde.features.features import Standardised, path_log_signatures


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
    monkeypatch.setattr("neuralrde.features.features._MOST_PLACED", 0)  # those are of what memory holds
    kept = LogSignatureClassifier(draws=2).fit(X, y)
    monkeypatch.setattr("neuralrde.features.features._KEPT", 1 << 18)  # a third of them
    monkeypatch.setattr("neuralrde.features.ridge._LARGEST", 100)
    again = LogSignatureClassifier(draws=2).fit(X, y)
    # Means and spreads are those of a third of the series, and the penalty is chosen by a part of them.
    assert np.abs(kept.predict_proba(X) - again.predict_proba(X)).mean() < 0.02


def bumps(samples, rng):
    """One bump in noise: what tells the classes apart is in which third it is, and nothing else."""
    y = np.arange(samples) % 3
    centre = 20 + 40 * y + rng.uniform(-15, 15, samples)
    bump = np.exp(-((np.arange(120) - centre[:, None]) ** 2) / 20)
    return 1.5 * bump + 0.7 * rng.normal(size=(samples, 120)), y


def test_features_that_know_a_place_are_kept_where_place_decides(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = bumps(90, rng)
    new, truth = bumps(300, rng)
    model = LogSignatureClassifier(draws=20).fit(X, y)
    assert {"parts", "path"} & {*model.fitted_.counts}
    with monkeypatch.context() as without:
        without.setattr("neuralrde.features.features._MOST_PLACED", 0)
        assert model.score(new, truth) > LogSignatureClassifier(draws=20).fit(X, y).score(new, truth) + 0.05
    model.save(tmp_path / "model.nrde")
    np.testing.assert_array_equal(load(tmp_path / "model.nrde").predict_proba(new), model.predict_proba(new))
    # What channels and spans of time contributed still adds up to the score.
    found = model.explain(new[:5])
    total = found.baseline + found.contributions.sum(axis=(1, 2))
    np.testing.assert_allclose(total, found.outputs, atol=1e-5)  # float32


def test_features_that_know_a_place_go_where_they_bring_nothing():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 120)) * (1 + y[:, None])  # spread tells the classes apart, wherever it is looked for
    assert {*LogSignatureClassifier(draws=20).fit(X, y).fitted_.counts} == {"shares", "statistics"}


def test_log_signatures_of_the_path_are_those_of_its_parts():
    values = np.random.default_rng(0).normal(size=(3, 2, 40)).astype(np.float32)
    lengths = np.array([40, 33, 2])
    found, at = path_log_signatures(values, lengths), 0
    for level in range(5):
        for part in range(2**level):
            for row, length in enumerate(lengths):
                begin, end = (number * (length - 1) // 2**level for number in (part, part + 1))
                clock = np.arange(length) / (length - 1)
                path = np.stack([clock, *values[row, :, :length]], axis=1)[begin : end + 1]
                # float32, sums of up to 40 increments of size 1 and their areas
                np.testing.assert_allclose(found[row, at : at + 6], log_signature(path, 2), atol=1e-4)
            at += 6
    assert at == found.shape[1]
