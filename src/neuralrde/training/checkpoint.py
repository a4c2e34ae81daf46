"""Checkpoints: a training's state in a file, and back."""

import os
import re
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

from .archive import FileRefused, arrays_of, read_archive, with_arrays, write_archive
from .settings import Settings
from .state import TrainingState

_FORMAT = 1
_TREES = ("model", "optimiser", "best")
_NUMBERS = ("best_loss", "best_epoch", "epoch", "caution", "failures", "seconds")
# A training may go on for longer, or save more often, and is still the same training.
_FREE = ("save_every", "time_budget")
_ADDRESS = re.compile(" at 0x[0-9a-f]+")


def save_checkpoint(path: str | os.PathLike, state: TrainingState, *, fingerprint: str) -> None:
    """Write the state, atomically; the fingerprint says which training it belongs to."""
    arrays = {name: array for tree in _TREES for name, array in arrays_of(getattr(state, tree), tree).items()}
    numbers = {name: getattr(state, name) for name in _NUMBERS}
    header = {"fingerprint": fingerprint, "history": list(state.history), **numbers}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_archive(path, "checkpoint", format=_FORMAT, header=header, arrays=arrays)


def load_checkpoint(path: str | os.PathLike, start: TrainingState, *, fingerprint: str) -> TrainingState:
    """The state as it was left; `start` is the same training's initial state, and gives it its structure."""
    header, arrays = read_archive(path, "checkpoint", format=_FORMAT)
    if header.get("fingerprint") != fingerprint:
        raise FileRefused(
            f"Got the checkpoint {str(path)!r} of another training; expected one with the same data, model and "
            "settings, because going on would end somewhere else. Give the same ones (an estimator's random_state too, "
            "as a number), or start a new checkpoint."
        )
    trees = {tree: with_arrays(getattr(start, tree), arrays, tree) for tree in _TREES}
    numbers = {name: header[name] for name in _NUMBERS}
    return TrainingState(**trees, **numbers, history=tuple(header["history"]))


def fingerprint_of(settings: Settings, *parts: Any) -> str:
    """A hash of the settings and of all arrays in `parts`: model, training and validation set, loss."""
    decisive = {name: value for name, value in asdict(settings).items() if name not in _FREE}
    digest = blake2b(repr((sorted(decisive.items()), type(settings.schedule).__name__)).encode(), digest_size=16)
    for part in parts:
        digest.update(_ADDRESS.sub("", repr(part)).encode())  # names, sizes and plain values
        for name, array in arrays_of(part).items():
            digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()
