"""The state of a stream as plain numbers, lists and strings: written as JSON, moved, restored, and never believed.

A state may come from a file. Names, shapes and ranges are those that the model makes, or it is refused; a wrong number
of the right kind makes wrong predictions of its own stream, and nothing else.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..training.archive import arrays_of

FORMAT = 1
# Whole numbers above this are not exact in JSON, which other languages read as floats.
_MOST = 2**53


def fingerprint(fitted: Any) -> str:
    """A checksum of all that a prediction depends on: the same for the same fitted model, wherever it was loaded."""
    digest = hashlib.sha256()
    for part in (fitted,) if fitted.closed_form in (None, fitted) else (fitted, fitted.closed_form):
        targets, blend = part.targets, getattr(part, "blend", None)
        plain = [type(part).__name__, part.transform.state(), repr(getattr(part, "windows", None))]
        plain += [getattr(part, "members", 1), None if blend is None else blend.factors, list(part.inputs.channels)]
        plain += [targets.one_dimensional, None if targets.classes is None else targets.classes.tolist()]
        digest.update(json.dumps(plain).encode())
        for name, array in sorted(arrays_of(part.model, "model").items()):
            # The same model where JAX computes in float64: its weights have been converted.
            array = np.ascontiguousarray(array, np.float32 if array.dtype == np.float64 else None)
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()[:32]


def to_plain(tree: Any) -> Any:
    """One row of a tree of arrays; NaN, which JSON has not, becomes None."""
    if isinstance(tree, dict):
        return {name: to_plain(part) for name, part in tree.items()}
    if isinstance(tree, list | tuple):
        return [to_plain(part) for part in tree]
    array = np.asarray(tree)
    if array.dtype.kind == "f" and np.isnan(array).any():
        missing, array = np.isnan(array), array.astype(object)
        array[missing] = None
    return array.tolist()


def from_plain(template: Any, plain: Any, where: str = "carried") -> Any:
    """What `to_plain` was given: a tree like the template, every number of it checked."""
    if isinstance(template, dict):
        if not isinstance(plain, Mapping) or set(plain) != set(template):
            raise ValueError(f"{where} is {_brief(plain)}; expected the names {sorted(template)}")
        return {name: from_plain(part, plain[name], f"{where}.{name}") for name, part in template.items()}
    if isinstance(template, list | tuple):
        if not isinstance(plain, list) or len(plain) != len(template):
            raise ValueError(f"{where} is {_brief(plain)}; expected a list of {len(template)}")
        return [
            from_plain(part, one, f"{where}[{i}]") for i, (part, one) in enumerate(zip(template, plain, strict=True))
        ]
    array = as_array(plain, template.shape, where)
    if not np.isfinite(array).all():
        raise ValueError(f"{where} has numbers that are not finite")
    kind = template.dtype.kind
    if kind in "ib":
        most = 1 if kind == "b" else min(_MOST, int(np.iinfo(template.dtype).max))
        if (array != np.round(array)).any() or array.min(initial=0) < 0 or array.max(initial=0) > most:
            raise ValueError(f"{where} is {_brief(plain)}; expected whole numbers from 0 to {most}")
    elif np.abs(array).max(initial=0) > np.finfo(template.dtype).max:
        raise ValueError(f"{where} has numbers beyond {template.dtype}")
    return array.astype(template.dtype)


def as_array(plain: Any, shape: tuple[int | None, ...], where: str) -> np.ndarray:
    """Nested lists of numbers as an array of a shape; None in it stands for any size, and in the lists for NaN."""
    try:
        array = np.array(plain, np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise ValueError(f"{where} is {_brief(plain)}; expected lists of numbers") from None
    if array.size == 0 and None in shape:
        return np.zeros([size or 0 for size in shape])
    if array.ndim != len(shape) or any(s not in (None, own) for s, own in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{where} has the shape {array.shape}; expected {shape}")
    return array


def check_head(state: Any, mark: str, last: int | None) -> Mapping:
    """Raise unless a state is one of this format, of this model, and of a stream that looks back as far."""
    if not isinstance(state, Mapping) or state.get("stream") != "neuralrde":
        raise ValueError(f"Got the state {_brief(state)}; expected what `stream.state()` returned, unchanged.")
    if state.get("format") != FORMAT or isinstance(state.get("format"), bool):
        raise ValueError(
            f"Got a state of format {_brief(state.get('format'))}; expected {FORMAT}, which this version of neuralrde "
            "writes. Go on with the version that wrote it, or begin the stream anew."
        )
    if state.get("model") != mark:
        raise ValueError(
            f"Got a state of the model {_brief(state.get('model'))}; expected {mark}, the fingerprint of this one, "
            "because another model's numbers mean nothing here. Load the model that the stream began with."
        )
    if state.get("last", "nothing") != last:
        raise ValueError(
            f"Got a state of a stream with last={_brief(state.get('last'))}; expected last={last}, as this one has."
        )
    return state


def _brief(what: Any) -> str:
    try:
        text = repr(what)
    except RecursionError:
        return "something too deep"
    return text if len(text) <= 80 else f"{text[:80]} ..."
