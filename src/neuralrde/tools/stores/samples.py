"""The series of a store as estimators take them: a `SampleSource`, and examples for one model, in its basis.

They were transformed and cut into windows when the store was prepared. So whatever needs whole series is refused: an
augmentation, and the closed form beside an ensemble.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Int

from ...errors import setting
from ...models import AbstractDrivenModel, Ensemble, LogSignatureSizes
from ...models.base import ForeignModel
from ...paths import Series, Windows
from ...signatures.bases import Basis
from ...training import Examples
from ...training.examples import prefetched
from ...transforms import Transform
from ._store import Store
from .files import Selection, StoreError

# Numbers that are read at once for statistics.
_NUMBERS = 2**23


@dataclass(frozen=True)
class StoredExamples:
    """A source of examples, like `Examples`, whose log-signatures stay on the disk.

    Args:
        store: the series.
        basis: of the log-signatures.
        target: one per series, as the loss takes it.
        weight: how much each series counts.
        extra_inputs: one per series each, which come after the store's own.
    """

    store: Store
    basis: Basis = "words"
    target: Any = None
    weight: np.ndarray | None = None
    extra_inputs: Sequence[np.ndarray] = ()

    def __len__(self) -> int:
        return len(self.store)

    def take(self, rows: Selection) -> Examples:
        rows = np.arange(len(self))[rows]
        examples = self.store.take(rows, basis=self.basis)
        chosen = lambda array: None if array is None else array[rows]
        extra = tuple(array[rows] for array in self.extra_inputs)
        return Examples((*examples.inputs, *extra), chosen(self.target), examples.windows, chosen(self.weight))

    @property
    def fingerprint(self) -> str:
        """A checksum of the store, and of the arrays that came with it."""
        digest = blake2b(f"{self.store.fingerprint} {self.basis}".encode(), digest_size=16)
        for array in (self.target, self.weight, *self.extra_inputs):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def sizes(self) -> LogSignatureSizes:
        """The statistics that a model's scale is fitted to, from one pass over the store in its order."""
        most = max(1, _NUMBERS // (self.store.most_windows * self.store.controls))
        rows = (slice(start, start + most) for start in range(0, len(self), most))
        counts, take = self.store.window_counts, self.store.take
        with prefetched((take(part, basis=self.basis, padded=False).inputs[1], counts[part]) for part in rows) as parts:
            return LogSignatureSizes.of(parts)


def _basis_of(store: Store, model: Any) -> Basis:
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


@dataclass(frozen=True)
class StoreSource:
    """The series of a store, whose log-signatures stay on the disk."""

    store: Store

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, rows: Selection) -> "StoreSource":
        return StoreSource(self.store[rows])

    @property
    def series(self) -> Series:
        return Series.from_array(np.arange(float(len(self)))[:, None])  # all different: equal ones are not divided

    @property
    def groups(self) -> np.ndarray | None:
        return self.store.groups

    def targets(self, y: Any, task: str) -> Any:
        if y is not None:
            return y
        own = self.store.task
        if own is None:
            raise StoreError(f"Got a store without a target; expected y=..., or one prepared with {setting('target')}.")
        if own != task:
            names = {"classification": "NeuralRDEClassifier", "regression": "NeuralRDERegressor"}
            raise StoreError(
                f"Got a store of a {own} for {names[task]}; expected a {task}. Write "
                f"`{names[own]}()`, or prepare it with {setting('task', task)}."
            )
        return self.store.labels

    def check_possible(self, trainer: Any, *, per_time: bool, warm: bool) -> None:
        windows, given, augmentation = self.store.windows, trainer.given, trainer.augmentation
        other_windows = given["windows"] is not None and trainer.windows != windows
        for refused, got, expected, why in (
            (other_windows, setting("windows", given["windows"]), "None", f"the store was cut into {windows!r}"),
            (augmentation is not None, setting("augmentation", augmentation), "None", "its series are as they are"),
            (warm, "warm_start=True", "False", "a store has its own transform; go on by checkpoint= and resume=True"),
            (
                given["transform"] != "standard",
                setting("transform", given["transform"]),
                '"standard"',
                "`prepare` has applied the store's own transform",
            ),
            (per_time, "a target at every point", "one per series", "it holds nothing between the ends of windows"),
        ):
            if refused:
                raise StoreError(f"Got {got} for a store; expected {expected}, because {why}.")

    def whole(self) -> None:
        return None

    def fit_and_prepare(self, transform: Transform) -> tuple[Transform, "StoreSource"]:
        return self.store.transform, self

    def prepared(self, transform: Callable[[Series], Series]) -> "StoreSource":
        if transform != self.store.transform:
            raise self._prepared_otherwise()
        return self

    @property
    def n_channels(self) -> int:
        return len(self.store.path_channels)

    def resolved(self, windows: Windows) -> Windows:
        return self.store.windows

    def window_counts(self, windows: Windows) -> Int[np.ndarray, "samples"]:
        return self.store.window_counts

    def examples(
        self,
        model: Any,
        windows: Windows,
        target: np.ndarray | None = None,
        *,
        weight: np.ndarray | None = None,
        extra_inputs: Sequence[np.ndarray] = (),
        per_time: bool = False,
        **_: Any,
    ) -> StoredExamples:
        if windows != self.store.windows:
            raise self._prepared_otherwise()
        if per_time:
            raise StoreError("Got a store for an estimator that predicts at every point; expected series.")
        return StoredExamples(self.store, _basis_of(self.store, model), target, weight, extra_inputs)

    def fit_inputs(self, model: Any, examples: "StoredExamples") -> Any:
        return model.fit_inputs((None, examples.sizes()))

    def check_finite(self, outputs: np.ndarray) -> None:
        wrong = ~np.isfinite(outputs).all(axis=tuple(range(1, outputs.ndim)))
        if wrong.any():
            raise StoreError(
                f"Got series {self.store.ids[int(wrong.argmax())]}, for which the model's prediction is not a finite "
                "number. Look for values in it that are no measurements, and write NaN for them."
            )

    def _prepared_otherwise(self) -> StoreError:
        return StoreError(
            f"Got a store with the windows {self.store.windows!r} and statistics of its own; expected the windows and "
            "the statistics of the training set. Prepare it like the store that was trained from: `neuralrde prepare "
            "DATA STORE --like TRAINED`, or `prepare(..., like=Store(...))`."
        )
