"""Files that earlier versions wrote still load, and predict what they did then."""

from pathlib import Path

import numpy as np
import pytest

from neuralrde.estimators import load

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize("version", ["0.1.0"])
@pytest.mark.parametrize(
    ("name", "call"), [("classifier", "predict_proba"), ("regressor", "predict"), ("transformer", "transform")]
)
def test_it_predicts_what_it_did(version, name, call):
    expected = np.load(FILES / f"expected-{version}.npz")
    found = getattr(load(FILES / f"{name}-{version}.nrde"), call)(expected["X"])
    # Another processor or version of XLA rounds float32 differently; a wrong statistic would be off by far more.
    np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-5)
