"""NumPy in, NumPy out; JAX in, JAX out."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..paths.checks import as_numbers


def as_floating(values: Any, *, name: str = "path") -> Any:
    """A JAX or NumPy array of float32 or float64: whole numbers become floating, everything else is refused."""
    if not isinstance(values, jax.Array):
        return as_numbers(values, name=name)
    if values.dtype in (np.float32, np.float64):
        return values
    if not (jnp.issubdtype(values.dtype, jnp.integer) or jnp.issubdtype(values.dtype, jnp.floating)):
        raise TypeError(
            f"Got a {name} of type {values.dtype}; expected real numbers, because a path is followed in R^channels. "
            f"Convert it first, for example `{name}.astype(jnp.float32)`."
        )
    return values.astype(jnp.promote_types(jnp.float32, values.dtype))


def check_path(path: Any) -> Any:
    path = as_floating(path)
    if path.ndim < 2:
        raise ValueError(
            f"Got a path of shape {path.shape}; expected (..., length, channels). A series of one channel is "
            "`path[:, None]`."
        )
    if 0 in path.shape[-2:]:
        raise ValueError(
            f"Got an empty path of shape {path.shape}; expected (..., length, channels) with at least one point and "
            "one channel. Leave empty series out."
        )
    return path


def narrow_cuts(cuts: np.ndarray) -> np.ndarray:
    """Cuts in 32 bits, which is what JAX indexes with unless it is told otherwise."""
    if cuts.max(initial=0) > np.iinfo(np.int32).max:
        raise ValueError(
            f"Got cuts up to {cuts.max():,}; expected at most {np.iinfo(np.int32).max:,} (2^31 - 1), because JAX "
            "counts points in 32 bits. Give the path as a NumPy array at a depth of at most 16, or in parts."
        )
    return cuts.astype(np.int32)


def namespace(array: Any) -> ModuleType:
    """The module whose functions keep an array what it is; JAX's would turn NumPy's float64 into float32."""
    return jnp if isinstance(array, jax.Array) else np
