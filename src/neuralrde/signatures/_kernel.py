"""Python's side of the compiled kernel in `kernel/`: C++ with SIMD over windows and threads over groups of them.

NumPy arrays go in through ctypes, JAX arrays through XLA's foreign function interface (`jax.ffi`). The library is built
when the package is installed, and uses the widest vectors of the processor that it finds itself on; where it was not
built, `available()` is false and the form in `_jax_form.py` serves.
"""

import ctypes
import functools
import math
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .._cores import cores
from ..paths.checks import SMALL, check_fits, free_memory
from . import _jax_form
from ._windows import Spans, WindowSpan
from .lyndon import log_signature_channels

MOST_DEPTH = 16  # of the C++ side; deeper log-signatures take the JAX form
INTERFACE = 7  # of the library; one that was built from older sources would read other arguments than it is given


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled library, with its JAX handlers registered; None where it was not built or does not load."""
    if os.environ.get("NEURALRDE_KERNEL") == "off":
        return None
    folder = Path(__file__).parent
    # A checkout that was built before 0.2 has a name with the version of Python in it.
    for path in (folder / "_kernel_library.so", *sorted(folder.glob("_kernel_library.*.so"))):
        if path.exists():
            try:
                loaded = ctypes.CDLL(str(path))
                if loaded.neuralrde_interface() != INTERFACE:
                    return None
                for name in ("forward32", "forward64", "backward32", "backward64"):
                    handler = jax.ffi.pycapsule(getattr(loaded, f"neuralrde_jax_{name}"))
                    jax.ffi.register_ffi_target(f"neuralrde_{name}", handler, platform="cpu")
            except (OSError, AttributeError):  # built for another machine, cut short, or from older sources
                return None
            return loaded
    return None


def available(depth: int = 1) -> bool:
    """Whether the compiled kernel can be used."""
    return depth <= MOST_DEPTH and library() is not None


def _threads() -> int:
    return cores()


def _workspace(channels: int, depth: int, backward: bool) -> float:
    """Bytes of each thread's workspace."""
    kernel = library()
    assert kernel is not None
    kernel.neuralrde_workspace.restype = ctypes.c_double
    return kernel.neuralrde_workspace(
        *map(ctypes.c_int64, (channels, depth, log_signature_channels(channels, depth), backward))
    )


def _fitting_threads(channels: int, depth: int, arrays: int, *, backward: bool = False) -> int:
    """How many threads there is memory for, beside `arrays` bytes of arguments and results; an error if for none."""
    workspace, threads = _workspace(channels, depth, backward), _threads()
    if arrays + threads * workspace <= SMALL:
        return threads
    if (free := free_memory() - arrays) >= workspace:
        return int(min(threads, free // max(workspace, 1)))
    what = f"the gradient of depth-{depth} log-signatures" if backward else f"depth-{depth} log-signatures"
    check_fits(
        arrays + workspace,
        f"With {log_signature_channels(channels, depth):,} channels each, {what} of a path of {channels} channels "
        "and one thread's workspace",
        "Take a smaller depth or fewer channels.",
    )
    return 1


def words_of_numpy(path: np.ndarray, spans: Spans, depth: int) -> tuple[np.ndarray, bool]:
    """Log-signatures in the words basis, and whether they are all finite."""
    *batch, length, channels = path.shape
    path, table = np.ascontiguousarray(path), np.ascontiguousarray(spans.table, np.int64)
    samples, rows = (math.prod(shape) for shape in (batch, table.shape[:-1]))
    shape = (*batch, spans.windows, log_signature_channels(channels, depth))
    threads = _fitting_threads(channels, depth, path.itemsize * math.prod(shape))
    out = np.empty(shape, path.dtype)
    if out.size == 0:
        return out, True
    call = getattr(library(), f"neuralrde_forward{8 * path.itemsize}")
    windows = (rows, table.shape[-1], spans.windows, spans.dilation)
    sizes = (samples, length, channels, *windows, out.shape[-1], depth, threads)
    status = call(_pointer(path), _pointer(table), _pointer(out), *map(ctypes.c_int64, sizes))
    _check_status(status, channels, depth)
    return out, status == 0


def _check_status(status: int, channels: int, depth: int) -> None:
    if status == 2:
        raise MemoryError(
            f"Not enough memory left to follow a path of {channels} channels at depth {depth}. Take a smaller depth, "
            "fewer channels, or the series in parts."
        )


def joins(wanted: list[WindowSpan]) -> bool:
    """Whether the library can join pieces of these depths, and so many kinds of runs at once."""
    return max(one.depth for one in wanted) <= 3 and len(wanted) < 60


def runs_of_numpy(pieces: np.ndarray, wanted: list[WindowSpan], channels: int) -> tuple[np.ndarray, bool]:
    """`join_pieces` up to depth 3, and whether they are all finite."""
    *batch, count, words = pieces.shape
    last, rows = wanted[0].last, math.prod(wanted[0].last.shape[:-1])
    pieces, last = np.ascontiguousarray(pieces), np.ascontiguousarray(last, np.int64)
    counts, depths = np.stack([one.count for one in wanted]).astype(np.int64), np.array([one.depth for one in wanted])
    total = sum(log_signature_channels(channels, one.depth) for one in wanted)
    out = np.empty((*batch, last.shape[-1], total), pieces.dtype)
    if out.size == 0:
        return out, True
    call = getattr(library(), f"neuralrde_join{8 * pieces.itemsize}")
    sizes = (math.prod(batch), count, last.shape[-1], channels, words, total, rows, len(wanted), _threads())
    status = call(*map(_pointer, (pieces, out, last, counts, depths)), *map(ctypes.c_int64, sizes))
    _check_status(status, channels, int(depths.max()))
    return out, status == 0


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


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
    threads = _fitting_threads(path.shape[-1], depth, path.dtype.itemsize * numbers, backward=backward)
    counts = {"windows": spans.windows, "dilation": spans.dilation, "depth": depth, "threads": threads}
    # Under vmap all arguments get the mapped axis, also those that do not vary: `jax.jacrev` maps the cotangent only.
    return jax.ffi.ffi_call(
        f"neuralrde_{name}{8 * path.dtype.itemsize}",
        jax.ShapeDtypeStruct(shape, path.dtype),
        vmap_method="broadcast_all",
    )(path, table, *others, **{name: np.int64(count) for name, count in counts.items()})
