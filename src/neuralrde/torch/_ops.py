"""The compiled kernel inside PyTorch: operators that `torch.compile`, `torch.export` and `torch.func` know.

Called plainly, they go straight to the kernel: PyTorch's way to a custom operator takes longer than a short path.
Second derivatives are rare: they take the form in `tensor.py`.
"""

import math
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch._C import _functorch  # type: ignore

from ..signatures import _library
from ..signatures._spans import Spans, plan_joins, spans_of
from ..signatures.lyndon import Basis, basis_channels, basis_matrix, log_signature_channels
from . import tensor

# How a call says which windows it means, behind the path: see `words_of`.
How = tuple[int, bool, int, list[int], list[int], str]


def log_signatures(path: Tensor, table: Tensor | None, how: How) -> Tensor:
    """Log-signatures over windows, differentiable with respect to the path.

    Args:
        path: float32 or float64, on the CPU.
        table: cuts, or starts and then ends, as `Spans.table` has them; None for windows of `step` increments.
        how: step; whether the table has starts and ends; dilation; depths; scales; basis.
    """
    if _traced(path):
        return _operator(path, table, *how)
    if _transformed() or (path.requires_grad and torch.is_grad_enabled()):
        return cast(Tensor, _LogSignatures.apply(path, table, how))
    return _forward(path, table, how)


def _traced(path: Tensor) -> bool:
    """Whether a compiler or a dispatch mode looks on, to which the kernel must be an operator."""
    return (
        torch.compiler.is_compiling()
        or type(path) not in (Tensor, torch.nn.Parameter)
        or torch._C._len_torch_dispatch_stack() > 0
        or torch.jit.is_tracing()  # type: ignore
        or torch.autograd.forward_ad._current_level >= 0
    )


def _transformed() -> bool:
    """Whether this happens inside `torch.func`, which knows no operators with gradients."""
    return _functorch.peek_interpreter_stack() is not None


class _LogSignatures(torch.autograd.Function):
    @staticmethod
    def forward(path: Tensor, table: Tensor | None, how: How) -> Tensor:
        return _forward(path, table, how)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        path, table, ctx.how = inputs
        ctx.save_for_backward(path, table)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None, None]:
        path, table = ctx.saved_tensors
        again = _transformed() or torch.is_grad_enabled()  # with `create_graph`, it is differentiated again
        return (_Gradient.apply if again else _backward)(path, cotangent, table, ctx.how), None, None

    @staticmethod
    def vmap(info: Any, dims: Any, path: Tensor, table: Tensor | None, how: How) -> tuple[Tensor, int]:
        path = _in_front(path, dims[0], info.batch_size)
        return _LogSignatures.apply(path, _table_in_front(table, dims[1], path), how), 0


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(path: Tensor, cotangent: Tensor, table: Tensor | None, how: How) -> Tensor:
        return _backward(path, cotangent, table, how)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        path, cotangent, table, ctx.how = inputs
        ctx.save_for_backward(path, cotangent, table)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, None, None]:
        path, bar, table = ctx.saved_tensors
        return *_twice(path, bar, table, ctx.how, cotangent), None, None

    @staticmethod
    def vmap(info: Any, dims: Any, path: Tensor, bar: Tensor, table: Tensor | None, how: How) -> tuple[Tensor, int]:
        path, bar = (_in_front(*pair, info.batch_size) for pair in zip((path, bar), dims[:2], strict=True))
        return _Gradient.apply(path, bar, _table_in_front(table, dims[2], path), how), 0


def _twice(path: Tensor, bar: Tensor, table: Tensor | None, how: How, cotangent: Tensor) -> tuple[Tensor, Tensor]:
    """Along `cotangent`, the derivatives of the gradient with respect to the path and to what it pulls back."""
    spans, (depths, scales, basis) = spans_of_call(path, table, how), how[3:]

    def gradient(path: Tensor, bar: Tensor) -> Tensor:
        form = lambda path: tensor.log_signatures(path, spans, depths, scales, cast(Basis, basis))
        return torch.func.vjp(form, path)[1](bar)[0]

    return torch.func.vjp(gradient, path, bar)[1](cotangent)


def _in_front(array: Tensor, dim: int | None, size: int) -> Tensor:
    return array.expand(size, *array.shape) if dim is None else array.movedim(dim, 0)


def _table_in_front(table: Tensor | None, dim: int | None, path: Tensor) -> Tensor | None:
    """One row for all samples stays one; otherwise each sample of the path, batch in front, gets its row."""
    if table is None or (dim is None and table.ndim == 1):
        return table
    table = _in_front(table, dim, path.shape[0])
    if table.ndim == 2:
        table = table.reshape(len(table), *[1] * (path.ndim - 3), -1)
    return table.expand(*path.shape[:-2], -1)


# ---- by the kernel ------------------------------------------------------------------------------------------------


def _forward(path: Tensor, table: Tensor | None, how: How) -> Tensor:
    (channels, length), (depths, scales, basis) = (path.shape[-1], path.shape[-2]), how[3:]
    spans, path = spans_of_call(path, table, how), path.detach().contiguous()
    if len(scales) == 1 and spans.consecutive:
        words = _words(path, spans, *_followed(channels, depths))
    else:
        words = _at_scales(path, spans, tuple(scales), tuple(_followed(channels, depths)), length)
    if basis == "words" or (basis == "brackets" and max(depths) < 3):
        return words
    return _mapped(words, [basis_matrix(channels, depth, "words", cast(Basis, basis)) for depth in depths])


def _backward(path: Tensor, cotangent: Tensor, table: Tensor | None, how: How) -> Tensor:
    channels, (depths, scales, basis) = path.shape[-1], how[3:]
    spans, path, cotangent = spans_of_call(path, table, how), path.detach().contiguous(), cotangent.detach()
    if basis == "expanded" or (basis == "brackets" and max(depths) > 2):
        matrices = [basis_matrix(channels, depth, "words", cast(Basis, basis)).T.tocsr() for depth in depths]
        cotangent = _mapped(cotangent, matrices)
    total, start = None, 0
    for scale, depth in zip(scales, _followed(channels, depths), strict=True):
        end = start + log_signature_channels(channels, depth)
        part = cotangent if len(scales) == 1 else cotangent[..., start:end]
        gradient = _pulled_back(path, part.contiguous(), spans.looking_back(scale), depth)
        total, start = gradient if total is None else total.add_(gradient), end
    return cast(Tensor, total)


def _followed(channels: int, depths: list[int]) -> list[int]:
    """A path in one dimension commutes with itself: its log-signature is the increment, at any depth."""
    return depths if channels > 1 else [1] * len(depths)


def spans_of_call(path: Tensor, table: Tensor | None, how: How) -> Spans:
    step, apart, dilation = how[:3]
    if table is None:
        return _spans_by_count(int(path.shape[-2]), step, dilation)
    rows = table.contiguous().numpy()  # the kernel reads them where they lie
    if not apart:
        return spans_of(path, None, rows, None, None, dilation)
    starts, ends = np.split(rows, 2, axis=-1)
    return spans_of(path, None, None, starts, ends, dilation)


@lru_cache(maxsize=64)
def _spans_by_count(length: int, step: int, dilation: int) -> Spans:
    return spans_of(np.broadcast_to(0.0, (length, 1)), step, None, None, None, dilation)


def _words(path: Tensor, spans: Spans, depth: int) -> Tensor:
    """Log-signatures in the words basis; NaN and infinity are in the result for all to see."""
    sizes, shape, samples = _sizes(path, spans, depth)
    out = path.new_empty(shape)
    threads = 1 if _is_little(path, spans, depth) else _library.fitting_threads(path.shape[-1], depth, 8 * out.numel())
    if samples:
        call = _kernel().neuralrde_forward32 if path.dtype == torch.float32 else _kernel().neuralrde_forward64
        status = call(path.data_ptr(), spans.table.ctypes.data, out.data_ptr(), *sizes, threads)
        _library.check_status(status, path.shape[-1], depth)
    return out


def _pulled_back(path: Tensor, cotangent: Tensor, spans: Spans, depth: int) -> Tensor:
    sizes, _, samples = _sizes(path, spans, depth)
    out = torch.empty_like(path)
    if _is_little(path, spans, depth):
        threads = 1
    else:
        apart = 0 if spans.consecutive else path.shape[-1] * samples * int(spans.increments.sum(axis=-1).max(initial=0))
        arrays = 8 * (out.numel() + apart + cotangent.numel())
        threads = _library.fitting_threads(path.shape[-1], depth, arrays, backward=True)
    if samples:
        call = _kernel().neuralrde_backward32 if path.dtype == torch.float32 else _kernel().neuralrde_backward64
        arrays = (path.data_ptr(), spans.table.ctypes.data, cotangent.data_ptr(), out.data_ptr())
        _library.check_status(call(*arrays, *sizes, threads), path.shape[-1], depth)
    return out


def _is_little(path: Tensor, spans: Spans, depth: int) -> bool:
    """So little that the kernel takes one thread and no memory to speak of: finding out more would take longer."""
    return spans.consecutive and path.numel() * log_signature_channels(path.shape[-1], depth) < 500_000


def _sizes(path: Tensor, spans: Spans, depth: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """What the kernel is told, the shape of the log-signatures, and the number of samples."""
    *batch, length, channels = path.shape
    words, samples, table = log_signature_channels(channels, depth), math.prod(batch), spans.table
    windows = (math.prod(table.shape[:-1]), table.shape[-1], spans.windows, spans.dilation)
    return (samples, length, channels, *windows, words, depth), (*batch, spans.windows, words), samples


def _at_scales(path: Tensor, spans: Spans, scales: tuple[int, ...], depths: tuple[int, ...], length: int) -> Tensor:
    shared = plan_joins(spans, scales, depths, length)
    if shared is None or not _library.joins(shared[1]):
        parts = [_words(path, spans.looking_back(scale), n) for scale, n in zip(scales, depths, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
    pieces, wanted = shared
    followed = _words(path, pieces, max(depths)).numpy()
    return torch.from_numpy(_library.runs_of_numpy(followed, wanted, path.shape[-1])[0])


def _mapped(vectors: Tensor, matrices: list[Any]) -> Tensor:
    """Each part of the vectors by its sparse matrix."""
    rows, parts, start = vectors.reshape(-1, vectors.shape[-1]).numpy(), [], 0
    for matrix in matrices:
        end = start + matrix.shape[1]
        parts.append((matrix.astype(rows.dtype) @ rows[:, start:end].T).T)
        start = end
    found = np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))
    return torch.from_numpy(found).reshape(*vectors.shape[:-1], found.shape[-1])


def _kernel() -> Any:
    return _library.library()


# ---- as operators -------------------------------------------------------------------------------------------------


def _run(path: Tensor, table: Tensor | None, step: int, apart: bool, dilation: int,
         depths: list[int], scales: list[int], basis: str) -> Tensor:  # fmt: skip
    return _forward(path, table, (step, apart, dilation, depths, scales, basis))


def _run_back(path: Tensor, cotangent: Tensor, table: Tensor | None, step: int, apart: bool, dilation: int,
              depths: list[int], scales: list[int], basis: str) -> Tensor:  # fmt: skip
    return _backward(path, cotangent, table, (step, apart, dilation, depths, scales, basis))


_operator: Any = torch.library.custom_op("neuralrde::log_signatures", _run, mutates_args=(), device_types="cpu")
_gradient_operator: Any = torch.library.custom_op(
    "neuralrde::log_signatures_gradient", _run_back, mutates_args=(), device_types="cpu"
)


@_operator.register_fake
def _(path, table, step, apart, dilation, depths, scales, basis):
    if table is None:
        windows = torch.sym_max((path.shape[-2] + step - 2) // step, 1)
    else:
        windows = table.shape[-1] // 2 if apart else table.shape[-1] - 1
    channels = sum(basis_channels(int(path.shape[-1]), depth, basis) for depth in depths)  # a number, not a symbol
    return path.new_empty((*path.shape[:-2], windows, channels))


@_gradient_operator.register_fake
def _(path, cotangent, *how):
    return torch.empty_like(path, memory_format=torch.contiguous_format)


def _keep(ctx, inputs, output):
    arrays = [value if isinstance(value, Tensor) else None for value in inputs]
    ctx.save_for_backward(*arrays)
    ctx.how = [None if isinstance(value, Tensor) else value for value in inputs]


def _go_back(ctx, cotangent):
    path, table, *_ = ctx.saved_tensors
    return _gradient_operator(path, cotangent, table, *ctx.how[2:]), *[None] * 7


def _go_back_twice(ctx, cotangent):
    path, bar, table, *_ = ctx.saved_tensors
    return *_twice(path, bar, table, tuple(ctx.how[3:]), cotangent), *[None] * 7


_operator.register_autograd(_go_back, setup_context=_keep)
_gradient_operator.register_autograd(_go_back_twice, setup_context=_keep)


@_operator.register_vmap
def _(info, dims, path, table, *how):
    path = _in_front(path, dims[0], info.batch_size)
    return _operator(path, _table_in_front(table, dims[1], path), *how), 0


@_gradient_operator.register_vmap
def _(info, dims, path, bar, table, *how):
    path, bar = (_in_front(*pair, info.batch_size) for pair in zip((path, bar), dims[:2], strict=True))
    return _gradient_operator(path, bar, _table_in_front(table, dims[2], path), *how), 0
