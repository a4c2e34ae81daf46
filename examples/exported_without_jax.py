"""Run an exported model with NumPy, onnxruntime and the compiled kernel. Neither JAX nor neuralrde is imported.

    python examples/exported_without_jax.py EXPORTED KERNEL SERIES.npy

EXPORTED is what `neuralrde export` wrote, KERNEL the file `_kernel_library.so` of an installed neuralrde, and
SERIES.npy an array (series, length, channels) without missing values. It prints the model's outputs as JSON.

It takes models with windows by count, of one scale, whose transform scales and adds time: `Standard(fill=None)`. It
leaves out one thing: neuralrde sets areas of straight pieces, which are pure rounding, to zero.
"""

import ctypes
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime


# --8<-- [start:kernel]
def log_signatures(kernel: ctypes.CDLL, path: np.ndarray, cuts: np.ndarray, depth: int, size: int) -> np.ndarray:
    """Of every window between two cuts, `(series, windows, size)`, in the basis of Lyndon words."""
    path, cuts = np.ascontiguousarray(path, np.float64), np.ascontiguousarray(cuts, np.int64)
    (series, length, channels), windows = path.shape, len(cuts) - 1
    out = np.empty((series, windows, size))
    sizes = (series, length, channels, 1, len(cuts), windows, 1, size, depth, 1)  # one row of cuts, dilation, threads
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (path, cuts, out))
    if kernel.neuralrde_forward64(*pointers, *map(ctypes.c_int64, sizes)) == 2:
        raise MemoryError("The kernel got no memory.")
    return out


# --8<-- [end:kernel]


def prepared(values: np.ndarray, transform: dict) -> np.ndarray:
    """Scaled, with time in front, by the statistics in the manifest."""
    for one in transform["transforms"]:
        if one["transform"] == "scale":
            values = (values - np.array(one["means_"])) / np.array(one["deviations_"])
        elif one["transform"] == "time" and not one["timed_"]:
            time = np.arange(values.shape[1]) / (one["duration"] or one["duration_"])
            values = np.concatenate([np.broadcast_to(time[:, None], (*values.shape[:2], 1)), values], axis=2)
        else:
            raise SystemExit(f"Got the transform {one['transform']!r}; expected scale and time, without given times.")
    return values


def outputs(folder: Path, library: Path, values: np.ndarray) -> np.ndarray:
    manifest = json.loads((folder / "manifest.json").read_text())
    about, step = manifest["log_signature"], manifest["windows"]["step"]
    if about["scales"] != [1] or about["basis"] != "words" or manifest["windows"]["shifts"] != [0] or not step:
        raise SystemExit("Got a model of several scales or shifts, or another basis; expected windows by count.")
    kernel = ctypes.CDLL(str(library.resolve()))
    if kernel.neuralrde_interface() != 8:
        raise SystemExit("Got a kernel of another version of neuralrde; expected the one that this was written for.")
    path = prepared(values, manifest["transform"])
    cuts = np.append(np.arange(0, path.shape[1] - 1, step), path.shape[1] - 1)
    driving = log_signatures(kernel, path, cuts, about["depth"][0], about["size"]).astype(np.float32)
    # --8<-- [start:run]
    run = {name: onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("start", "step")}
    names = [one["name"] for one in manifest["state"]]
    state = run["start"].run(None, {"x0": path[:, 0].astype(np.float32)})
    for window in range(driving.shape[1]):
        given = {"log_signature": driving[:, window], **dict(zip(names, state, strict=True))}
        output, *state = run["step"].run(None, given)
    # --8<-- [end:run]
    return output


if __name__ == "__main__":
    exported, library, series = map(Path, sys.argv[1:])
    print(json.dumps(outputs(exported, library, np.load(series)).tolist()))
