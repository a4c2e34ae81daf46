"""A distribution over bins instead of one number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from neuralrde.models import NeuralRDE
from neuralrde.training import AdamW, Examples, Histogram, Settings, fit, predict


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
    bins = Histogram(ratios=ratios).fit(labels)
    found = np.asarray(bins.median(jnp.log(bins.shares(jnp.asarray(labels)) + 1e-30)))[:, 0]
    off = np.log(found / labels) if ratios else found - labels
    # A straight line inside a bin, where the blur has a bell; the edges are 5 deviations away.
    np.testing.assert_allclose(off / bins.width, 0.0, atol=0.1)


def test_quantiles_are_those_of_the_distribution():
    bins = Histogram(start=-5.0, width=0.01, bins=1000)
    centres = -5.0 + 0.01 * (np.arange(1000) + 0.5)
    logits = jnp.asarray(norm.logpdf(centres))
    for share in (0.05, 0.5, 0.9):
        assert float(bins.quantile(logits, share)[0]) == pytest.approx(norm.ppf(share), abs=1e-3)  # a tenth of a bin


def test_the_loss_is_least_for_the_right_distribution():
    bins = Histogram(bins=30).fit(np.array([1.0, 9.0]))
    target = jnp.array([4.0])
    right = jnp.log(bins.shares(target[0]) + 1e-30)
    slope = jax.grad(lambda logits: bins(logits, target))(right)
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)  # softmax minus shares, in float32
    assert bins(right, target) < bins(jnp.zeros(30), target)


@pytest.mark.parametrize(("label", "bin_"), [(99.0, 19), (0.01, 0), (0.0, 0), (-3.0, 0)])
def test_a_label_beyond_all_bins_counts_as_on_the_edge(label, bin_):
    bins = Histogram(bins=20, ratios=True).fit(np.array([1.0, 2.0]))
    assert np.asarray(bins.shares(jnp.array(label))).argmax() == bin_


def test_unknown_labels_are_not_trained_on():
    bins = Histogram(bins=20).fit(np.array([1.0, 2.0, np.nan]))
    assert Histogram(bins=20).fit(np.array([1, 2, -1])).start == bins.start  # as for classes
    loss, slope = jax.value_and_grad(lambda logits: bins(logits, jnp.array([[1.5], [jnp.nan]])))(jnp.zeros((2, 20)))
    assert np.isfinite(loss)
    assert np.isfinite(slope).all()
    assert (slope[1] == 0).all()


@pytest.mark.long
def test_hesitation_between_two_numbers():
    """4 of 10 labels are twice the others, and nothing tells which: the answer is one of them, not the middle."""
    rng = np.random.default_rng(0)
    windows = np.ones((300, 4, 3), np.float32)
    target = np.where(rng.random(300) < 0.6, 60.0, 120.0).astype(np.float32)[:, None]
    bins = Histogram(bins=60, ratios=True).fit(target)
    model = NeuralRDE(channels=2, outputs=60, depth=2, state=4, width=8, key=jax.random.key(0))
    examples = Examples((np.zeros((300, 2), np.float32), windows), target)
    state = fit(
        model, examples, loss=bins, settings=Settings(epochs=15, batch_size=50, optimizer=AdamW(learning_rate=1e-2))
    )
    answers = predict(state.best, examples)
    # A mean would be 84. The median of 6 in 10 lies inside that peak, which is as wide as the blur; training is short.
    for share, label in ((0.5, 60.0), (0.9, 120.0)):
        off = np.log(np.asarray(bins.quantile(answers, share)) / label)
        assert np.abs(off).max() < 4 * bins.blur * bins.width


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([np.nan], "no known label among 1"), ([np.inf, 1.0], "not finite"), ([0.0, 1.0], "labels down to 0")],
)
def test_labels_that_have_no_bins(labels, expected):
    with pytest.raises(ValueError, match=expected):
        Histogram(ratios=True).fit(np.array(labels))


def test_what_does_not_fit_is_said():
    bins = Histogram(bins=20).fit(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="outputs=20"):  # one output would have no loss at all, whatever it says
        bins(jnp.zeros(1), jnp.ones(1))
    for target in (jnp.array(1.0), jnp.ones(2)):
        with pytest.raises(ValueError, match="reshape"):
            bins(jnp.zeros(20), target)
    with pytest.raises(ValueError, match=r"write 0\.05"):
        bins.quantile(jnp.zeros(20), 5)
    with pytest.raises(ValueError, match="blur=0"):
        Histogram(blur=0.0).fit(np.array([1.0, 2.0]))
