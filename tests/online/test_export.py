"""What is exported is the model, in files that JAX alone reads back."""

import json

import jax.export
import numpy as np
import pytest

from neuralrde import LogSignatureRegressor, Windows
from neuralrde.estimators.examples import inputs_of
from neuralrde.online import export, export_model

from .conftest import irregular, untrained


def test_stablehlo_carries_a_series_through_its_windows(tmp_path):
    walks = irregular(samples=5, length=50)
    estimator = untrained(walks, windows=Windows(step=7))
    files = export_model(estimator, tmp_path / "out")
    assert sorted(path.name for path in files) == ["model.json", "start.stablehlo", "step.stablehlo"]
    start, step = (
        jax.export.deserialize(bytearray((tmp_path / "out" / f"{name}.stablehlo").read_bytes()))
        for name in ("start", "step")
    )
    x0, logs = inputs_of(estimator.model_, estimator.transform_(walks), estimator.windows_).arrays
    state = start.call(x0)
    for window in range(logs.shape[1]):
        answer, *state = step.call(logs[:, window], *state)
    # float32, compiled for batches of any size.
    np.testing.assert_allclose(answer[:, 0], estimator.predict(walks), rtol=1e-4, atol=1e-5)
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert about["log_signature"]["size"] == logs.shape[2]
    assert [tuple(one["shape"]) for one in about["state"]] == [np.shape(one)[1:] for one in state]


def test_what_differs_from_the_model_is_not_written(tmp_path, monkeypatch):
    walks = irregular(samples=5, length=50)
    wrong = lambda function, example, name: (b"", lambda *arrays: [1.5 * np.asarray(x) for x in function(*arrays)])
    monkeypatch.setattr(export, "_stablehlo", wrong)
    with pytest.raises(ValueError, match=r"Got start.stablehlo, which computes other numbers than the model"):
        export_model(untrained(walks), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_refusals(tmp_path):
    walks = irregular(samples=20, length=50)
    closed = LogSignatureRegressor(draws=2, maps=2).fit(walks, np.nanmean(walks.values, axis=(1, 2)))
    with pytest.raises(ValueError, match="Got LogSignatureRegressor, which has no state to advance"):
        export_model(closed, tmp_path)
    with pytest.raises(ValueError, match="Got the format 'h5'; expected some of"):
        export_model(untrained(walks), tmp_path, formats=["h5"])
