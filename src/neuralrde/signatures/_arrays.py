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


def namespace(array: Any) -> ModuleType:
    """The module whose functions keep an array what it is; JAX's would turn NumPy's float64 into float32."""
    return jnp if isinstance(array, jax.Array) else np
