"""The series of a store as examples for one model, in its basis, with what an estimator knows of each series."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from ..models import AbstractDrivenModel, Ensemble, LogSignatureSizes
from ..models.base import ForeignModel
from ..training import Examples
from ..training.examples import prefetched
from ._store import Store
from .format import StoreError

# Numbers that are read at once for statistics.
_NUMBERS = 2**23


class StoredExamples:
    """A source of examples, like `Examples`, whose log-signatures stay on the disk.

    Args:
        store: the series.
        model: the model that they are for; an error if the store does not hold what it takes.
        target: one per series, as the loss takes it; None takes the store's own.
        weight: how much each series counts.
        others: more inputs, one per series, that come after the store's own.
    """

    def __init__(
        self,
        store: Store,
        model: Any = None,
        *,
        target: Any = None,
        weight: np.ndarray | None = None,
        others: Sequence[np.ndarray] = (),
    ):
        self.store, self.weight, self.others = store, weight, tuple(others)
        self.target = store.target if target is None else target
        self.basis: Any = "words" if model is None else _basis_of(store, model)

    def __len__(self) -> int:
        return len(self.store)

    def take(self, rows: Any) -> Examples:
        rows = np.arange(len(self))[rows]
        found = self.store.take(rows, basis=self.basis)
        chosen = lambda array: None if array is None else array[rows]
        others = tuple(array[rows] for array in self.others)
        return Examples((*found.inputs, *others), chosen(self.target), found.windows, chosen(self.weight))

    @property
    def fingerprint(self) -> str:
        """A checksum of the store, and of the arrays that came with it."""
        digest = blake2b(f"{self.store.fingerprint} {self.basis}".encode(), digest_size=16)
        for array in (self.target, self.weight, *self.others):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def sizes(self) -> LogSignatureSizes:
        """The statistics that a model's scale is fitted to, from one pass over the store in its order."""
        most = max(1, _NUMBERS // (self.store.most_windows * self.store.controls))
        rows = (slice(start, start + most) for start in range(0, len(self), most))
        with prefetched(self._parts(rows)) as parts:
            return LogSignatureSizes.of(parts)

    def _parts(self, rows: Iterator[slice]) -> Iterator[tuple[Any, np.ndarray]]:
        counts = self.store.window_counts
        for one in rows:
            yield self.store.take(one, basis=self.basis, padded=False).inputs[1], counts[one]


def _basis_of(store: Store, model: Any) -> Any:
    """The basis in which a model takes log-signatures; an error if it takes something else than the store holds."""
    model = model.first if isinstance(model, Ensemble) else model
    if isinstance(model, ForeignModel):
        return "words"
    if not isinstance(model, AbstractDrivenModel):
        raise StoreError(
            f"Got the model {type(model).__name__}, which is not driven by log-signatures; expected one that is, "
            "because a store holds nothing else. Train it on series in memory."
        )
    if model.takes_increments != store.mixed or (store.mixed and model.basis != "words"):
        raise StoreError(
            f"Got the model {type(model).__name__} and a store that was prepared for {store.model!r}; expected one "
            f"that was prepared for it, because a path of {len(store.path_channels)} channels is mixed for one of "
            "them and not for the other. Prepare the data again with the model's name: `neuralrde prepare --model ...`."
        )
    return model.basis
