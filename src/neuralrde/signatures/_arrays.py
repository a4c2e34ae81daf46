"""NumPy in, NumPy out; JAX in, JAX out. And what kind of numbers a path may hold."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def as_floating(values: Any, *, name: str = "path") -> Any:
    """A JAX or NumPy array of float32 or float64: whole numbers become floating, everything else is refused."""
    if not isinstance(values, jax.Array):
        try:
            values = np.asarray(values)
        except ValueError as error:  # a ragged list of lists
            raise ValueError(
                f"Got a {name} that is not a rectangular array ({error}). Series of different lengths go into "
                "`neuralrde.Series.from_arrays([...])`, which pads them."
            ) from None
    kind = values.dtype
    if not (jnp.issubdtype(kind, jnp.floating) or jnp.issubdtype(kind, jnp.integer) or kind == bool):
        raise TypeError(
            f"Got a {name} of type {kind}; expected real numbers, because a path is followed in R^channels. "
            f"Convert it first, for example `np.asarray({name}, dtype=np.float64)`."
        )
    if kind in (np.float32, np.float64):
        return values
    wide = jnp.issubdtype(kind, jnp.integer) and not isinstance(values, jax.Array)
    return values.astype(np.float64 if wide else np.float32)


def numpy_in_numpy_out(function: Callable) -> Callable:
    """Let a JAX function of one or more arrays take NumPy arrays and answer in kind, in their own precision.

    Without this, JAX would silently turn float64 into float32 unless the user had set `jax_enable_x64`.
    """

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if any(isinstance(leaf, jax.Array) for leaf in args):
            return function(*args, **kwargs)
        with jax.enable_x64(True):
            args = [np.asarray(leaf) if isinstance(leaf, list) else leaf for leaf in args]
            out = function(*args, **kwargs)
            return jax.tree.map(np.asarray, out)

    return wrapper
