"""The truncated tensor algebra T^N(R^v) of the paper's appendix A, in JAX: signatures, exponential, logarithm.

Elements are flattened: levels 1 to N one after the other, v + v² + ... + v^N channels. Level 0 is not stored: it is 1
for a signature and 0 for a logarithm. NumPy arrays give NumPy arrays back.
"""

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from ..paths.series import as_numbers, check_finite
from .lyndon import check_channels_and_depth, signature_channels


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


# Level k has shape (..., v**k); level 0 is a number. Inside this file elements are lists of levels.
_Levels = list


def signature(path: Float[Any, "*batch length channels"], depth: int) -> Float[Any, "*batch signature"]:
    r"""The depth-N signature of a piecewise-linear path: its iterated integrals up to order N (definition A.2).

    >>> import numpy as np
    >>> signature(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), depth=2)
    array([1. , 1. , 0.5, 1. , 0. , 0.5])
    """
    path = check_path(path)
    check_channels_and_depth(path.shape[-1], depth)
    if not isinstance(path, Tracer):
        check_finite(np.asarray(path))
    if isinstance(path, jax.Array):
        return signature_of_increments(jnp.diff(path, axis=-2), depth)
    with jax.enable_x64(True):
        return np.asarray(signature_of_increments(jnp.diff(jnp.asarray(path), axis=-2), depth))


def signature_of_increments(
    increments: Float[Any, "*batch steps channels"], depth: int
) -> Float[Any, "*batch signature"]:
    """One Chen product with the exponential of each increment, in turn."""
    batch, channels = increments.shape[:-2], increments.shape[-1]
    start = [jnp.zeros((*batch, channels**level), increments.dtype) for level in range(1, depth + 1)]

    def step(levels, increment):
        return _multiply_by_exponential(levels, increment), None

    levels, _ = jax.lax.scan(step, start, jnp.moveaxis(increments, -2, 0))
    return jnp.concatenate(levels, axis=-1)


def _multiply_by_exponential(levels: list, increment) -> list:
    """S ⊗ exp(dx) without forming exp(dx), by Horner's rule on each level:

    ((dx/n + S1) ⊗ dx/(n-1) + S2) ⊗ dx/(n-2) + ... + Sn
    """
    out = []
    for n in range(1, len(levels) + 1):
        inner = increment / n + levels[0]
        for k in range(2, n + 1):
            inner = _outer(inner, increment / (n - k + 1)) + levels[k - 1]
        out.append(inner)
    return out


def chen_product(
    left: Float[Any, "*batch signature"], right: Float[Any, "*batch signature"], channels: int
) -> Float[Any, "*batch signature"]:
    """Chen's relation: the signature of one path followed by another is the tensor product of their signatures.

    >>> import numpy as np
    >>> path = np.random.default_rng(0).normal(size=(9, 3))
    >>> whole = chen_product(signature(path[:5], 4), signature(path[4:], 4), channels=3)
    >>> bool(np.allclose(whole, signature(path, 4)))
    True
    """
    left, right = as_floating(left, name="signature"), as_floating(right, name="signature")
    if left.shape[-1] != right.shape[-1]:
        raise ValueError(
            f"Got signatures of {left.shape[-1]} and {right.shape[-1]} channels; expected the same depth for both. "
            "Compute both to the smaller one."
        )
    return _join(_multiply(_split(left, channels, 1.0), _split(right, channels, 1.0)))


def chen_inverse(signature: Float[Any, "*batch signature"], channels: int) -> Float[Any, "*batch signature"]:
    """The inverse for Chen's product: the signature of the path run backwards.

    >>> import numpy as np
    >>> path = np.random.default_rng(0).normal(size=(9, 2))
    >>> bool(np.allclose(chen_inverse(signature(path, 3), 2), signature(path[::-1], 3)))
    True
    """
    # 1/(1 + x) = 1 - x (1 - x (1 - ...)); it ends because x has no level 0.
    x = _split(as_floating(signature, name="signature"), channels, 0.0)
    inverse = _unit(x, 1.0)
    for _ in x[1:]:
        inverse = _shift(_multiply(x, inverse), 1.0, sign=-1.0)
    return _join(inverse)


def tensor_log(signature: Float[Any, "*batch signature"], channels: int) -> Float[Any, "*batch signature"]:
    """Logarithm in the truncated tensor algebra (definition A.3): from a signature to the expanded log-signature.

    >>> import numpy as np
    >>> straight = signature(np.array([[0.0, 0.0], [1.0, 2.0]]), depth=2)
    >>> bool(np.allclose(tensor_log(straight, channels=2), [1, 2, 0, 0, 0, 0]))
    True
    """
    # log(1 + x) = x (1 - x (1/2 - x (1/3 - ...)))
    x = _split(as_floating(signature, name="signature"), channels, 0.0)
    depth = len(x) - 1
    series = _unit(x, 1.0 / depth)
    for k in range(depth - 1, 0, -1):
        series = _shift(_multiply(x, series), 1.0 / k, sign=-1.0)
    return _join(_multiply(x, series))


def tensor_exp(logarithm: Float[Any, "*batch signature"], channels: int) -> Float[Any, "*batch signature"]:
    """Exponential in the truncated tensor algebra: from an expanded log-signature back to the signature.

    >>> import numpy as np
    >>> sig = signature(np.random.default_rng(0).normal(size=(9, 2)), depth=4)
    >>> bool(np.allclose(tensor_exp(tensor_log(sig, 2), 2), sig))
    True
    """
    # exp(x) = 1 + x (1 + x/2 (1 + x/3 (...)))
    x = _split(as_floating(logarithm, name="logarithm"), channels, 0.0)
    series = _unit(x, 1.0)
    for k in range(len(x) - 1, 0, -1):
        series = _shift([level / k for level in _multiply(x, series)], 1.0)
    return _join(series)


def depth_of(size: int, channels: int) -> int:
    """The depth of a flattened element of the tensor algebra, from its number of channels."""
    check_channels_and_depth(channels, 1)
    depth = 1 if channels > 1 else size
    while signature_channels(channels, depth) < size:
        depth += 1
    if size < 1 or signature_channels(channels, depth) != size:
        sizes = [signature_channels(channels, d) for d in range(1, 6)]
        raise ValueError(
            f"Got {size} signature channels for a path of {channels} channels; expected v + v² + ... + v^depth, one "
            f"of {sizes} ... Is `channels` the number of channels of the path, and is the leading 1 left out?"
        )
    return depth


def _split(flat, channels: int, scalar: float) -> _Levels:
    levels, start = [np.asarray(scalar, flat.dtype)], 0
    for level in range(1, depth_of(flat.shape[-1], channels) + 1):
        levels.append(flat[..., start : start + channels**level])
        start += channels**level
    return levels


def _join(levels: _Levels):
    return namespace(levels[1]).concatenate(levels[1:], axis=-1)


def _unit(like: _Levels, scalar: float) -> _Levels:
    zeros = namespace(like[1]).zeros_like
    return [np.asarray(scalar, like[1].dtype), *(zeros(level) for level in like[1:])]


def _shift(levels: _Levels, scalar: float, sign: float = 1.0) -> _Levels:
    """scalar·1 + sign·levels"""
    return [sign * levels[0] + scalar, *(sign * level for level in levels[1:])]


def _multiply(a: _Levels, b: _Levels) -> _Levels:
    """Definition A.1: level n of the product is the sum of a_k ⊗ b_(n-k)."""
    out = [a[0] * b[0]]
    for n in range(1, len(a)):
        inner = sum((_outer(a[k], b[n - k]) for k in range(1, n)), a[0] * b[n])
        out.append(inner + a[n] * b[0])
    return out


def _outer(a, b):
    product = a[..., :, None] * b[..., None, :]
    return product.reshape(*product.shape[:-2], math.prod(product.shape[-2:]))
