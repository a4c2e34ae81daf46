"""Contributions add up to the output less its baseline, and a planted cause is found where it was planted."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from neuralrde import Config, NeuralRDE, Series, Windows
from neuralrde.estimators import (
    LogSignatureClassifier,
    LogSignatureRegressor,
    NeuralRDEClassifier,
    NeuralRDERegressor,
)
from neuralrde.estimators.explanation import explained
from neuralrde.estimators.sources import SeriesInMemory
from neuralrde.features import SeriesFeatures
from neuralrde.features.contributions import binned, contributions
from neuralrde.features.random_windows import FeatureSizes
from neuralrde.plots import explanation
from neuralrde.training import Quantiles
from neuralrde.transforms import Resample

matplotlib.use("agg")
SMALL = {"draws": 14}


def planted(count: int = 100, length: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Random walks; a bump in channel 2, at 6 points from the middle on, decides the class."""
    y = np.arange(count) % 2
    X = 0.1 * np.random.default_rng(0).normal(size=(count, length, 4)).cumsum(axis=1)
    half = length // 2
    X[y == 1, half : half + 6, 2] += 2 * np.hanning(8)[1:-1]
    return X, y


def check_sums(found, outputs, *, within: float) -> None:
    np.testing.assert_allclose(found.outputs, outputs, rtol=1e-5, atol=1e-5)
    summed = found.baseline + found.contributions.sum(axis=(1, 2))
    np.testing.assert_allclose(summed, outputs, rtol=0, atol=within)


def logits(model, X) -> np.ndarray:
    """Of the second class against the first, or of each class less that of the first."""
    found = np.log(model.predict_proba(X))
    return found[:, 1:] - found[:, :1]


def found_at(found, row: int = 1) -> tuple[int, int]:
    """The channel and the span of time that contributed most."""
    parts = found.contributions[row, :, :-1, 0]
    return tuple(int(one) for one in np.unravel_index(parts.argmax(), parts.shape))


def test_the_closed_form_finds_a_planted_cause_and_adds_up():
    X, y = planted()
    model = LogSignatureClassifier(**SMALL).fit(X, y)
    found = model.explain(X[:6], bins=10)
    assert found.contributions.shape == (6, 5, 11, 1)
    assert found.names == ("1",)
    check_sums(found, logits(model, X[:6]), within=1e-5)
    assert found_at(found) == (2, 5)
    assert found.contributions[1].sum(axis=(1, 2)).argmax() == 2  # over all time, with statistics


def test_it_adds_up_for_irregular_series_with_gaps_outliers_and_several_classes():
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(length, 3)).cumsum(axis=0) for length in rng.integers(1, 40, 60)]
    for array in arrays[::3]:
        array[rng.random(array.shape) < 0.4] = np.nan
    arrays[0][:] = 1e4  # further than any standardised feature may go
    times = [np.sort(rng.uniform(0, 5, len(array))) + 1 for array in arrays]
    series, y = Series.from_arrays(arrays, times=times), np.arange(60) % 3
    model = LogSignatureClassifier(**SMALL).fit(series, y)
    found = model.explain(series, bins=7)
    raw = model.fitted_.whole_outputs(series)
    np.testing.assert_allclose(found.baseline + found.contributions.sum(axis=(1, 2)), raw, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.times[:, [0, -1]], [[t[0], t[-1]] for t in times])


@pytest.mark.long
def test_contributions_of_single_features_are_the_features(monkeypatch):
    """One coefficient at a time, so that nothing cancels; without the kernel, too."""
    X, _ = planted(8, 30)
    series, sizes = Series.from_array(X), FeatureSizes(draws=3, maps=3, competitions=1, windows=9)
    regular = Resample().fit(series)(series)
    features, values = SeriesFeatures.fit(series, regular, sizes, seed=0)
    some = np.random.default_rng(5).permutation(np.eye(values.shape[1]))[:, :12]
    found = contributions(features, series, regular, some, 3)
    np.testing.assert_allclose(found.sum(axis=(1, 2)), values @ some, atol=1e-7)
    monkeypatch.setattr("neuralrde.features.random_windows._library.available", lambda *depth: False)
    np.testing.assert_allclose(contributions(features, series, regular, some, 3), found, atol=1e-5)


def test_a_channel_that_no_mixture_has_gets_none_of_its_shares():
    X, _ = planted(8, 30)
    series, sizes = Series.from_array(X), FeatureSizes(draws=6, maps=3, competitions=1)
    regular = Resample().fit(series)(series)
    features, values = SeriesFeatures.fit(series, regular, sizes, seed=0)
    firsts = np.cumsum([0, *features.random.drawn.counts])
    for draw, mixture in enumerate(features.random.drawn.mixtures):
        coefficients = np.zeros((values.shape[1], 1))
        coefficients[firsts[draw] : firsts[draw + 1]] = 1.0
        parts = contributions(features, series, regular, coefficients, 4)
        assert (np.abs(parts[:, :4]).sum(axis=(0, 2, 3)) > 0).tolist() == mixture.any(axis=1).tolist()


def test_numbers_have_the_mean_as_their_baseline():
    X, _ = planted()
    y = np.stack([X[:, -1, 0], X[:, :, 1].max(axis=1)], axis=1)
    model = LogSignatureRegressor(**SMALL).fit(X, y)
    found = model.explain(X[:3], bins=5)
    check_sums(found, model.predict(X[:3]), within=1e-5)
    assert found.names == ("y0", "y1")


@pytest.mark.parametrize("steps", [4, (8, 3)])
def test_bins_hold_what_falls_into_them(steps):
    rng = np.random.default_rng(2)
    parts, ends = rng.normal(size=(2, 30, 1)), np.sort(rng.uniform(size=31))
    bins = steps if isinstance(steps, int) else steps[0]
    fine = np.linspace(ends[0], ends[-1], 200_001)  # an oracle: a density on a fine grid
    middle = (fine[1:] + fine[:-1]) / 2
    density = (parts[..., 0] / np.diff(ends))[:, np.searchsorted(ends, middle) - 1]
    expected = (density * np.diff(fine)).reshape(2, bins, -1).sum(axis=2)
    np.testing.assert_allclose(binned(parts, ends, bins)[..., 0], expected, atol=1e-2)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {"model": Config(NeuralRDE, state=8, width=16), "windows": 5, "epochs": 15},
        {"windows": Windows(step=4, scales=(1, 4)), "members": 2, "epochs": 5},
        {"windows": Windows(step=4, lengths=(4, 11), whole=1), "members": 2, "epochs": 10},
    ],
)
def test_neural_models_find_a_planted_cause_and_add_up(options):
    """The second sees its channels through projections, and looks back on several windows."""
    X, y = planted(80, 40)
    X = np.concatenate([X, 0.1 * np.random.default_rng(3).normal(size=(80, 40, 3)).cumsum(axis=1)], axis=2)
    model = NeuralRDEClassifier(closed_form=False, random_state=0, verbose=False, **options).fit(X, y)
    found = model.explain(X[:2], bins=5)
    assert model.score(X, y) > 0.8
    check_sums(found, logits(model, X[:2]), within=0.02 * np.abs(found.contributions).sum(axis=(1, 2)).max())
    assert found_at(found) in ((2, 2), (2, 3))


@pytest.mark.long
def test_a_blend_is_explained_by_both_of_its_parts():
    X, y = planted()
    y = X[:, -1, 0] + 0.3 * np.random.default_rng(4).normal(size=len(X))
    options = {"model": Config(NeuralRDE, state=4, width=8), "members": 2, "windows": 5, "epochs": 20}
    model = NeuralRDERegressor(random_state=0, verbose=False, **options).fit(X, y)
    found = model.explain(X[:2], bins=4)
    assert min(model.blend_) > 0
    check_sums(found, model.predict(X[:2])[:, None], within=0.02 * np.abs(found.contributions).sum())
    other = replace(model.fitted_, loss=Quantiles())
    with pytest.raises(ValueError, match=r"Got the loss Quantiles to explain; expected a loss of predictions"):
        explained(other, SeriesInMemory(model.explain(X[:1]).series), 4)
    with pytest.raises(ValueError, match="bins"):
        model.explain(X, bins=0)


def test_the_picture_shows_the_series_and_what_contributed():
    X, y = planted(40, 20)
    X[0, :, 3] = np.nan
    found = LogSignatureClassifier(draws=4).fit(X, y).explain(X[:1], bins=6)
    above, below, beside, *_ = explanation(found).axes
    shown = [label.get_text() for label in below.get_yticklabels()]
    assert sorted(shown) == sorted(found.channels)
    assert [label.get_text() for label in above.get_yticklabels()] == [name for name in shown[::-1] if name[0] == "x"]
    widths = [bar.get_width() for bar in beside.patches]
    np.testing.assert_allclose(sum(widths), found.contributions.sum())
    assert "baseline" in above.get_title()
    assert "never observed" in {text.get_text() for text in above.texts}


def test_mostly_missing_series_add_up_and_what_was_measured_often_is_the_cause():
    """Channel 1 is measured in the second class alone: its statistics and their steps decide."""
    rng, y = np.random.default_rng(0), np.arange(80) % 2
    X = np.where(rng.random((80, 40, 3)) < 0.1, rng.normal(size=(80, 40, 3)), np.nan)
    X[:, 0] = 0.0
    X[y == 0, :, 1] = np.nan
    model = LogSignatureClassifier(**SMALL).fit(X, y)
    assert model.model_.features.steps is not None
    found = model.explain(X[:6], bins=5)
    check_sums(found, logits(model, X[:6]), within=1e-5)
    assert (np.abs(found.contributions[:, :3].sum(axis=(2, 3))).argmax(axis=1) == 1).all()
