"""A distribution over bins instead of one number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from neuralrde.models import NeuralRDE
from neuralrde.training import Examples, Histogram, Settings, fit, predict


def test_shares_are_a_blurred_label():
    bins = Histogram(start=0.0, width=0.5, bins=40, blur=3.0)
    shares = np.asarray(bins.shares(jnp.array([7.3, 12.0])))
    edges = 0.5 * np.arange(41)
    for label, found in zip((7.3, 12.0), shares, strict=True):
        exact = np.diff(norm.cdf(edges, label, 1.5))  # 3 bins of 0.5
        np.testing.assert_allclose(found, exact / exact.sum(), atol=1e-6)  # float32


@pytest.mark.parametrize("ratios", [False, True])
def test_the_median_of_a_blurred_label_is_the_label(ratios):
    labels = np.array([40.0, 55.0, 93.7, 160.0])
    bins = Histogram.fit(labels, ratios=ratios)
    # Near the edges the blur is cut off, a twentieth of the range or 11 bins away: 5 deviations.
    found = bins.median(jnp.log(bins.shares(jnp.asarray(labels)) + 1e-30))
    np.testing.assert_allclose(found[:, 0], labels, rtol=1e-3)


def test_quantiles_are_those_of_the_distribution():
    bins = Histogram(start=-5.0, width=0.01, bins=1000)
    centres = -5.0 + 0.01 * (np.arange(1000) + 0.5)
    logits = jnp.asarray(norm.logpdf(centres))
    for share in (0.05, 0.5, 0.9):
        assert float(bins.quantile(logits, share)[0]) == pytest.approx(norm.ppf(share), abs=1e-3)  # a tenth of a bin


def test_the_loss_is_least_for_the_right_distribution():
    bins = Histogram.fit(np.array([1.0, 9.0]), bins=30)
    target = jnp.array([4.0])
    right = jnp.log(bins.shares(target[0]) + 1e-30)
    slope = jax.grad(lambda logits: bins(logits, target))(right)
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)  # softmax minus shares, in float32
    assert bins(right, target) < bins(jnp.zeros(30), target)


def test_a_label_beyond_all_bins_and_an_unknown_one():
    bins = Histogram.fit(np.array([1.0, 2.0, np.nan]), bins=20)
    assert np.asarray(bins.shares(jnp.array(99.0))).argmax() == 19
    logits = jnp.zeros((2, 20))
    both = jax.value_and_grad(lambda logits: bins(logits, jnp.array([[1.5], [jnp.nan]])))(logits)
    assert np.isfinite(both[0])
    assert np.isfinite(both[1]).all()
    assert (both[1][1] == 0).all()


def test_hesitation_between_two_numbers():
    """Half of the labels are twice the others, and nothing tells which: the answer is one of them, not the middle."""
    rng = np.random.default_rng(0)
    windows = np.ones((300, 4, 3), np.float32)
    target = np.where(rng.random(300) < 0.6, 60.0, 120.0).astype(np.float32)[:, None]
    bins = Histogram.fit(target, bins=60, ratios=True)
    model = NeuralRDE(channels=2, outputs=60, depth=2, state=4, width=8, key=jax.random.key(0))
    examples = Examples((np.zeros((300, 2), np.float32), windows), target)
    settings = Settings(epochs=15, batch=50, rate=1e-2)
    state = fit(model, examples, loss=bins, settings=settings)
    answers = np.asarray(bins.median(predict(state.best, examples)))
    assert np.abs(answers - 60).max() < 10  # a mean would be 84
    assert np.abs(np.asarray(bins.quantile(predict(state.best, examples), 0.9)) - 120).max() < 15


@pytest.mark.parametrize(
    ("labels", "ratios", "expected"), [([], False, "at least one"), ([0.0, 1.0], True, "positive")]
)
def test_labels_that_have_no_bins(labels, ratios, expected):
    with pytest.raises(ValueError, match=expected):
        Histogram.fit(np.array(labels), ratios=ratios)
