"""What is exported is the model, in files that JAX and onnxruntime read back."""

import hashlib
import json
import stat
import subprocess
import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from neuralrde import Config, LogSignatureRegressor, NeuralRDEClassifier, Series, Windows
from neuralrde.estimators.sources import inputs_of
from neuralrde.fields import LinearField
from neuralrde.models import LinearRDE, LogNCDE, LogSigSSM, MultiScaleRDE, NeuralCDE, NeuralRDE, OscillatorRDE
from neuralrde.online import export, export_model
from neuralrde.online.onnx_model import onnx_model
from neuralrde.signatures import _kernel
from neuralrde.solvers import Adaptive, Exponential
from neuralrde.tools.cli import main
from neuralrde.transforms import Standard

from .conftest import blended_with, irregular, readout, untrained

pytestmark = pytest.mark.long

small = {"state": 6, "width": 8}
tiny = {**small, "layers": 2}
FAMILIES = {
    **{f"neural-rde, {name}": Config(NeuralRDE, **tiny, readout=readout(name))
       for name in ("mean", "pools", "mean-energy")},
    "neural-rde, linear": Config(NeuralRDE, state=6, field=LinearField, solver=Exponential()),
    "neural-rde, a target at every point": Config(NeuralRDE, **tiny),  # whose readout is "every"
    "neural-cde": Config(NeuralCDE, **tiny),
    "log-ncde": Config(LogNCDE, **tiny),
    "linear-rde": Config(LinearRDE, **small),
    "oscillator-rde": Config(OscillatorRDE, **small),
    "logsig-ssm": Config(LogSigSSM, **small, conv=3),
    "multi-scale-rde": Config(MultiScaleRDE, **small, units=8, stride=4),
    "multi-scale-rde, two members": Config(MultiScaleRDE, **small, units=8, stride=4, blocks=1),
}  # fmt: skip
# float32, by another compiler, over seven windows; predictions are around 1.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def loaded(folder, kind):
    """`start` and `step` as functions of arrays, by the format's own runtime."""
    if kind == "stablehlo":
        read = lambda name: jax.export.deserialize(bytearray((folder / f"{name}.stablehlo").read_bytes()))
        return [jax.jit(read(name).call) for name in ("start", "step")]

    def session(name):
        one = onnxruntime.InferenceSession(folder / f"{name}.onnx", providers=["CPUExecutionProvider"])
        names = [given.name for given in one.get_inputs()]
        return lambda *arrays: one.run(None, dict(zip(names, arrays, strict=True)))

    return [session(name) for name in ("start", "step")]


@pytest.fixture(scope="module")
def walks():
    return irregular(samples=8, length=50)


@pytest.mark.parametrize("family", FAMILIES)
def test_both_formats_carry_a_series_through_its_windows(family, walks, tmp_path):
    several = family.startswith("multi-scale")
    windows, members = Windows(step=7, depth=2, scales=(1, 4) if several else (1,)), 1 + family.endswith("members")
    targets = np.nan_to_num(walks.values[..., :1]) if family.endswith("every point") else None
    estimator = untrained(walks, model=FAMILIES[family], windows=windows, members=members, y=targets)
    if members > 1:
        estimator = blended_with(estimator, None, (0.0, 0.7))  # by which the members' mean is multiplied
    files = export_model(estimator, tmp_path / "out")
    names = [f"{name}.{kind}" for name in ("start", "step") for kind in ("onnx", "stablehlo")]
    assert sorted(path.name for path in files) == ["manifest.json", *names]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    x0, logs = (
        one.astype(np.float32) for one in inputs_of(estimator.model_, estimator.transform_(walks), windows).arrays
    )
    predicted = estimator.predict(walks)
    assert estimator.per_time_ == family.endswith("every point")
    if predicted.ndim > 1:  # at every point: the last
        predicted = predicted.reshape(len(walks), -1)[:, -1]
    assert np.ptp(predicted) > 1e-3  # they are not all the same
    for kind in ("onnx", "stablehlo"):
        start, step = loaded(tmp_path / "out", kind)
        for size in (1, 8):
            state = start(x0[:size])
            for window in range(logs.shape[1]):
                output, *state = step(logs[:size, window], *state)
            np.testing.assert_allclose(np.asarray(output)[:, 0], predicted[:size], **CLOSE)
    about = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert about["log_signature"]["size"] == logs.shape[2]
    for one, array in zip(about["state"], state, strict=True):
        assert (tuple(one["shape"]), one["type"]) == (array.shape[1:], str(array.dtype))
    for name, digest in about["files"].items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest
    assert set(about["files"]) == set(names)


def test_the_example_needs_neither_jax_nor_neuralrde(root, tmp_path):
    if not _kernel.available():
        pytest.skip("the kernel was not built")
    values = np.random.default_rng(0).normal(size=(5, 40, 2)).cumsum(axis=1)
    estimator = untrained(Series.from_array(values), windows=7, transform=Standard(fill=None))
    export_model(estimator, tmp_path / "out", formats=["onnx"])
    np.save(tmp_path / "series.npy", values)
    script, library = (
        root / "examples" / "exported_without_jax.py",
        Path(_kernel.__file__).parent / "_kernel_library.so",
    )
    code = (
        "import runpy, sys; sys.modules.update(jax=None, neuralrde=None); sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, script, tmp_path / "out", library, tmp_path / "series.npy"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.array(json.loads(done.stdout))[:, 0], estimator.predict(values), **CLOSE)


def test_the_neural_part_of_a_blend(walks, tmp_path):
    alone, blended = (untrained(walks, members=2) for _ in range(2))
    closed = LogSignatureRegressor(draws=2, maps=2).fit(walks, np.nanmean(walks.values, axis=(1, 2)))
    blended = blended_with(blended, closed, (0.7, 0.3))
    for name, estimator in (("alone", alone), ("blended", blended)):
        export_model(estimator, tmp_path / name, formats=["stablehlo"], neural_part=estimator is blended)
    x0, logs = inputs_of(alone.model_, alone.transform_(walks), alone.windows_).arrays
    first, other = ([np.asarray(step(logs[:, 0], *start(x0))[0])] for start, step in
                    (loaded(tmp_path / name, "stablehlo") for name in ("alone", "blended")))  # fmt: skip
    np.testing.assert_array_equal(first, other)


def test_the_command_writes_a_classifier(walks, tmp_path, capsys):
    labels = np.where(np.nanmean(walks.values, axis=(1, 2)) > 0, "up", "down")
    options = {"model": Config(NeuralRDE, **tiny), "windows": 8, "members": 1, "epochs": 1, "verbose": False}
    NeuralRDEClassifier(**options, random_state=0).fit(walks, labels).save(tmp_path / "m.nrde")
    out = tmp_path / "out"
    assert main(["export", str(tmp_path / "m.nrde"), "--out", str(out), "--format", "onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["start.onnx", "step.onnx", "manifest.json"]
    about = json.loads((out / "manifest.json").read_text("utf-8"))
    assert about["classes"] == ["down", "up"]
    assert about["output"] == {"size": 2, "means": "logits"}
    assert main(["export", str(tmp_path / "m.nrde"), "--format", "onnx,h5"]) == 1
    assert "Got the format 'h5'; expected some of ['stablehlo', 'onnx']" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["stablehlo", "onnx"])
def test_what_differs_from_the_model_is_not_written(kind, walks, tmp_path, monkeypatch):
    wrong = lambda function, name: (b"", lambda *arrays: [1.5 * np.asarray(x) for x in function.call(*arrays)])
    monkeypatch.setattr(export, f"_{kind}", wrong)
    with pytest.raises(ValueError, match=f"Got start.{kind}, which computes other numbers than the model"):
        export_model(untrained(walks), tmp_path / "out", formats=[kind])
    assert not (tmp_path / "out").exists()


def test_refusals(walks, tmp_path):
    closed = LogSignatureRegressor(draws=2, maps=2).fit(walks, np.nanmean(walks.values, axis=(1, 2)))
    with pytest.raises(ValueError, match="Got LogSignatureRegressor, which has no state to advance"):
        export_model(closed, tmp_path)
    with pytest.raises(ValueError, match="Got the format 'h5'; expected some of"):
        export_model(untrained(walks), tmp_path, formats=["h5"])
    with pytest.raises(ValueError, match="Got formats='onnx'; expected a list"):
        export_model(untrained(walks), tmp_path, formats="onnx")
    blended = blended_with(untrained(walks, members=2), closed, (0.5, 0.5))
    with pytest.raises(ValueError, match=r"has a weight of 0\.5.*Fit with closed_form=False, or.*neural_part=True"):
        export_model(blended, tmp_path)
    blended = blended_with(blended, closed, (1.0, 0.0), model=None)
    with pytest.raises(ValueError, match=r"the closed form's alone.*Fit with closed_form=False"):
        export_model(blended, tmp_path, neural_part=True)
    adaptive = untrained(walks, model=Config(NeuralRDE, **tiny, solver=Adaptive()))
    with pytest.raises(
        ValueError, match="knows no operator of ONNX; expected one of our models with a solver of fixed"
    ):
        export_model(adaptive, tmp_path / "out", formats=["onnx"])
    assert not (tmp_path / "out").exists()


def run_by_onnx(function, *arrays):
    outputs = jax.eval_shape(function, *arrays)
    names = [f"in{k}" for k in range(len(arrays))], [f"out{k}" for k in range(len(outputs))]
    model = onnx_model(function, arrays, inputs=names[0], outputs=names[1], name="f")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names[0], arrays, strict=True)))


def test_small_numbers_lose_nothing():
    """Near zero, exp(x) - 1 and log(1 + x) would keep few digits."""
    x = np.array([[0.0], [1e-6], [-3e-4], [0.2], [-5.0], [20.0]], np.float32)
    found = run_by_onnx(lambda x: (jnp.expm1(x), jnp.log1p(jnp.abs(x))), x)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(found[0], np.expm1(exact), rtol=1e-6)  # a few roundings of 6e-8
    np.testing.assert_allclose(found[1], np.log1p(np.abs(exact)), rtol=1e-6)


def test_each_stream_stops_a_loop_by_itself():
    halved = lambda x: (jax.vmap(lambda x: jax.lax.while_loop(lambda x: x > 1, lambda x: x / 2, x))(x),)
    x = np.array([0.5, 3.0, 1000.0], np.float32)
    np.testing.assert_array_equal(run_by_onnx(halved, x)[0], halved(x)[0])  # powers of two are exact


def test_a_primitive_that_is_not_in_the_table_is_named():
    with pytest.raises(ValueError, match="JAX's primitive 'cumsum', for which neuralrde knows no operator of ONNX"):
        run_by_onnx(lambda x: (jnp.cumsum(x, axis=1),), np.ones((2, 3), np.float32))


def test_a_missing_package_is_named():
    error = export._missing("onnx", ImportError(name="onnxruntime"))
    assert "onnxruntime is not installed. Write `pip install 'neuralrde[export]'`" in str(error)
