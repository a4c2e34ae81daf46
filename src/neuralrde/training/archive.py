"""One file of arrays and plain settings: safetensors, with JSON in its header and a checksum over both.

Nothing in such a file is executed or imported.
"""

import json
import os
import re
from hashlib import sha256
from typing import Any

import equinox as eqx
import jax
import numpy as np
import safetensors
import safetensors.numpy

from .._types import Model, Options
from .._version import __version__
from .._write import writing

# Fewer digits than Python refuses to read.
_VERSION = re.compile(r"([0-9]{1,9})(\.[0-9A-Za-z.+-]{0,99})?")


class FileRefused(ValueError):
    """A model file or checkpoint that is damaged, of another kind, or of another version."""


def write_archive(path: str | os.PathLike, kind: str, *, format: int, header: dict, arrays: dict[str, np.ndarray]):
    """Write atomically. `kind` and `format` say what the file is and how it is laid out."""
    text = json.dumps({"kind": kind, "format": format, "version": __version__, **header})
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    content = safetensors.numpy.save(arrays, metadata={"neuralrde": text, "sha256": _checksum(text, arrays)})
    with writing(path) as file:
        file.write(_same_bytes_each_time(content))


def read_archive(
    path: str | os.PathLike, kind: str, *, format: int | tuple[int, ...]
) -> tuple[Options, dict[str, np.ndarray]]:
    """The header and the arrays, after all checks; `FileRefused` says in one sentence what is wrong.

    Sizes in the file are compared with the file's own before anything is allocated (safetensors does that).
    """
    try:
        with safetensors.safe_open(path, framework="numpy") as file:  # type: ignore
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever a damaged file makes a reader stumble over
        raise FileRefused(
            f"Got the file {str(path)!r}, which cannot be read as safetensors ({error}): it is truncated, "
            "damaged, or something else."
        ) from None
    text = metadata.get("neuralrde")
    if text is None:
        raise FileRefused(f"Got the file {str(path)!r}, which was not written by neuralrde.")
    if metadata.get("sha256") != _checksum(text, arrays):
        raise FileRefused(f"Got the file {str(path)!r}, whose checksum is not that of its content: it is damaged.")
    try:
        header = json.loads(text)
        got, layout, version = header["kind"], header["format"], header["version"]
        major = int(_VERSION.fullmatch(version)[1])  # type: ignore (None has no such thing: damaged)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileRefused(f"Got the file {str(path)!r}, whose settings cannot be read: it is damaged.") from None
    if got != kind:
        raise FileRefused(f"Got the file {str(path)!r}, which holds a {got}; expected a {kind}.")
    formats = (format,) if isinstance(format, int) else format
    if layout not in formats or major > int(__version__.partition(".")[0]):
        raise FileRefused(
            f"Got the file {str(path)!r} in format {layout!r}, written by neuralrde {version}; expected format "
            f"{formats[-1]}, which neuralrde {__version__} reads. Use the version that wrote it."
        )
    return header, arrays


def arrays_of(tree: Model, prefix: str = "") -> dict[str, np.ndarray]:
    """All arrays of a model or state, by the names of the attributes that lead to them.

    >>> sorted(arrays_of({"weight": np.ones(2), "name": "w"}, "model"))
    ["model['weight']"]
    """
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, _is_array))
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def with_arrays(tree: Model, arrays: dict[str, np.ndarray], prefix: str = "", *, exact: bool = False) -> Model:
    """The tree with its arrays replaced by those of the same names; `arrays_of` undone.

    Where JAX computes in float64 (`jax_enable_x64`) a tree has other floats than the arrays of a program where it does
    not: they are converted, unless all must be `exact`.

    The tree may hold shapes only (`eqx.filter_eval_shape`), so that nothing is allocated on the word of a file.
    """
    dynamic, static = eqx.partition(tree, _is_array)
    leaves, structure = jax.tree_util.tree_flatten_with_path(dynamic)
    names = [prefix + jax.tree_util.keystr(path) for path, _ in leaves]
    absent = sorted(set(names) - set(arrays))
    if absent:
        raise FileRefused(f"Got a file without the array {absent[0]!r}, which these settings need.")
    filled = []
    for name, (_, leaf) in zip(names, leaves, strict=True):
        new = arrays[name]
        if not exact and {new.dtype, leaf.dtype} == {np.dtype(np.float32), np.dtype(np.float64)}:
            with np.errstate(over="ignore"):
                new = new.astype(leaf.dtype)
        if new.shape != leaf.shape or new.dtype != leaf.dtype:
            raise FileRefused(
                f"Got a file with {name!r} of shape {new.shape} and type {new.dtype}; expected {leaf.shape} and "
                f"{leaf.dtype}, for these settings."
            )
        # `jnp.asarray` would compile a program for every shape.
        filled.append(new if isinstance(leaf, np.ndarray) else jax.device_put(new))
    return eqx.combine(jax.tree_util.tree_unflatten(structure, filled), static)


def _same_bytes_each_time(content: bytes) -> bytes:
    """A safetensors file with its metadata sorted. Safetensors keeps them in a hash map, whose order is random."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    encoded = json.dumps(header, separators=(",", ":")).encode()
    # Arrays begin at multiples of eight bytes, as safetensors has them.
    encoded += b" " * (-len(encoded) % 8)
    return len(encoded).to_bytes(8, "little") + encoded + content[8 + size :]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def _checksum(text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        # Bytes, because bfloat16 has no buffer of its own.
        digest.update(np.asarray(array, order="C").reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
