"""A trained model's first state and its step as files for other runtimes: StableHLO, and ONNX.

    start: x0 -> state                         of streams that begin at these points
    step:  (log_signature, state) -> (output, state)    one window later

A state is a list of arrays whose first axis is the stream, as that of every input and output; the size of a batch is
left open. To look into the running window, call `step` with its log-signature so far and keep only the output. Before a
file is kept, it is read back and compared with the model.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.export
import numpy as np

from .._types import Options
from .._version import __version__
from .._write import private_folder, writing
from ..errors import setting
from ..models import Ensemble
from .model import Programs, StreamModel
from .stream import fingerprint

# float32, by another compiler: some hundred products and sums, each rounded to 6e-8 of its size.
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5
# Batches that files are compared with, and windows one after the other, so that states are those of real streams.
_SIZES, _WINDOWS = (1, 3, 8), 3
FORMATS = ("stablehlo", "onnx")
Arrays = list[np.ndarray]


class _Function(NamedTuple):
    """A function of flat arrays, what goes in and out by name, and examples of what it takes, for eight streams."""

    call: Callable
    inputs: list[str]
    outputs: list[str]
    examples: list[Arrays]


def export_model(
    estimator: Any,
    folder: str | os.PathLike,
    *,
    formats: Sequence[str] = ("stablehlo", "onnx"),
    neural_part: bool = False,
) -> list[Path]:
    """Write `start` and `step` in these formats, and `manifest.json`, which says what goes in and out.

    The numbers that come out are the model's outputs: of a classifier, what a softmax makes probabilities of. Each
    file is compared with the model, for batches of 1, 3 and 8 streams, and nothing is written if one differs.

    Args:
        estimator: a fitted neural estimator whose model can be advanced window by window.
        folder: is made, if it is not there.
        formats: "stablehlo" (JAX, IREE and others) and "onnx" (onnxruntime and others).
        neural_part: whether to leave out the closed form that is blended into the estimator's predictions, which looks
            at series as a whole. The outputs are then those of the neural model alone, and not what `predict` gives.

    Returns:
        The files.
    """
    if isinstance(formats, str) or not formats:
        raise ValueError(f"Got formats={formats!r}; expected a list of some of {list(FORMATS)}.")
    if unknown := [one for one in formats if one not in FORMATS]:
        raise ValueError(f"Got the format {unknown[0]!r}; expected some of {list(FORMATS)}.")
    fitted, got = estimator.fitted_, f"Got {type(estimator).__name__}"
    if not estimator._task or fitted.windows is None:
        raise ValueError(
            f"{got}, which has no state to advance; expected a neural estimator. It looks at series as a whole: load "
            "it with neuralrde where it is to predict."
        )
    if fitted.neural_model is None:
        raise ValueError(
            f"{got} whose predictions are the closed form's alone, because its neural model has no weight; expected a "
            f"neural model. Fit with {setting('closed_form', False)} to train one."
        )
    blended = fitted.closed_form is not None
    if blended and not neural_part:
        raise ValueError(
            f"{got} in whose predictions the closed form has a weight of {fitted.blend.factors[0]:.2g}, and that looks "
            f"at series as a whole; expected a neural model alone. Fit with {setting('closed_form', False)}, or export "
            "the neural model alone, with other predictions: neural_part=True."
        )
    stream_model, folder = StreamModel(fitted), Path(folder)
    # The members' mean is multiplied before it is a prediction, unless its factor is for a blend.
    factor = 1.0 if fitted.members == 1 or blended else float(fitted.blend.factors[1])
    functions, made = _functions(stream_model.programs, factor), {}
    for name, function in functions.items():
        expected = [_arrays(jax.jit(function.call)(*example)) for example in function.examples]
        for kind in formats:
            data, call = {"stablehlo": _stablehlo, "onnx": _onnx}[kind](function, name)
            _check(call, function, expected, f"{name}.{kind}")
            made[folder / f"{name}.{kind}"] = data
    manifest = _manifest(estimator, stream_model, functions)
    manifest["files"] = {path.name: hashlib.sha256(data).hexdigest() for path, data in made.items()}
    made[folder / "manifest.json"] = json.dumps(manifest, indent=1).encode()
    private_folder(folder)
    for path, data in made.items():
        with writing(path) as file:
            file.write(data)
    return list(made)


def _arrays(found: Any) -> Arrays:
    return [np.asarray(one) for one in found]


def _functions(programs: Programs, factor: float) -> dict[str, _Function]:
    model, rng, most = programs.model, np.random.default_rng(0), max(_SIZES)
    tree = jax.tree.structure(jax.eval_shape(model.start, np.zeros(programs.channels, np.float32)))

    def start(x0):
        return tuple(jax.tree.leaves(jax.vmap(model.start)(x0)))

    def step(log_signature, *state):
        after = jax.vmap(model.advance)(jax.tree.unflatten(tree, state), log_signature)
        return (factor * jax.vmap(model.output)(after), *jax.tree.leaves(after))

    # Log-signatures of the size of those in training: far larger ones turn oscillators so often that float32 loses
    # count.
    scale = np.abs(np.asarray((model.first if isinstance(model, Ensemble) else model).scale.factors.value, np.float64))
    size = 0.3 / np.where(scale > 0, scale, 1.0)
    x0, advance = rng.normal(size=(most, programs.channels)).astype(np.float32), jax.jit(step)
    examples, state = [], _arrays(jax.jit(start)(x0))
    for _ in range(_WINDOWS):
        examples.append([(size * rng.normal(size=(most, programs.controls))).astype(np.float32), *state])
        state = _arrays(advance(*examples[-1])[1:])
    before, after = ([f"{name}_{i}" for i in range(len(state))] for name in ("state", "next"))
    return {
        "start": _Function(start, ["x0"], before, [[x0]]),
        "step": _Function(step, ["log_signature", *before], ["output", *after], examples),
    }


def _stablehlo(function: _Function, name: str) -> tuple[bytes, Callable]:
    batch, example = jax.export.symbolic_shape("batch")[0], function.examples[0]
    shapes = [jax.ShapeDtypeStruct((batch, *array.shape[1:]), array.dtype) for array in example]
    try:
        import flatbuffers  # noqa: F401 # type: ignore (JAX's own message does not say how to get it)
    except ImportError as error:
        raise _missing("stablehlo", error) from None
    data = bytes(jax.export.export(jax.jit(function.call), platforms=("cpu", "cuda", "tpu"))(*shapes).serialize())
    return data, jax.jit(jax.export.deserialize(bytearray(data)).call)  # compiled once for each size


def _onnx(function: _Function, name: str) -> tuple[bytes, Callable]:
    try:
        import onnxruntime  # type: ignore

        from .onnx_model import onnx_model
    except ImportError as error:
        raise _missing("onnx", error) from None
    given = {"inputs": function.inputs, "outputs": function.outputs, "name": name}
    data = onnx_model(function.call, function.examples[0], **given).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; it warns of shapes that it infers itself
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    # An input on which nothing depends is one nonetheless.
    return data, lambda *arrays: session.run(None, dict(zip(function.inputs, arrays, strict=True)))


def _missing(kind: str, error: ImportError) -> ImportError:
    return ImportError(
        f"Got format {kind!r}, and {error.name} is not installed. Write `pip install 'neuralrde[export]'`."
    )


def _check(call: Callable, function: _Function, expected: list[Arrays], name: str) -> None:
    """Raise unless what was written computes what the model computes, for batches of several sizes."""
    for example, whole in zip(function.examples, expected, strict=True):
        for size in _SIZES:
            found, wanted = _arrays(call(*(array[:size] for array in example))), [one[:size] for one in whole]
            # Beside a large sum, its state has what rounding took from it, which is not exact.
            reach = max(1.0, *(float(np.abs(one).max(initial=0)) for one in wanted if one.dtype.kind == "f"))
            if [(one.shape, one.dtype) for one in found] != [(one.shape, one.dtype) for one in wanted] or not all(
                np.allclose(*pair, rtol=_RELATIVE, atol=_ABSOLUTE * reach) for pair in zip(found, wanted, strict=True)
            ):
                raise ValueError(f"Got {name}, which computes other numbers than the model. It was not written.")


def _manifest(estimator: Any, stream_model: StreamModel, functions: dict[str, _Function]) -> Options:
    fitted, step, windows = estimator.fitted_, functions["step"], estimator.fitted_.windows
    windows_of_stream, (_, *state) = stream_model.shifts[0], step.examples[0]
    classes = None if fitted.targets.classes is None else fitted.targets.classes.tolist()
    outputs = int(np.shape(jax.eval_shape(step.call, *step.examples[0])[0])[1])
    return {
        "neuralrde": __version__,
        "model": fingerprint(fitted),
        "estimator": type(estimator).__name__,
        "loss": type(fitted.loss).__name__,
        "classes": classes,
        # A regressor's outputs are in the units of its training targets.
        "output": {"size": outputs, "means": "targets' units" if classes is None else "logits"},
        "channels": list(stream_model.names),
        # After the first point of the prepared series, x0 holds these columns as numbers; see `StaticCoding`.
        "static": None if fitted.inputs.static is None else asdict(fitted.inputs.static),
        "transform": fitted.transform.state(),
        "windows": {"step": windows.step, "every": windows.every, "shifts": [one.shift for one in stream_model.shifts]},
        "log_signature": {
            "channels": windows_of_stream.channels,
            "depth": list(windows_of_stream.depths),
            "scales": [
                None if one == float("inf") else one for one in windows_of_stream.scales
            ],  # null: the whole past
            "basis": windows_of_stream.basis,
            "size": windows_of_stream.controls,
            "increments_first": windows_of_stream.increments,
        },
        "functions": {name: {"inputs": one.inputs, "outputs": one.outputs} for name, one in functions.items()},
        "state": [
            {"name": name, "shape": list(array.shape[1:]), "type": str(array.dtype)}
            for name, array in zip(step.inputs[1:], state, strict=True)
        ],
    }
