"""Model files of format 2, as neuralrde 0.1.0 wrote them, in the words of format 3."""

from typing import Any

import numpy as np

_MODEL = ("state", "width", "layers", "readout")
_OPTIMIZER = ("learning_rate", "weight_decay", "clip", "schedule")
_SAME = (
    "epochs", "batch_size", "validation_fraction", "shuffle", "patience", "time_budget", "warm_start", "random_state",
    "verbose", "class_weight", "flatten",
)  # fmt: skip
_LOSSES = {"squared_error": "squared-error", "huber": "huber"}


def renewed(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A header and arrays of format 2 as format 3 has them."""
    old, learned = dict(header["parameters"]["pairs"]), dict(header["learned"])
    kept = dict(learned.pop("kept_")["pairs"]) if "kept_" in learned else old
    transform = {"name": "standard", "fill": kept["fill"], "time": kept["time_channel"]}
    transform |= {name: old[name] for name in ("scale", "base_point") if name in old}
    parameters = {name: old[name] for name in _SAME if name in old}
    parameters["prepare" if header["estimator"] == "LogSignatureTransformer" else "transform"] = {"part": transform}
    learned["transform_"] = {"transform": learned.pop("steps_")["step"]}
    if header["estimator"] == "LogSignatureTransformer":
        windows = {"depth": old["depth"], "step": old["step"], "every": old["every"]}
        windows |= {"count": 1} if old["step"] is None and old["every"] is None else {}
        learned["windows_per_series_"] = learned.pop("windows_")
        return header | {"parameters": parameters | {"windows": {"part": windows}}, "learned": learned}, arrays
    windows = {"depth": kept["depth"], "step": kept["step"], "every": kept["every"], "shifts": old["cuts"]}
    model = {"name": "neural-rde", "solver": "heun", **{name: kept[name] for name in _MODEL}}
    optimizer = {name: old[name] for name in _OPTIMIZER}
    # A decay was one per unit of learning rate then; no training is gone on with, so that it only has to be a number.
    parameters |= {"windows": {"part": windows}, "model": {"part": model}, "optimizer": {"part": optimizer}}
    cut, shifts = learned.pop("cut_"), learned.pop("cuts_")
    by = {"every": cut} if kept["every"] is not None else {"step": cut}
    learned.pop("step_")
    learned |= {
        "windows_": {"part": {"depth": learned.pop("depth_"), "shifts": shifts, **by}},
        "config_": {"part": model},
        "loss_": {"part": "cross-entropy"},
    }
    if header["estimator"] == "NeuralRDERegressor":
        parameters["loss"] = _LOSSES[old["loss"]]
        # How far labels spread is in the model; the loss has done its work.
        learned["loss_"] = {"part": {"name": parameters["loss"]}}
        learned["scores_"] = None
    floats = {_new_name(name): _as_floats(array) if name.endswith(".bits") else array for name, array in arrays.items()}
    return header | {"parameters": parameters, "learned": learned}, floats


def _new_name(name: str) -> str:
    return name.removesuffix(".bits") + ".array" if name.endswith(".bits") else name


def _as_floats(array: np.ndarray) -> np.ndarray:
    """Statistics were floats held as whole numbers of the same bits."""
    return array.view(f"f{array.itemsize}") if array.dtype.kind == "i" else array
