"""What must hold of signatures and log-signatures whatever the path."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde import log_signature, log_signatures, signature
from neuralrde.paths import cuts_by_time
from neuralrde.signatures import (
    change_basis,
    chen_inverse,
    chen_product,
    log_signature_channels,
    lyndon_words,
    tensor_exp,
    tensor_log,
)
from neuralrde.signatures.lyndon import brackets_to_words, factorise, word_position, words_to_brackets

sizes = st.tuples(st.integers(2, 4), st.integers(1, 5))  # channels, depth
seeds = st.integers(0, 2**32 - 1)
# Sums of some hundred products of numbers of order 1 in float64: rounding is below 1e-12 of the largest.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def random_path(seed: int, length: int, channels: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(length, channels)) / 2


@given(sizes, seeds, st.sampled_from([1, 7, 12]))
def test_chen_identity(size, seed, cut):
    channels, depth = size
    path = random_path(seed, 14, channels)
    product = chen_product(signature(path[: cut + 1], depth), signature(path[cut:], depth), channels)
    np.testing.assert_allclose(product, signature(path, depth), **CLOSE)


@given(sizes, seeds)
def test_straight_path_has_level_one_only(size, seed):
    channels, depth = size
    start, end = random_path(seed, 2, channels)
    path = start + np.linspace(0, 1, 9)[:, None] ** 2 * (end - start)
    log = log_signature(path, depth)
    np.testing.assert_allclose(log[:channels], end - start, **CLOSE)
    np.testing.assert_allclose(log[channels:], 0, atol=1e-12)  # rounding of nine points


@given(sizes, seeds, st.integers(1, 5))
def test_invariant_to_reparametrisation(size, seed, repeats):
    """Points that are repeated, or that lie on the way between others, change nothing."""
    channels, depth = size
    path = random_path(seed, 8, channels)
    slow = np.concatenate([np.repeat(path, repeats, axis=0), path[-1:]])
    dense = np.stack([np.interp(np.linspace(0, 7, 7 * 6 + 1), np.arange(8), column) for column in path.T], axis=-1)
    np.testing.assert_allclose(log_signature(slow, depth), log_signature(path, depth), **CLOSE)
    np.testing.assert_allclose(log_signature(dense, depth), log_signature(path, depth), **CLOSE)


@given(sizes, seeds)
def test_reversal_gives_the_negative(size, seed):
    channels, depth = size
    path = random_path(seed, 10, channels)
    np.testing.assert_allclose(log_signature(path[::-1], depth), -log_signature(path, depth), **CLOSE)
    np.testing.assert_allclose(chen_inverse(signature(path, depth), channels), signature(path[::-1], depth), **CLOSE)


@given(sizes, seeds, st.floats(0.1, 3))
def test_scaling_the_path_scales_level_n_by_its_power(size, seed, factor):
    channels, depth = size
    path = random_path(seed, 10, channels)
    powers = factor ** np.array([len(word) for word in lyndon_words(channels, depth)])
    np.testing.assert_allclose(log_signature(factor * path, depth), powers * log_signature(path, depth), **CLOSE)


def shuffles(u, v):
    """All interleavings of two words, with repetitions."""
    for places in itertools.combinations(range(len(u) + len(v)), len(u)):
        letters = iter(u), iter(v)
        yield tuple(next(letters[0] if i in places else letters[1]) for i in range(len(u) + len(v)))


@given(
    seeds,
    st.lists(st.integers(0, 2), min_size=1, max_size=2),
    st.lists(st.integers(0, 2), min_size=1, max_size=2),
)
def test_shuffle_identity(seed, u, v):
    """S(u) S(v) = sum of S(w) over the shuffles w of u and v: what makes a signature one of a path."""
    sig = signature(random_path(seed, 9, 3), 4)
    value = lambda word: sig[word_position(tuple(word), 3)]
    np.testing.assert_allclose(value(u) * value(v), sum(value(w) for w in shuffles(u, v)), **CLOSE)


@given(sizes, seeds)
def test_exponential_and_logarithm_are_inverse(size, seed):
    channels, depth = size
    sig = signature(random_path(seed, 9, channels), depth)
    np.testing.assert_allclose(tensor_exp(tensor_log(sig, channels), channels), sig, **CLOSE)
    expanded = log_signature(random_path(seed, 9, channels), depth, basis="expanded")
    np.testing.assert_allclose(tensor_exp(expanded, channels), sig, **CLOSE)


@pytest.mark.parametrize("channels", range(1, 7))
@pytest.mark.parametrize("depth", range(1, 7))
def test_lyndon_words_are_as_many_as_witt_says_and_are_lyndon(channels, depth):
    words = lyndon_words(channels, depth)
    assert len(set(words)) == len(words) == log_signature_channels(channels, depth)
    assert list(words) == sorted(words, key=lambda word: (len(word), word))
    assert all(word < word[i:] for word in words for i in range(1, len(word)))
    for word in words:
        if len(word) > 1:
            left, right = factorise(word)
            assert left + right == word
            assert left in words
            assert right in words


@pytest.mark.parametrize(("channels", "depth"), [(2, 6), (3, 5), (5, 4), (8, 3)])
def test_words_to_brackets_is_a_bijection(channels, depth):
    there, back = brackets_to_words(channels, depth), words_to_brackets(channels, depth)
    identity = np.eye(there.shape[0])
    np.testing.assert_array_equal((there @ back).toarray(), identity)  # whole numbers: exact
    np.testing.assert_array_equal((back @ there).toarray(), identity)


def test_words_and_brackets_differ_at_depth_three_as_they_should():
    """c([[i,k],j]) = w(ikj) + w(ijk): here the word 0 2 1 and 0 1 2."""
    words = np.zeros(14)
    order = lyndon_words(3, 3)
    words[order.index((0, 2, 1))], words[order.index((0, 1, 2))] = 2.0, 3.0
    brackets = change_basis(words, 3, 3, old="words", new="brackets")
    assert brackets[order.index((0, 2, 1))] == 5.0
    assert brackets[order.index((0, 1, 2))] == 3.0


@given(sizes, seeds, st.sampled_from(["words", "brackets", "expanded"]), st.sampled_from(["words", "brackets"]))
def test_change_of_basis_and_back(size, seed, through, start):
    channels, depth = size
    log = log_signature(random_path(seed, 9, channels), depth, basis=start)
    other = change_basis(log, channels, depth, old=start, new=through)
    np.testing.assert_allclose(change_basis(other, channels, depth, old=through, new=start), log, **CLOSE)


@given(sizes, seeds, st.integers(1, 40), st.integers(1, 50))
def test_windows_are_the_windows(size, seed, length, step):
    channels, depth = size
    path = random_path(seed, length, channels)
    ours = log_signatures(path, depth, step=step)
    assert len(ours) == max(1, -(-(length - 1) // step))
    for i, one in enumerate(ours):
        np.testing.assert_allclose(one, log_signature(path[i * step : i * step + step + 1], depth), **CLOSE)


@pytest.mark.long
@given(seeds, st.sampled_from([2, 3, 4]), st.floats(0.3, 5))
def test_windows_by_time_of_irregular_samples(seed, depth, every):
    rng = np.random.default_rng(seed)
    paths, times = rng.normal(size=(5, 30, 3)), rng.exponential(size=(5, 30)).cumsum(axis=1)
    cuts = cuts_by_time(times, every)
    ours = log_signatures(paths, depth, cuts=cuts)
    for path, row, logs in zip(paths, cuts, ours, strict=True):
        for begin, end, log in zip(row[:-1], row[1:], logs, strict=True):
            np.testing.assert_allclose(log, log_signature(path[begin : end + 1], depth), **CLOSE)


def test_a_window_without_new_data_is_exactly_zero():
    path = np.random.default_rng(0).normal(size=(2, 9, 3))
    for depth in (1, 2, 3, 4):
        ours = log_signatures(path, depth, cuts=np.array([0, 4, 4, 8]))
        assert not ours[:, 1].any()
        repeated = np.repeat(path[:, -1:], 6, axis=1)
        assert not log_signatures(repeated, depth, step=2).any()
