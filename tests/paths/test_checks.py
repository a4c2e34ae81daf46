import numpy as np
import pytest

from neuralrde.paths import check_finite


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (5, 2, 4, 3)])
def test_the_first_bad_value_is_named(shape):
    values = np.zeros(shape)
    check_finite(values)
    values[..., 2, 1] = np.nan
    values[..., 3, 2] = np.nan
    sample = {2: "Got NaN in channel 1", 3: "sample 0, channel 1", 4: r"sample \(0, 0\), channel 1"}[len(shape)]
    others = 2 * np.prod(shape[:-2], dtype=int) - 1
    words = rf"{sample}, at point 2 \(and {others} more such values\).*FillForward\(\).*FillLinear\(\)"
    with pytest.raises(ValueError, match=words):
        check_finite(values)


def test_channels_are_named():
    with pytest.raises(ValueError, match="channel 'pulse', at point 0;"):
        check_finite([[0.0, np.nan]], channels=["lactate", "pulse"])


def test_infinity_is_told_from_missing_values():
    with pytest.raises(ValueError, match=r"infinity in channel 1, at point 1;.*np\.isinf"):
        check_finite([[0.0, np.nan], [0.0, -np.inf]])


def test_one_number_is_no_path():
    with pytest.raises(ValueError, match=r"shape \(1,\); expected \(\.\.\., length, channels\)"):
        check_finite([1.0])
