"""Series of a store as a source of samples, like `SeriesInMemory`: their log-signatures are on a disk.

They were transformed and cut into windows when the store was prepared. So whatever needs whole series is refused: a
search for windows or models, augmentation, and the closed form beside an ensemble.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from ..paths import Series, Windows
from ..stores import Store, StoreError
from ..stores.examples import StoredExamples
from ..training import predict
from ..transforms import Transform
from .families import is_auto
from .sources import AtPoints, VersionOutputs


@dataclass(frozen=True)
class SeriesOnDisk:
    """The series of a store; see `SeriesInMemory` for what each method does."""

    store: Store
    in_memory: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, rows: Any) -> "SeriesOnDisk":
        return SeriesOnDisk(self.store[rows])

    @property
    def series(self) -> Series:
        """As many series of one point, all different, for functions that only ask how many there are."""
        return Series.from_array(np.arange(float(len(self)))[:, None])

    @property
    def groups(self) -> np.ndarray | None:
        return self.store.groups

    def targets(self, estimator: Any, y: Any) -> Any:
        """The targets that were given, or the store's own."""
        if y is not None:
            return y
        task = self.store.task
        if task is None:
            raise StoreError("Got a store without a target; expected one, or y=.... Prepare it with target=....")
        if task != estimator._task:
            other = {"classification": "NeuralRDEClassifier", "regression": "NeuralRDERegressor"}[task]
            raise StoreError(
                f"Got a store of a {task} for {type(estimator).__name__}; expected a {estimator._task}. Write "
                f"`{other}()`, or prepare it with task={estimator._task!r}."
            )
        return self.store.labels

    def validation(self, given: Any) -> Sequence[Any]:
        given = given if isinstance(given, tuple | list) else (given, None)
        other = given[0]
        if not isinstance(other, Store):
            raise StoreError(
                f"Got validation of type {type(other).__name__} beside a store; expected a store too, prepared like it."
            )
        if other.transform != self.store.transform or other.windows != self.store.windows:
            raise StoreError("Got a validation store that was prepared in another way; expected it made with like=....")
        return given

    def check_possible(self, estimator: Any, parts: SimpleNamespace) -> None:
        transform, windows = vars(estimator)["transform"], self.store.windows
        why = None
        if is_auto(estimator.model):
            why = 'model="auto"', "a model", "families are compared on series in memory"
        elif estimator.windows is not None and parts.windows != windows:
            why = f"windows={estimator.windows!r}", "None", f"the store was cut into {windows!r}"
        elif parts.augmentation is not None:
            why = f"augmentation={parts.augmentation!r}", "None", "its log-signatures are of the series as they are"
        elif estimator.warm_start and hasattr(estimator, "model_"):
            why = "warm_start=True", "False", "a store has a transform of its own; go on by checkpoint= and resume=True"
        elif transform != "standard":
            why = f"transform={transform!r}", '"standard"', "`prepare` has applied the store's own transform"
        elif estimator.per_time_:
            why = "a target at every point", "one per series", "it holds nothing between the ends of windows"
        if why is not None:
            raise StoreError(f"Got {why[0]} for a store; expected {why[1]}, because {why[2]}.")

    def fit_and_prepare(self, transform: Transform) -> tuple[Transform, "SeriesOnDisk"]:
        return self.store.transform, self

    def prepared(self, transform: Callable[[Series], Series]) -> "SeriesOnDisk":
        return self

    @property
    def channels(self) -> int:
        return len(self.store.path_channels)

    def candidates(self, windows: Windows) -> list[Windows]:
        return [self.store.windows]

    def window_counts(self, windows: Windows) -> Int[np.ndarray, "samples"]:
        return self.store.window_counts

    def examples(
        self,
        model: Any,
        windows: Windows,
        target: np.ndarray | None = None,
        *,
        weight: np.ndarray | None = None,
        others: Sequence[np.ndarray] = (),
        **_: Any,
    ) -> StoredExamples:
        return StoredExamples(self.store, model, target=target, weight=weight, others=others)

    def fit_inputs(self, model: Any, examples: StoredExamples) -> Any:
        return model.fit_inputs((None, examples.sizes()))

    def outputs(self, estimator: Any) -> tuple[list[VersionOutputs], AtPoints]:
        store = self.store
        if store.transform != estimator.transform_ or store.windows != estimator.windows_:
            raise StoreError(
                f"Got a store with the windows {store.windows!r} and statistics of its own; expected "
                f"{estimator.windows_!r} and the statistics of the training set. Prepare it like the store that was "
                "trained from: `neuralrde prepare DATA STORE --like TRAINED`, or `prepare(..., like=Store(...))`."
            )
        if estimator.closed_form_ is not None and estimator.blend_[0] != 0:
            raise StoreError(
                "Got a store for an estimator that is blended with the closed form; expected series, because the "
                "closed form looks at them as a whole. Fit with closed_form=False, or from a store, to predict from a "
                "store."
            )
        if estimator.per_time_:
            raise StoreError("Got a store for an estimator that predicts at every point; expected series.")
        examples = self.examples(estimator.model_, store.windows)
        outputs = predict(estimator.model_, examples, mesh=getattr(estimator, "_mesh", None))
        wrong = ~np.isfinite(outputs).all(axis=tuple(range(1, outputs.ndim)))
        if wrong.any():
            raise StoreError(
                f"Got series {store.ids[int(wrong.argmax())]}, for which the model's prediction is not a finite "
                "number. Look for values in it that are no measurements, and write NaN for them."
            )
        return [VersionOutputs(estimator._blended(outputs, lambda form: np.zeros(())))], lambda outputs: outputs
