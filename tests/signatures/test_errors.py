"""Bad input gets a sentence, never a wrong number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde import log_signature, log_signatures, signature
from neuralrde.signatures import change_basis, chen_product, log_signature_channels, lyndon_words, tensor_log

PATH = np.random.default_rng(0).normal(size=(4, 20, 3))


def with_value(value, point=7, sample=2, channel=1, dtype=np.float64):
    path = PATH.astype(dtype)
    path[sample, point, channel] = value
    return path


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("point", [0, 7, 19])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_nan_and_infinity_are_located(depth, convert, point, value, name):
    with pytest.raises(ValueError, match=rf"{name} in sample 2, channel 1, at point {point}.*Fill"):
        log_signatures(convert(with_value(value, point)), depth, step=4)


def test_overflow_is_not_a_number():
    with pytest.raises(OverflowError, match=r"overflows float32.*Scale"):
        log_signatures(with_value(1e20, dtype=np.float32), 3, step=4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: log_signatures(PATH, 0, step=4), ValueError, "depth=0; expected a whole number of at least 1"),
        (lambda: log_signatures(PATH, 2.0, step=4), ValueError, "depth=2.0; expected a whole number"),
        (lambda: log_signatures(PATH, 2, step=0), ValueError, "step=0; expected a whole number of at least 1"),
        (lambda: log_signatures(PATH, 2, step=1.5), ValueError, "step=1.5; expected a whole number"),
        (lambda: log_signatures(PATH, 2), TypeError, "exactly one"),
        (lambda: log_signatures(PATH, 2, step=2, cuts=[0, 3]), TypeError, "exactly one"),
        (
            lambda: log_signatures(PATH, 2, step=2, basis="lyndon"),
            ValueError,
            "'words', 'brackets', 'expanded'",
        ),
        (lambda: log_signatures(PATH[0, :, 0], 2, step=2), ValueError, r"path\[:, None\]"),
        (lambda: log_signatures(PATH[:, :0], 2, step=2), ValueError, "empty path"),
        (lambda: log_signatures(PATH[..., :0], 2, step=2), ValueError, "empty path"),
        (lambda: log_signatures([["a", "b"]], 2, step=2), TypeError, "expected real numbers"),
        (lambda: log_signatures(PATH + 1j, 2, step=2), TypeError, "expected real numbers"),
        (lambda: log_signatures(jnp.asarray(PATH) + 1j, 2, step=2), TypeError, "expected real numbers"),
        (lambda: log_signatures([[1.0, 2.0], [3.0]], 2, step=2), ValueError, "from_arrays"),
        (lambda: log_signatures(PATH, 2, cuts=[0, 9, 4]), ValueError, "never decrease"),
        (lambda: log_signatures(PATH, 2, cuts=[0, 20]), ValueError, "between 0 and 19"),
        (lambda: log_signatures(PATH, 2, cuts=[0.0, 9.0]), ValueError, "whole numbers"),
        (lambda: log_signatures(PATH, 2, cuts=[[0, 9], [0, 9]]), ValueError, "one for each"),
        (lambda: lyndon_words(0, 2), ValueError, "channels=0"),
        (lambda: log_signature_channels(2, -1), ValueError, "depth=-1"),
        (
            lambda: change_basis(np.zeros(5), 3, 2, old="words", new="brackets"),
            ValueError,
            r"expected \(..., 6\)",
        ),
        (lambda: tensor_log(np.zeros(5), 2), ValueError, "leading 1"),
        (lambda: signature(PATH, 0), ValueError, "depth=0"),
        (lambda: signature(PATH[0, :, 0], 2), ValueError, r"path\[:, None\]"),
        (lambda: signature(PATH[:, :0], 2), ValueError, "empty path"),
        (lambda: signature(with_value(np.nan), 2), ValueError, "NaN in sample 2"),
        (lambda: tensor_log(np.zeros(6), 0), ValueError, "channels=0"),
        (lambda: chen_product(np.zeros(6), np.zeros(14), 2), ValueError, "the same depth"),
        (lambda: chen_product(np.zeros(14), np.zeros(6), 2), ValueError, "the same depth"),
    ],
)
def test_mistakes_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_would_not_fit_is_said_before_it_is_allocated():
    with pytest.raises(MemoryError, match=r"111,111,\d+ channels each and need [\d,.]+ GiB|GiB; this machine has"):
        log_signatures(np.zeros((1000, 100, 100)), 4, step=10)
    with pytest.raises(MemoryError, match="GiB"):
        log_signatures(np.zeros((2, 3)), 60, step=1)
    with pytest.raises(MemoryError, match="GiB"):
        lyndon_words(50, 10)


def test_a_window_longer_than_the_series_is_one_window():
    np.testing.assert_array_equal(log_signatures(PATH, 3, step=1000)[:, 0], log_signature(PATH, 3))


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_one_point_is_a_zero_log_signature(depth):
    assert not log_signature(PATH[:, :1], depth).any()
    assert log_signatures(PATH[:, :1], depth, step=5).shape == (4, 1, log_signature_channels(3, depth))


def test_whole_numbers_are_a_path_and_other_layouts_too():
    path = np.arange(12).reshape(6, 2) ** 2
    np.testing.assert_array_equal(log_signatures(path, 2, step=2), log_signatures(path.astype(float), 2, step=2))
    turned = np.asfortranarray(PATH)
    np.testing.assert_array_equal(log_signatures(turned, 2, step=2), log_signatures(PATH, 2, step=2))
    assert log_signatures(PATH[:0], 2, step=2).shape == (0, 10, 6)
    assert jax.jit(lambda path: log_signatures(path, 2, step=2))(jnp.asarray(PATH[:0])).shape == (0, 10, 6)
