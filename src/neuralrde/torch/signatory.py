"""Signatory's names and arguments, by this library: `import neuralrde.torch.signatory as signatory`.

Paths are (batch, length, channels), as Signatory has them; other leading dimensions work too. What is not here:
`Augment`, which is a few lines of PyTorch, and the settings of Signatory's own threads.
"""

import itertools
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ..signatures import lyndon
from ..signatures.lyndon import Basis, Word
from . import tensor, windows

Mode = Literal["words", "brackets", "expand"]


def signature_channels(channels: int, depth: int, scalar_term: bool = False) -> int:
    return lyndon.signature_channels(channels, depth) + scalar_term


def logsignature_channels(in_channels: int, depth: int) -> int:
    return lyndon.log_signature_channels(in_channels, depth)


def all_words(channels: int, depth: int) -> list[Word]:
    return [word for level in range(1, depth + 1) for word in itertools.product(range(channels), repeat=level)]


def lyndon_words(channels: int, depth: int) -> list[Word]:
    return list(lyndon.lyndon_words(channels, depth))


def lyndon_brackets(channels: int, depth: int) -> list:
    as_lists = lambda bracket: [as_lists(part) for part in bracket] if isinstance(bracket, tuple) else bracket
    return [as_lists(lyndon.bracketing(word)) for word in lyndon.lyndon_words(channels, depth)]


def _based(path: Tensor, basepoint: bool | Tensor) -> Tensor:
    if basepoint is False:
        return path
    first = torch.zeros_like(path[..., :1, :]) if basepoint is True else basepoint.to(path)[..., None, :]
    return torch.cat([first.expand_as(path[..., :1, :]), path], dim=-2)


def signature(
    path: Tensor,
    depth: int,
    stream: bool = False,
    basepoint: bool | Tensor = False,
    inverse: bool = False,
    initial: Tensor | None = None,
    scalar_term: bool = False,
) -> Tensor:
    """The signature of a path; with `stream`, of its first two points, its first three, and so on."""
    path, channels = _based(path, basepoint), path.shape[-1]
    if path.shape[-2] < 2:
        raise ValueError("Got a path of one point; expected at least two, or a basepoint before the first.")
    if stream:
        levels = tensor.running(tensor.signatures_of_increments(path.diff(dim=-2), depth))
        levels = tensor.inverse(levels) if inverse else levels
    else:
        levels = tensor.split(windows.signature(path.flip(-2) if inverse else path, depth), channels, depth)
    if initial is not None:
        given = tensor.split(initial[..., scalar_term:], channels, depth)
        given = [level[..., None, :].expand_as(one) if stream else level for level, one in zip(given, levels)]  # noqa: B905
        levels = tensor.chen(levels, given) if inverse else tensor.chen(given, levels)
    return _with_scalar(torch.cat(levels, dim=-1), scalar_term)


def _with_scalar(flat: Tensor, scalar_term: bool) -> Tensor:
    return nn.functional.pad(flat, (1, 0), value=1.0) if scalar_term else flat


def logsignature(
    path: Tensor,
    depth: int,
    stream: bool = False,
    basepoint: bool | Tensor = False,
    inverse: bool = False,
    mode: Mode = "words",
) -> Tensor:
    """The log-signature of a path; with `stream`, of its first two points, its first three, and so on."""
    if stream:
        signatures = signature(path, depth, stream=True, basepoint=basepoint, inverse=inverse)
        return signature_to_logsignature(signatures, path.shape[-1], depth, mode=mode)
    found = windows.log_signature(_based(path, basepoint), depth, basis=_basis(mode))
    return -found if inverse else found  # a path and its reverse undo each other


def _basis(mode: Mode) -> Basis:
    bases: dict[Mode, Basis] = {"words": "words", "brackets": "brackets", "expand": "expanded"}
    if mode not in bases:
        raise ValueError(f"Got mode={mode!r}; expected one of {', '.join(map(repr, bases))}.")
    return bases[mode]


def signature_to_logsignature(
    signature: Tensor,
    channels: int,
    depth: int,
    stream: bool = False,
    mode: Mode = "words",
    scalar_term: bool = False,
) -> Tensor:
    """Log-signatures of signatures; `stream` says that these are of a stream, which changes nothing here."""
    expanded = torch.cat(tensor.logarithm(tensor.split(signature[..., scalar_term:], channels, depth)), dim=-1)
    return tensor.in_basis(expanded, channels, depth, _basis(mode))


def signature_combine(
    sigtensor1: Tensor, sigtensor2: Tensor, input_channels: int, depth: int, scalar_term: bool = False
) -> Tensor:
    """The signature of one path followed by another."""
    return multi_signature_combine([sigtensor1, sigtensor2], input_channels, depth, scalar_term)


def multi_signature_combine(
    sigtensors: Sequence[Tensor], input_channels: int, depth: int, scalar_term: bool = False
) -> Tensor:
    pieces = torch.stack([one[..., scalar_term:] for one in sigtensors], dim=-2)
    levels = tensor.joined(tensor.split(pieces, input_channels, depth))
    return _with_scalar(torch.cat(levels, dim=-1), scalar_term)


def extract_signature_term(
    sigtensor: Tensor, channels: int, depth: int | None = None, scalar_term: bool = False
) -> Tensor:
    """The highest level of a signature, or the one of `depth`."""
    flat = sigtensor[..., scalar_term:]
    if depth is None:
        depth = tensor.depth_of(flat.shape[-1], channels)
    start = lyndon.signature_channels(channels, depth - 1)
    return flat[..., start : start + channels**depth]


class Signature(nn.Module):
    """`signature` as a module: `Signature(depth)(path, basepoint=..., initial=...)`."""

    def __init__(self, depth: int, stream: bool = False, inverse: bool = False, scalar_term: bool = False):
        super().__init__()
        self.depth, self.stream, self.inverse, self.scalar_term = depth, stream, inverse, scalar_term

    def forward(self, path: Tensor, basepoint: bool | Tensor = False, initial: Tensor | None = None) -> Tensor:
        return signature(path, self.depth, self.stream, basepoint, self.inverse, initial, self.scalar_term)


class LogSignature(nn.Module):
    """`logsignature` as a module: `LogSignature(depth)(path, basepoint=...)`."""

    def __init__(self, depth: int, stream: bool = False, inverse: bool = False, mode: Mode = "words"):
        super().__init__()
        self.depth, self.stream, self.inverse = depth, stream, inverse
        self.mode: Mode = mode

    def forward(self, path: Tensor, basepoint: bool | Tensor = False) -> Tensor:
        return logsignature(path, self.depth, self.stream, basepoint, self.inverse, self.mode)


Logsignature = LogSignature  # older versions of Signatory


class SignatureToLogSignature(nn.Module):
    """`signature_to_logsignature` as a module."""

    def __init__(
        self, channels: int, depth: int, stream: bool = False, mode: Mode = "words", scalar_term: bool = False
    ):
        super().__init__()
        self.channels, self.depth, self.scalar_term = channels, depth, scalar_term
        self.mode: Mode = mode

    def forward(self, signature: Tensor) -> Tensor:
        return signature_to_logsignature(
            signature, self.channels, self.depth, mode=self.mode, scalar_term=self.scalar_term
        )


SignatureToLogsignature = SignatureToLogSignature


class Path:
    """A path whose signature over any interval can be asked for, and that can grow.

    Each answer is computed from the points of its interval, which the kernel follows in microseconds: nothing is stored
    beside the path, and no difference of large numbers is taken.

    >>> path = Path(torch.randn(4, 100, 3), depth=2)
    >>> path.logsignature(10, 20).shape  # of points 10 to 19, counted as Python counts
    torch.Size([4, 6])
    """

    def __init__(
        self,
        path: Tensor,
        depth: int,
        basepoint: bool | Tensor = False,
        remember_path: bool = True,
        scalar_term: bool = False,
    ):
        self.depth, self.scalar_term, self._path = depth, scalar_term, _based(path, basepoint)

    @property
    def path(self) -> list[Tensor]:
        return [self._path]

    @property
    def shape(self) -> torch.Size:
        return self._path.shape

    def size(self, index: int | None = None) -> int | torch.Size:
        return self.shape if index is None else self.shape[index]

    def channels(self) -> int:
        return self._path.shape[-1]

    def signature_channels(self) -> int:
        return signature_channels(self.channels(), self.depth, self.scalar_term)

    def logsignature_channels(self) -> int:
        return logsignature_channels(self.channels(), self.depth)

    def signature_size(self, index: int | None = None) -> int | torch.Size:
        size = torch.Size([*self.shape[:-2], self.signature_channels()])
        return size if index is None else size[index]

    def logsignature_size(self, index: int | None = None) -> int | torch.Size:
        size = torch.Size([*self.shape[:-2], self.logsignature_channels()])
        return size if index is None else size[index]

    def update(self, path: Tensor) -> None:
        """Append points (batch, length, channels)."""
        self._path = torch.cat([self._path, path], dim=-2)

    def _interval(self, start: int | None, end: int | None) -> Tensor:
        points = self._path[..., start:end, :]
        if points.shape[-2] < 2:
            raise ValueError(
                f"Got start={start} and end={end} on a path of {self.shape[-2]} points; expected an interval of at "
                "least two."
            )
        return points

    def signature(self, start: int | None = None, end: int | None = None) -> Tensor:
        """Of points `start`, ..., `end - 1`."""
        return signature(self._interval(start, end), self.depth, scalar_term=self.scalar_term)

    def logsignature(self, start: int | None = None, end: int | None = None, mode: Mode = "words") -> Tensor:
        return logsignature(self._interval(start, end), self.depth, mode=mode)
