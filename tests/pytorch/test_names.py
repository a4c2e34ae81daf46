"""torchcde's and Signatory's names: against torchcde's own formula and against iisignature and NumPy."""

import itertools

import iisignature
import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import neuralrde
import neuralrde.torch as nt
from neuralrde.torch import signatory


def torchcdes_formula(x: torch.Tensor, depth: int, window_length: float, t: torch.Tensor) -> torch.Tensor:
    """`torchcde.logsig_windows` of 0.2.5 for one path without NaN, with NumPy's log-signatures in Signatory's place."""
    pieces = int(((t[-1] - t[0]) / window_length).ceil())
    new_t = torch.linspace(float(t[0]), float(t[0]) + pieces * window_length, pieces + 1, dtype=t.dtype)
    new_t = torch.min(new_t, t.max())
    indices, unique, index = [], [], 0
    for one in new_t:
        while True:
            less_or_equal, close = one <= t[index], one.allclose(t[index])
            if less_or_equal or close:
                break
            index += 1
        indices.append(index + len(unique))
        if not close:
            unique.append(one)
    points = sorted([*t.tolist(), *map(float, unique)])
    filled = np.stack([np.interp(points, t, x[:, channel]) for channel in range(x.shape[1])], axis=1)
    size = signatory.logsignature_channels(x.shape[1], depth)
    found = [np.pad(filled[0], (0, size - x.shape[1]))]
    for begin, end in itertools.pairwise(indices):
        found.append(neuralrde.log_signature(filled[begin : end + 1], depth))
    return torch.from_numpy(np.stack(found)).cumsum(dim=0)


@pytest.mark.parametrize("window_length", [1.0, 2.5, 0.3, 4.0, 30.0])
@pytest.mark.parametrize("irregular", [False, True])
def test_logsig_windows_is_torchcdes(window_length, irregular):
    rng = np.random.default_rng(0)
    t = (
        torch.from_numpy(np.sort(rng.uniform(0, 10, 21)))
        if irregular
        else torch.linspace(0, 10, 21, dtype=torch.float64)
    )
    x = torch.from_numpy(rng.normal(size=(2, 21, 3)))
    found = nt.logsig_windows(x, 3, window_length, t)
    for one, path in zip(found, x, strict=True):
        expected = torchcdes_formula(path, 3, window_length, t)
        torch.testing.assert_close(one, expected, rtol=1e-10, atol=1e-10)  # float64, points interpolated once each


def test_logsig_windows_fills_missing_values_as_torchcde_does():
    x, t = torch.randn(6, 3, dtype=torch.float64), torch.arange(6.0, dtype=torch.float64)
    with_gaps = x.clone()
    with_gaps[0, 0] = with_gaps[2:4, 1] = with_gaps[5, 1] = torch.nan
    with_gaps[:, 2] = torch.nan
    filled = x.clone()
    filled[0, 0], filled[5, 1] = x[1, 0], x[4, 1]  # constant outside
    filled[2, 1], filled[3, 1] = (2 * x[1, 1] + x[4, 1]) / 3, (x[1, 1] + 2 * x[4, 1]) / 3  # linear inside
    filled[:, 2] = 0.0  # nothing is known
    torch.testing.assert_close(nt.logsig_windows(with_gaps, 2, 2.0), nt.logsig_windows(filled, 2, 2.0, t))
    assert gradcheck(
        lambda x: nt.logsig_windows(torch.where(with_gaps.isnan(), torch.nan, x), 2, 2.5), x.requires_grad_()
    )


def test_logsig_windows_refuses_times_that_are_none():
    with pytest.raises(ValueError, match="one increasing time"):
        nt.logsig_windows(torch.randn(4, 2), 2, 1.0, torch.tensor([0.0, 2.0, 1.0, 3.0]))


PATH = np.random.default_rng(0).normal(size=(2, 9, 3))
DEPTH = 4


def test_signatures_are_iisignatures():
    path = torch.from_numpy(PATH)
    expected = np.stack([iisignature.sig(one, DEPTH) for one in PATH])
    np.testing.assert_allclose(signatory.signature(path, DEPTH), expected, rtol=1e-10, atol=1e-10)
    streamed = np.stack([iisignature.sig(one, DEPTH, 2) for one in PATH])
    np.testing.assert_allclose(signatory.signature(path, DEPTH, stream=True), streamed, rtol=1e-10, atol=1e-10)
    assert signatory.signature_channels(3, DEPTH) == expected.shape[1]
    with_one = signatory.signature(path, DEPTH, scalar_term=True)
    assert (with_one[:, 0] == 1).all()
    assert signatory.signature_channels(3, DEPTH, scalar_term=True) == with_one.shape[1]
    based = signatory.signature(path, DEPTH, basepoint=True)
    expected = np.stack([iisignature.sig(np.pad(one, ((1, 0), (0, 0))), DEPTH) for one in PATH])
    np.testing.assert_allclose(based, expected, rtol=1e-10, atol=1e-10)


def test_log_signatures_in_every_mode():
    path = torch.from_numpy(PATH)
    prepared = iisignature.prepare(3, DEPTH, "SX")
    for mode, method in (("brackets", "S"), ("expand", "X")):
        expected = np.stack([iisignature.logsig(one, prepared, method) for one in PATH])
        np.testing.assert_allclose(signatory.logsignature(path, DEPTH, mode=mode), expected, rtol=1e-10, atol=1e-10)
    words = signatory.logsignature(path, DEPTH)
    np.testing.assert_array_equal(words, neuralrde.log_signature(PATH, DEPTH))
    assert words.shape[1] == signatory.logsignature_channels(3, DEPTH) == len(signatory.lyndon_words(3, DEPTH))
    streamed = signatory.logsignature(path, DEPTH, stream=True, mode="brackets")
    for end in range(2, 10):
        expected = signatory.logsignature(path[:, :end], DEPTH, mode="brackets")
        torch.testing.assert_close(streamed[:, end - 2], expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="expected one of 'words', 'brackets', 'expand'"):
        signatory.logsignature(path, DEPTH, mode="word")


def test_joining_and_turning_round():
    path = torch.from_numpy(PATH)
    halves = [signatory.signature(half, DEPTH) for half in (path[:, :5], path[:, 4:])]
    whole = signatory.signature(path, DEPTH)
    torch.testing.assert_close(signatory.signature_combine(*halves, 3, DEPTH), whole, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        signatory.signature(path[:, 4:], DEPTH, initial=halves[0]), whole, rtol=1e-10, atol=1e-10
    )
    for stream in (False, True):
        back = signatory.signature(path, DEPTH, inverse=True, stream=stream)
        last = back[:, -1] if stream else back
        nothing = signatory.signature_combine(whole, last, 3, DEPTH)
        torch.testing.assert_close(nothing, torch.zeros_like(nothing), rtol=0, atol=1e-9)  # large terms cancel
    words = signatory.signature_to_logsignature(whole, 3, DEPTH)
    torch.testing.assert_close(words, signatory.logsignature(path, DEPTH), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(signatory.logsignature(path, DEPTH, inverse=True), -words, rtol=1e-9, atol=1e-9)
    highest = signatory.extract_signature_term(whole, 3)
    assert highest.shape == (2, 81)
    assert signatory.extract_signature_term(whole, 3, 1).shape == (2, 3)


def test_words_and_brackets():
    assert signatory.all_words(2, 2) == [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    assert signatory.lyndon_words(2, 3) == [(0,), (1,), (0, 1), (0, 0, 1), (0, 1, 1)]
    assert signatory.lyndon_brackets(2, 3) == [0, 1, [0, 1], [0, [0, 1]], [[0, 1], 1]]


def test_modules():
    path = torch.from_numpy(PATH)
    torch.testing.assert_close(signatory.Signature(3)(path), signatory.signature(path, 3))
    torch.testing.assert_close(
        signatory.Logsignature(3, mode="expand")(path), signatory.logsignature(path, 3, mode="expand")
    )
    of_signature = signatory.SignatureToLogSignature(3, 3)(signatory.signature(path, 3))
    torch.testing.assert_close(of_signature, signatory.logsignature(path, 3), rtol=1e-9, atol=1e-9)


def test_a_path_is_asked_for_intervals_and_grows():
    points = torch.from_numpy(PATH)
    path = signatory.Path(points[:, :6], 3)
    path.update(points[:, 6:])
    for interval in ((None, None), (2, 7), (-4, None), (0, -1)):
        part = points[:, slice(*interval)]
        torch.testing.assert_close(path.signature(*interval), signatory.signature(part, 3))
        torch.testing.assert_close(
            path.logsignature(*interval, mode="brackets"), signatory.logsignature(part, 3, mode="brackets")
        )
    assert path.shape == path.size() == points.shape
    assert path.size(1) == 9
    assert path.signature_size() == (2, path.signature_channels())
    assert path.logsignature_size(-1) == 14
    with pytest.raises(ValueError, match="at least two"):
        path.signature(3, 4)
