"""Log-signatures and signatures of PyTorch's tensors, as functions and as modules."""

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..paths.checks import check_whole
from ..paths.windows import as_scales, depths_of
from ..signatures import _library
from ..signatures._spans import check_one_given
from ..signatures.lyndon import Basis, basis_channels
from . import _ops, tensor

_KERNEL = _library.available()  # found out here, because `torch.compile` does not look into files
Points = Tensor | Sequence[int] | Any
"""Numbers of points: a tensor, a NumPy array, or a list."""


def log_signature(path: Tensor, depth: int, *, basis: Basis = "words") -> Tensor:
    """The log-signature of a path (..., length, channels) over its whole length.

    >>> log_signature(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), depth=2)
    tensor([1.0000, 1.0000, 0.5000])
    """
    _check_path(path)
    return log_signatures(path, depth, step=max(path.shape[-2] - 1, 1), basis=basis)[..., 0, :]


def log_signatures(
    path: Tensor,
    depth: int | tuple[int, ...],
    *,
    step: int | None = None,
    cuts: Points = None,
    starts: Points = None,
    ends: Points = None,
    dilation: int = 1,
    scales: int | tuple[int, ...] = (1,),
    basis: Basis = "words",
) -> Tensor:
    """The log-signatures over windows of a path: `neuralrde.log_signatures`, whose arguments these are.

    Differentiable with respect to the path, twice and more often; inside `torch.compile`, `torch.export`,
    `torch.func.vmap` and `torch.func.grad`. A NaN or infinity makes the log-signature of its window not finite. It is
    computed on the CPU, in float32 or float64, and comes back to the path's device and type.

    >>> path = torch.randn(8, 1000, 3)
    >>> log_signatures(path, depth=3, step=32).shape
    torch.Size([8, 32, 14])
    """
    _check_path(path)
    scales_list = [scales] if isinstance(scales, int) else list(scales)
    depths = [depth] * len(scales_list) if isinstance(depth, int) else list(depth)
    if not torch.compiler.is_compiling():
        _check(int(path.shape[-1]), depth, scales if isinstance(scales, int) else tuple(scales), basis)
    if step is None or cuts is not None or starts is not None or ends is not None:
        check_one_given({"step": step, "cuts": cuts, "starts": starts, "ends": ends})
    else:
        check_whole("step", step, high=2**31, because="a window has increments")
    if scales_list != [1] and starts is not None:
        raise ValueError(
            f"Got scales={scales} with starts and ends; expected windows that follow each other, because a scale "
            "counts them. Write `step` or `cuts`, or give the starts and ends of all windows."
        )
    table = None if step is not None else _points(cuts) if cuts is not None else torch.cat(
        [_points(starts), _points(ends)], dim=-1
    )  # fmt: skip
    how = (step or 0, starts is not None, dilation, depths, scales_list, str(basis))
    if path.device.type in ("cpu", "meta") and path.dtype in (torch.float32, torch.float64):
        return _computed(path, table, how)
    if path.device.type not in ("cpu", "meta"):
        _warn_of_device(path.device.type)
    wide = path.to("cpu", torch.float64 if path.dtype == torch.float64 else torch.float32)
    return _computed(wide, table, how).to(path.device, path.dtype)


def _computed(path: Tensor, table: Tensor | None, how: _ops.How) -> Tensor:
    if _KERNEL and max(how[3]) <= _library.MOST_DEPTH:
        return _ops.log_signatures(path, table, how)
    *_, depths, scales, basis = how
    return tensor.log_signatures(path, _ops.spans_of_call(path, table, how), depths, scales, cast(Basis, basis))


def _points(given: Points) -> Tensor:
    found = torch.as_tensor(given)
    if found.is_floating_point() or found.dtype == torch.bool:
        raise TypeError(f"Got numbers of points of type {found.dtype}; expected whole numbers.")
    return found.to("cpu", torch.int64)


def _check_path(path: Tensor) -> None:
    if not path.is_floating_point():
        raise TypeError(
            f"Got a path of type {path.dtype}; expected floating-point numbers. Write `path.to(torch.float32)`."
        )
    if path.ndim < 2 or path.shape[-1] == 0 or path.shape[-2] == 0:
        raise ValueError(
            f"Got a path of shape {tuple(path.shape)}; expected (..., length, channels) with at least one point and "
            "one channel. A series of one channel is `path[:, None]`."
        )


@lru_cache(maxsize=256, typed=True)
def _check(channels: int, depth: int | tuple[int, ...], scales: int | tuple[int, ...], basis: Basis) -> None:
    several = as_scales(scales)
    if any(scale % 1 != 0 for scale in several):  # infinitely many, too
        raise ValueError(
            f"Got scales={scales}; expected whole numbers, which is what PyTorch's form counts. Give starts and ends."
        )
    basis_channels(channels, depths_of(depth, several), basis, scales=several)


@lru_cache
def _warn_of_device(kind: str) -> None:
    warnings.warn(
        f"Got a path on {kind!r}; log-signatures are computed on the CPU, so each call copies the path there and the "
        "result back, and waits for both. Compute them once before training if nothing before them is learned.",
        stacklevel=4,
    )


def signature(path: Tensor, depth: int) -> Tensor:
    """The signature of a path (..., length, channels), without the leading 1: the exponential of its log-signature.

    >>> signature(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), depth=2)
    tensor([1.0000, 1.0000, 0.5000, 1.0000, 0.0000, 0.5000])
    """
    return _exponentials(log_signature(path, depth, basis="expanded"), path.shape[-1], depth)


def signatures(path: Tensor, depth: int, *, step: int | None = None, **windows: Any) -> Tensor:
    """The signatures over windows, which are given as to `log_signatures`."""
    return _exponentials(log_signatures(path, depth, step=step, basis="expanded", **windows), path.shape[-1], depth)


def _exponentials(logarithms: Tensor, channels: int, depth: int) -> Tensor:
    return torch.cat(tensor.exponential(tensor.split(logarithms, channels, depth)), dim=-1)


class LogSignature(nn.Module):
    """The log-signature of a path over its whole length, (..., length, channels) -> (..., log-signature)."""

    def __init__(self, depth: int, *, basis: Basis = "words"):
        super().__init__()
        self.depth = depth
        self.basis: Basis = basis

    def forward(self, path: Tensor) -> Tensor:
        return log_signature(path, self.depth, basis=self.basis)

    def extra_repr(self) -> str:
        return f"depth={self.depth}, basis={self.basis!r}"


class LogSignatureWindows(nn.Module):
    """The log-signatures over windows of `step` increments, (..., length, channels) -> (..., windows, log-signature).

    >>> LogSignatureWindows(depth=2, step=50)(torch.randn(4, 201, 3)).shape
    torch.Size([4, 4, 6])
    """

    def __init__(
        self,
        depth: int | tuple[int, ...],
        step: int,
        *,
        scales: int | tuple[int, ...] = (1,),
        basis: Basis = "words",
    ):
        super().__init__()
        self.depth, self.step, self.scales = depth, step, scales
        self.basis: Basis = basis

    def forward(self, path: Tensor) -> Tensor:
        return log_signatures(path, self.depth, step=self.step, scales=self.scales, basis=self.basis)

    def extra_repr(self) -> str:
        return f"depth={self.depth}, step={self.step}, scales={self.scales}, basis={self.basis!r}"


def logsig_windows(x: Tensor, depth: int, window_length: float, t: Tensor | None = None) -> Tensor:
    """torchcde's `logsig_windows`: a path that starts at the first point and moves by the log-signature of each window.

    Args:
        x: points (..., length, channels); NaN is filled by linear interpolation.
        depth: depth of the log-signatures.
        window_length: time in a window.
        t: times of the points, increasing; None numbers them from 0.

    Returns:
        (..., windows + 1, log-signature), for `torchcde.linear_interpolation_coeffs` and `torchcde.cdeint`.
    """
    _check_path(x)
    if t is None:
        t = torch.linspace(0, x.shape[-2] - 1, x.shape[-2], dtype=x.dtype, device=x.device)
    if t.shape != (x.shape[-2],) or not bool((t.diff() > 0).all()):
        raise ValueError(
            f"Got times of shape {tuple(t.shape)} for {x.shape[-2]} points; expected one increasing time for each."
        )
    count = int(((t[-1] - t[0]) / window_length).ceil())
    ends = torch.linspace(float(t[0]), float(t[0]) + count * window_length, count + 1, dtype=t.dtype, device=t.device)
    ends = torch.minimum(ends, t[-1])
    # A boundary within `allclose` of a point is that point; any other becomes a point of its own.
    near = 1e-8 + 1e-5 * t.abs()
    places = torch.searchsorted(t + near, ends)
    new = (ends - t[places]).abs() > near[places]
    cuts = places + new.cumsum(0) - new.long()
    if bool(new.any()):
        t, order = torch.cat([t, ends[new]]).sort()
        missing = x.new_full((*x.shape[:-2], int(new.sum()), x.shape[-1]), torch.nan)
        x = torch.cat([x, missing], dim=-2)[..., order, :]
    x = _filled(x, t)
    first = nn.functional.pad(x[..., :1, :], (0, basis_channels(x.shape[-1], depth) - x.shape[-1]))
    return torch.cat([first, log_signatures(x, depth, cuts=cuts)], dim=-2).cumsum(dim=-2)


def _filled(x: Tensor, t: Tensor) -> Tensor:
    """Linear between observed points, constant before the first and after the last; zero where there is none."""
    seen, length = ~x.isnan(), x.shape[-2]
    if bool(seen.all()):
        return x
    number = torch.arange(length, device=x.device)[:, None].expand(x.shape)
    before = torch.where(seen, number, -1).cummax(dim=-2).values
    after = torch.where(seen, number, length).flip(-2).cummin(dim=-2).values.flip(-2)
    before, after = torch.where(before < 0, after, before), torch.where(after == length, before, after)
    before, after = before.clamp(0, length - 1), after.clamp(0, length - 1)
    known = torch.where(seen, x, 0.0)
    low, high = known.gather(-2, before), known.gather(-2, after)
    between = after > before
    share = (t[number] - t[before]) / torch.where(between, t[after] - t[before], 1.0)
    return torch.where(between, low + share * (high - low), low)
