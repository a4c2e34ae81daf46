"""What is nothing but rounding becomes zero, and nothing else does."""

import numpy as np
import pytest

from neuralrde import log_signatures
from neuralrde.signatures.rounding import without_rounding


def cleaned(path, depth, cuts):
    return without_rounding(log_signatures(path, depth, cuts=cuts), path, depth, cuts)


@pytest.mark.parametrize("rough", [True, False], ids=["noise", "walk"])
@pytest.mark.parametrize(("depth", "step"), [(2, 1024), (3, 512), (4, 128)])
def test_noise_is_kept(depth, step, rough):
    """It travels far within a long window, and stays in a small box."""
    path = np.random.default_rng(0).normal(size=(8, 2049, 3))
    path = path if rough else path.cumsum(axis=1)
    cuts = np.arange(0, 2049, step)
    raw = log_signatures(path, depth, cuts=cuts)
    lost = raw != cleaned(path, depth, cuts)
    # A coefficient may be a millionth of its box by chance: a few in a million times the number of words of a box.
    assert lost.mean() < 1e-3
    assert np.abs(raw[lost]).max(initial=0.0) < 1e-4 * np.abs(raw).max()


def test_straight_pieces_have_no_areas():
    rng = np.random.default_rng(1)
    corners = rng.normal(size=(5, 4, 3)) * [1.0, 1e3, 1e-3] + 100.0
    shares = np.linspace(0, 1, 8)[:-1, None]
    pieces = [corners[:, i, None] * (1 - shares) + corners[:, i + 1, None] * shares for i in range(3)]
    path = np.concatenate([*pieces, corners[:, 3:]], axis=1)
    for rounded in (path, path.astype(np.float32).astype(np.float64) * 1.0):
        found = cleaned(rounded - 100.0, 3, np.array([0, 7, 14, 21]))
        small = 3e-4 if rounded is not path else 0.0  # 100 in float32 leaves 4e-6, of a box of side 1e-3 a part of it
        boxes = np.abs(np.diff(rounded[:, ::7], axis=1))
        assert (np.abs(found[..., 3]) <= small * boxes[..., 0] * boxes[..., 1]).all()
    assert (cleaned(path, 3, np.array([0, 7, 14, 21]))[..., 3:] == 0).all()
    # Across a corner there is an area.
    assert (cleaned(path, 2, np.array([0, 14]))[..., 3:] != 0).all()


def test_each_sample_by_its_own_cuts():
    path = np.random.default_rng(2).normal(size=(3, 40, 2))
    cuts = np.array([[0, 1, 2, 39], [0, 10, 10, 30], [5, 6, 20, 21]])
    raw, found = log_signatures(path, 2, cuts=cuts), cleaned(path, 2, cuts)
    short = np.diff(cuts) <= 1
    assert (found[short][:, 2] == 0).all()
    np.testing.assert_array_equal(found[~short], raw[~short])
    for row in range(3):
        np.testing.assert_array_equal(found[row], cleaned(path[row : row + 1], 2, cuts[row])[0])
