"""An estimator of ours inside one that follows another library's conventions: what those of aeon and sktime share."""

from typing import Any, ClassVar, Self

from sklearn.base import clone

from ._cores import at_most, cores
from ._types import SeriesLike, TargetLike


class Inside:
    """Fits, predicts and transforms by the estimator inside, `estimator_`. Comes before the other library's base."""

    _default: ClassVar[Any]
    """The class of what is fitted if no `estimator` was given."""
    n_jobs: int | None

    def _ours(self, X: SeriesLike) -> SeriesLike:
        """Series as neuralrde has them, time before channels."""
        raise NotImplementedError

    def _call(self, method: str, *arguments: Any) -> Any:
        """A method of the estimator inside, by as many cores as `n_jobs` says."""
        count = self.n_jobs or 1
        with at_most(count if count > 0 else max(1, cores() + 1 + count)):
            return getattr(self.estimator_, method)(*arguments)

    def _new(self) -> None:
        """Put an estimator inside that has not been fitted, with our parameters; None leaves it its own."""
        given = vars(self).get("estimator")
        own = {name: vars(self).get(name) for name in ("class_weight", "draws", "random_state")}
        own = {name: value for name, value in own.items() if value is not None}
        estimator: Any = self._default() if given is None else clone(given)
        self.estimator_ = estimator.set_params(**own)

    def _fit(self, X: SeriesLike, y: TargetLike = None) -> Self:
        self._new()
        self._call("fit", self._ours(X), y)
        return self

    def _predict(self, X: SeriesLike) -> Any:
        return self._call("predict", self._ours(X))

    def _predict_proba(self, X: SeriesLike) -> Any:
        return self._call("predict_proba", self._ours(X))

    def _transform(self, X: SeriesLike, y: TargetLike = None) -> Any:
        return self._call("transform", self._ours(X))
