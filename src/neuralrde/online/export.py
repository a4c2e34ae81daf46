"""A trained model's first state and its step as files for other runtimes: StableHLO, and ONNX.

    start: x0 -> state                         of streams that begin at these points
    step:  (log_signature, state) -> (answer, state)    one window later

A state is a list of arrays whose first axis is the stream, as that of every input and output; the size of a batch is
left open. To look into the running window, call `step` with its log-signature so far and keep only the answer. Before a
file is kept, it is read back and compared with the model.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np

from .._write import writing
from .following import Follower
from .programs import Programs
from .state import fingerprint

# float32, by another compiler: some hundred products and sums, each rounded to 6e-8 of its size.
_CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
FORMATS = ("stablehlo", "onnx")


def export_model(estimator: Any, folder: str | os.PathLike, *, formats: Sequence[str] = ("stablehlo",)) -> list[Path]:
    """Write `start` and `step` in these formats, and `model.json`, which says what goes in and out. Returns the files.

    The numbers that come out are the model's outputs: of a classifier, what a softmax makes probabilities of.

    Args:
        estimator: a fitted neural estimator whose model can be advanced window by window.
        folder: is made, if it is not there.
        formats: "stablehlo" (JAX, IREE and others) and "onnx" (onnxruntime), which needs the package jax2onnx.
    """
    if unknown := [one for one in formats if one not in FORMATS]:
        raise ValueError(f"Got the format {unknown[0]!r}; expected some of {list(FORMATS)}.")
    if not hasattr(estimator, "windows_"):
        raise ValueError(
            f"Got {type(estimator).__name__}, which has no state to advance; expected a neural estimator. It looks at "
            "series as a whole: load it with neuralrde where it is to predict."
        )
    follower, folder = Follower(estimator), Path(folder)
    functions, made = _functions(follower.programs), {}
    for kind in formats:
        for name, (function, example) in functions.items():
            data, call = {"stablehlo": _stablehlo, "onnx": _onnx}[kind](function, example, name)
            _check(call, function, example, f"{name}.{kind}")
            made[folder / f"{name}.{kind}"] = data
    made[folder / "model.json"] = json.dumps(_about(estimator, follower, functions), indent=1).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in made.items():
        with writing(path) as file:
            file.write(data)
    return list(made)


def _functions(programs: Programs) -> dict[str, tuple[Callable, list[np.ndarray]]]:
    """Both functions of flat arrays, each with an example of what it takes, for three streams."""
    model, rng = programs.model, np.random.default_rng(0)
    tree = jax.tree.structure(model.start(np.zeros(programs.channels, np.float32)))

    def start(x0):
        return tuple(jax.tree.leaves(jax.vmap(model.start)(x0)))

    def step(log_signature, *state):
        after = jax.vmap(model.advance)(jax.tree.unflatten(tree, state), log_signature)
        return (jax.vmap(model.answer)(after), *jax.tree.leaves(after))

    x0 = rng.normal(size=(3, programs.channels)).astype(np.float32)
    driving = rng.normal(size=(3, programs.controls)).astype(np.float32)
    return {"start": (start, [x0]), "step": (step, [driving, *programs.begin(x0)])}


def _stablehlo(function: Callable, example: list[np.ndarray], name: str) -> tuple[bytes, Callable]:
    batch = jax.export.symbolic_shape("batch")[0]
    shapes = [jax.ShapeDtypeStruct((batch, *array.shape[1:]), array.dtype) for array in example]
    data = bytes(jax.export.export(jax.jit(function), platforms=("cpu", "cuda", "tpu"))(*shapes).serialize())
    return data, jax.export.deserialize(bytearray(data)).call


def _onnx(function: Callable, example: list[np.ndarray], name: str) -> tuple[bytes, Callable]:
    try:
        import onnxruntime  # type: ignore
        from jax2onnx import to_onnx  # type: ignore
    except ImportError as error:
        raise ImportError(
            f"Got format 'onnx', and {error.name} is not installed. Write `pip install jax2onnx onnxruntime`."
        ) from None
    names = ["log_signature", *(f"state_{i}" for i in range(len(example) - 1))] if name == "step" else ["x0"]
    shapes: Any = [jax.ShapeDtypeStruct(("batch", *array.shape[1:]), array.dtype) for array in example]
    try:
        data = to_onnx(function, shapes, model_name=name, input_names=names).SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    except Exception as error:  # of many kinds, from inside of both packages
        raise ValueError(
            f"Got a model that jax2onnx cannot write ({type(error).__name__}: {str(error)[:200]}); expected one "
            "that it can, such as NeuralRDE with a FreeField. Nothing was written. Write formats=['stablehlo'], which "
            "takes every model."
        ) from None
    return data, lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True)))


def _check(call: Callable, function: Callable, example: list[np.ndarray], name: str) -> None:
    """Raise unless what was written computes what the model computes, for batches of two sizes."""
    for size in (1, len(example[0])):
        some = [array[:size] for array in example]
        for found, expected in zip(call(*some), jax.jit(function)(*some), strict=True):
            same = np.shape(found) == np.shape(expected) and np.allclose(found, expected, **_CLOSE)
            if not same:
                raise ValueError(f"Got {name}, which computes other numbers than the model. It was not written.")


def _about(estimator: Any, follower: Follower, functions: dict[str, Any]) -> dict[str, Any]:
    track, windows = follower.tracks[0], estimator.windows_
    example = functions["step"][1]
    return {
        "model": fingerprint(estimator),
        "estimator": type(estimator).__name__,
        "classes": estimator.classes_.tolist() if hasattr(estimator, "classes_") else None,
        "transform": estimator.transform_.state(),
        "windows": {"step": windows.step, "every": windows.every},
        "log_signature": {
            "channels": track.channels,
            "depth": list(track.depths),
            "scales": list(track.scales),
            "basis": track.basis,
            "size": track.controls,
            "increments_first": track.increments,
        },
        "state": [{"shape": list(array.shape[1:]), "type": str(array.dtype)} for array in example[1:]],
    }
