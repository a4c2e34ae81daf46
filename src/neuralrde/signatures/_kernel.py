"""The compiled kernel inside JAX on a CPU: through XLA's foreign function interface (`jax.ffi`), differentiable."""

import functools
import math
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from . import _jax_form, _library
from ._spans import Spans
from .lyndon import log_signature_channels


def available(depth: int = 1) -> bool:
    """Whether the compiled kernel can be used inside JAX."""
    return _library.available(depth) and _registered()


@functools.cache
def _registered() -> bool:
    try:
        for name in ("forward32", "forward64", "backward32", "backward64"):
            handler = jax.ffi.pycapsule(getattr(_library.library(), f"neuralrde_jax_{name}"))
            jax.ffi.register_ffi_target(f"neuralrde_{name}", handler, platform="cpu")
    except AttributeError:  # built without XLA's headers
        return False
    return True


def words(path: jax.Array, spans: Spans, depth: int) -> jax.Array:
    """Log-signatures in the words basis inside JAX on a CPU, differentiable with respect to the path."""
    shape = (spans.windows, log_signature_channels(path.shape[-1], depth))
    in_jax = functools.partial(_jax_form.words, spans=spans, depth=depth)

    @jax.custom_jvp
    def forward(path):
        return _call("forward", (*path.shape[:-2], *shape), path, spans, depth=depth)

    @jax.custom_jvp
    def pull_back(path, cotangent):
        return _call("backward", path.shape, path, spans, cotangent, depth=depth)

    push_forward = functools.partial(_push_forward.bind, in_jax=in_jax, pull_back=pull_back, shape=shape)
    forward.defjvp(lambda primals, tangents: (forward(*primals), push_forward(*primals, *tangents)))
    # Second derivatives are rare: they take the JAX form.
    by_jax = lambda path, cotangent: jax.vjp(in_jax, path)[1](cotangent)[0]
    pull_back.defjvp(lambda primals, tangents: (pull_back(*primals), jax.jvp(by_jax, primals, tangents)[1]))
    return forward(path)


def _pushed_forward(path: Any, tangent: Any, *, in_jax: Any, **_: Any) -> jax.Array:
    return jax.jvp(in_jax, (path,), (tangent,))[1]


def _pushed_forward_in_batches(arrays: Any, axes: Any, **how: Any) -> tuple[Any, int]:
    size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    front = (batching.bdim_at_front(array, axis, size) for array, axis in zip(arrays, axes, strict=True))
    return _push_forward.bind(*front, **how), 0


# The derivative of a log-signature along a tangent: forwards by the JAX form, backwards by the kernel. `jax.custom_vjp`
# would have no forward mode, and `jax.custom_jvp` alone would go backwards by the JAX form too.
_push_forward = Primitive("neuralrde_push_forward")
_push_forward.def_impl(_pushed_forward)
_push_forward.def_abstract_eval(
    lambda path, tangent, *, shape, **_: ShapedArray((*path.shape[:-2], *shape), path.dtype)  # type: ignore
)
mlir.register_lowering(_push_forward, mlir.lower_fun(_pushed_forward, multiple_results=False))
ad.primitive_jvps[_push_forward] = lambda primals, tangents, **how: jax.jvp(
    functools.partial(_pushed_forward, **how), primals, tuple(map(ad.instantiate_zeros, tangents))
)
ad.primitive_transposes[_push_forward] = lambda cotangent, path, tangent, *, pull_back, **_: (
    None,
    pull_back(path, ad.instantiate_zeros(cotangent)),
)
batching.primitive_batchers[_push_forward] = _pushed_forward_in_batches


def _call(name: str, shape: tuple[int, ...], path: Any, spans: Spans, *others: Any, depth: int) -> jax.Array:
    table = spans.narrow()
    numbers = sum(math.prod(array.shape) for array in (path, table, *others))
    backward = name == "backward"
    if backward and not (spans.consecutive and spans.dilation == 1):  # each window has a gradient of its own points
        points = int((spans.increments + 1).sum()) * math.prod(path.shape[:-2]) // max(1, math.prod(table.shape[:-1]))
        numbers += path.shape[-1] * points
    threads = _library.fitting_threads(path.shape[-1], depth, path.dtype.itemsize * numbers, backward=backward)
    counts = {"windows": spans.windows, "dilation": spans.dilation, "depth": depth, "threads": threads}
    # Under vmap all arguments get the mapped axis, also those that do not vary: `jax.jacrev` maps the cotangent only.
    return jax.ffi.ffi_call(
        f"neuralrde_{name}{8 * path.dtype.itemsize}",
        jax.ShapeDtypeStruct(shape, path.dtype),
        vmap_method="broadcast_all",
    )(path, table, *others, **{name: np.int64(count) for name, count in counts.items()})
