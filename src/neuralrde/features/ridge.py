"""Ridge regression whose penalty is chosen by leaving out examples, or groups of them, in closed form.

`ridge_of_classes` and `ridge_of_numbers` fit it to the two kinds of targets; `LinearModel` is what they lead to.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
from jaxtyping import Float, Int

from .features import SeriesFeatures

# Penalties that are compared, as multiples of the mean squared length of a centred example. Features of many windows
# are nearly collinear, so the best penalty lies anywhere between almost none and almost everything.
PENALTIES = np.logspace(-5, 2, 15)
# A decomposition of a larger matrix takes minutes. The best penalty hardly depends on the number of samples: it is the
# ratio of noise to signal.
_LARGEST = 2500


@dataclass(frozen=True)
class Ridge:
    """A linear map, and what it would have predicted for each training example had that example been left out.

    >>> features = np.random.default_rng(0).normal(size=(100, 3))
    >>> ridge = Ridge.fit(features, features @ [[1.0], [2.0], [0.0]] + 5.0)
    >>> ridge.coefficients.round(2).tolist(), ridge.intercept.round(2).tolist()
    ([[1.0], [2.0], [0.0]], [5.0])
    """

    coefficients: Float[np.ndarray, "features outputs"]
    intercept: Float[np.ndarray, "outputs"]
    penalty: float
    left_out: Float[np.ndarray, "samples outputs"]

    def __call__(self, features: Float[np.ndarray, "samples features"]) -> Float[np.ndarray, "samples outputs"]:
        return features @ self.coefficients + self.intercept

    @staticmethod
    def fit(
        features: Any,
        targets: Any,
        *,
        weight: Any = None,
        groups: Any = None,
        loss: Callable[[np.ndarray, np.ndarray], float] | None = None,
        penalties: Any = PENALTIES,
    ) -> "Ridge":
        """The ridge regression with the smallest loss on what was left out.

        One decomposition serves all penalties. The predictions without a group are exact: with H the matrix that takes
        targets to predictions, they miss the group's targets by (1 - H_gg)^-1 (y - H y)_g. Of many samples with many
        features, a part chooses the penalty.

        Args:
            features: `(samples, features)`.
            targets: `(samples, outputs)`.
            weight: how much each sample counts; None counts all alike.
            groups: one per sample: those of a group are left out together. None leaves out one sample at a time.
            loss: of predictions, each made without the sample's group, and the samples that they are for; None is the
                squared error.
            penalties: to choose from, as multiples of the mean squared length of a centred row of `features`.
        """
        features, targets = np.asarray(features, np.float64), np.asarray(targets, np.float64)
        weight = np.ones(len(features)) if weight is None else np.asarray(weight, np.float64)
        if loss is None:
            loss = lambda found, rows: float((weight[rows, None] * (targets[rows] - found) ** 2).mean())
        members = None if groups is None else _members(groups)
        # Samples without weight have no place in what is left out.
        rows, penalties = np.flatnonzero(weight > 0), np.asarray(penalties, np.float64)
        if min(len(rows), features.shape[1]) > _LARGEST and len(penalties) > 1:
            part = _part(rows, members)
            some = _fitted(features, targets, weight, members, part, penalties, loss, _Decomposed)
            penalties = penalties[some.chosen :][:1]
        kind = _Decomposed if len(penalties) > 1 else _Factorised
        return _fitted(features, targets, weight, members, rows, penalties, loss, kind).ridge


class _Fitted(NamedTuple):
    ridge: Ridge
    chosen: int


def _fitted(features, targets, weight, members, rows, penalties, loss, kind) -> _Fitted:
    """Fit to some rows; those that were not fitted are predicted as they are."""
    x, y, w = features[rows], targets[rows], weight[rows] * (len(rows) / weight[rows].sum())
    mean, level = (np.average(array, axis=0, weights=w) for array in (x, y))
    root = np.sqrt(w)[:, None]
    solver = kind(root * (x - mean), root * (y - level))
    inside = None
    if members is not None:
        place = np.full(len(features), -1)
        place[rows] = np.arange(len(rows))
        inside = [own for group in members if len(own := place[group][place[group] >= 0])]
    unit = max(float((solver.x**2).sum()) / len(x), 1e-300)
    best: tuple[float, int, np.ndarray] | None = None
    for number, penalty in enumerate(penalties * unit):
        left_out = y - _without(solver, penalty, root, inside) / root
        found = loss(left_out, rows)
        if best is None or found < best[0]:
            best = found, number, left_out
    assert best is not None
    penalty = float(penalties[best[1]] * unit)
    coefficients = solver.coefficients(penalty)
    intercept = level - mean @ coefficients
    everywhere = features @ coefficients + intercept
    everywhere[rows] = best[2]
    return _Fitted(Ridge(coefficients, intercept, penalty, everywhere), best[1])


class _Decomposed:
    """Ridge regressions with any penalty, from one decomposition x = U diag(sqrt(w)) V'."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.x, self.y, self.back = x, y, None
        if x.shape[0] <= x.shape[1]:  # from whichever of the two squares is smaller
            w, self.u = scipy.linalg.eigh(x @ x.T, driver="evd", check_finite=False)
            self.w = np.maximum(w, 0.0)
        else:
            w, v = scipy.linalg.eigh(x.T @ x, driver="evd", check_finite=False)
            kept = w > 1e-12 * max(float(w[-1]), 1e-300)
            self.w, self.back = w[kept], v[:, kept]
            self.u = x @ self.back / np.sqrt(self.w)
        self.along = self.u.T @ y

    def residuals(self, penalty: float) -> np.ndarray:
        return self.y - self.u @ ((self.w / (self.w + penalty))[:, None] * self.along)

    def own(self, penalty: float) -> np.ndarray:
        """The diagonal of 1 - H."""
        return 1.0 - (self.u**2) @ (self.w / (self.w + penalty))

    def block(self, penalty: float, rows: np.ndarray) -> np.ndarray:
        """A group's block of 1 - H."""
        return np.eye(len(rows)) - (self.u[rows] * (self.w / (self.w + penalty))) @ self.u[rows].T

    def coefficients(self, penalty: float) -> np.ndarray:
        solved = self.along / (self.w + penalty)[:, None]
        return self.x.T @ (self.u @ solved) if self.back is None else self.back @ (np.sqrt(self.w)[:, None] * solved)


class _Factorised:
    """The ridge regression with one penalty, from a Cholesky factorisation: a tenth of a decomposition's work."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.x, self.y, self.penalty = x, y, None

    def _factorise(self, penalty: float) -> None:
        if self.penalty == penalty:
            return
        x, self.penalty = self.x, penalty
        if x.shape[0] <= x.shape[1]:  # 1 - H = penalty (x x' + penalty)^-1
            square = x @ x.T
            square.flat[:: len(square) + 1] += penalty
            factor = scipy.linalg.cholesky(square, lower=True, overwrite_a=True, check_finite=False)
            inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=True, overwrite_c=True)  # type: ignore
            self.inverse = np.tril(inverse) + np.tril(inverse, -1).T
            self.thin = None
            self.solved = x.T @ (self.inverse @ self.y)
        else:  # H = z' z
            square = x.T @ x
            square.flat[:: len(square) + 1] += penalty
            factor = scipy.linalg.cholesky(square, lower=True, overwrite_a=True, check_finite=False)
            self.thin = scipy.linalg.solve_triangular(factor, x.T, lower=True, check_finite=False)
            self.solved = scipy.linalg.solve_triangular(factor.T, self.thin @ self.y, lower=False, check_finite=False)

    def residuals(self, penalty: float) -> np.ndarray:
        self._factorise(penalty)
        return self.y - self.x @ self.solved

    def own(self, penalty: float) -> np.ndarray:
        self._factorise(penalty)
        return penalty * np.diag(self.inverse) if self.thin is None else 1.0 - (self.thin**2).sum(axis=0)

    def block(self, penalty: float, rows: np.ndarray) -> np.ndarray:
        self._factorise(penalty)
        if self.thin is None:
            return penalty * self.inverse[np.ix_(rows, rows)]
        return np.eye(len(rows)) - self.thin[:, rows].T @ self.thin[:, rows]

    def coefficients(self, penalty: float) -> np.ndarray:
        self._factorise(penalty)
        return self.solved


def _without(solver: Any, penalty: float, root: np.ndarray, members: list[np.ndarray] | None) -> np.ndarray:
    """By how much predictions miss targets that were left out, from the residuals of a fit with all of them.

    Rows are weighted. A sample also has a weight in the mean, which is not penalised.
    """
    residuals, count = solver.residuals(penalty), float((root**2).sum())
    if members is None:
        # A sample that alone decides its own prediction says nothing when it is left out.
        return residuals / np.maximum(solver.own(penalty) - root[:, 0] ** 2 / count, 1e-6)[:, None]
    missed = np.empty_like(residuals)
    for rows in members:
        apart = solver.block(penalty, rows) - root[rows] @ root[rows].T / count
        missed[rows] = np.linalg.solve(apart + 1e-9 * np.eye(len(rows)), residuals[rows])
    return missed


def _part(rows: np.ndarray, members: list[np.ndarray] | None) -> np.ndarray:
    """Some of the rows, of all groups alike: whole groups would be few."""
    if members is None or len(members) > len(rows) // 4:
        return rows[:: -(-len(rows) // _LARGEST)]
    several = -(-len(rows) // _LARGEST)
    chosen = np.concatenate([group[::several] for group in members])
    return np.sort(chosen[np.isin(chosen, rows)])


def _members(groups: Any) -> list[np.ndarray]:
    _, number = np.unique(np.asarray(groups), return_inverse=True)
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number))[:-1])


class LinearModel(eqx.Module):
    """Features and a linear map of them; with classes also how far apart scores are to be taken."""

    features: SeriesFeatures
    coefficients: Float[Any, "features outputs"]
    intercept: Float[Any, "outputs"]
    sharpness: Float[Any, ""]

    def __call__(self, features: Float[np.ndarray, "samples features"]) -> Float[np.ndarray, "samples outputs"]:
        return np.asarray(features, np.float64) @ self.coefficients + self.intercept


def ridge_of_classes(
    features: Float[np.ndarray, "samples features"],
    target: Int[np.ndarray, " samples"],
    classes: int,
    weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> tuple[Ridge, float]:
    """The regression of 1 for the right class and -1 for others, with the smallest log loss; and its sharpness."""
    targets = np.where(target[:, None] == np.arange(classes), 1.0, -1.0)
    each = np.ones(len(target)) if weight is None else weight
    loss = lambda scores, rows: calibrated(scores, target[rows], each[rows])[1]
    ridge = Ridge.fit(features, targets, weight=weight, groups=groups, loss=loss)
    return ridge, calibrated(ridge.left_out, target, weight)[0]


def ridge_of_numbers(
    features: Float[np.ndarray, "samples features"],
    target: Float[np.ndarray, "samples outputs"],
    weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Ridge:
    """The regression of numbers, NaN where they are not known: each output is fitted to the samples that have it."""
    target = target.astype(np.float64)
    weight = np.ones(len(target)) if weight is None else weight
    left_out, penalty, outputs = np.empty_like(target), 0.0, target.shape[1]
    coefficients, intercept = np.empty((features.shape[1], outputs)), np.empty(outputs)
    # Outputs that are known for the same series share a regression and its penalty.
    patterns, pattern = np.unique(~np.isnan(target), axis=1, return_inverse=True)
    for number, known in enumerate(patterns.T):
        own = pattern == number
        wanted = np.ascontiguousarray(target[:, own])
        spread = wanted[known].std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        ridge = Ridge.fit(features, np.nan_to_num(wanted) / spread, weight=weight * known, groups=groups)
        coefficients[:, own], intercept[own] = ridge.coefficients * spread, ridge.intercept * spread
        left_out[:, own], penalty = ridge.left_out * spread, max(penalty, ridge.penalty)
    return Ridge(coefficients, intercept, penalty, left_out)


def calibrated(
    scores: Float[np.ndarray, "samples classes"], target: np.ndarray, weight: np.ndarray | None = None
) -> tuple[float, float]:
    """By how much to multiply scores, so that a softmax makes the best probabilities of them; and their log loss.

    >>> sharpness, loss = calibrated(np.array([[1.0, -1.0], [0.8, -0.8], [-0.2, 0.2]]), np.array([0, 0, 0]))
    >>> 0.5 < sharpness < 20, bool(loss < np.log(2))
    (True, True)
    """

    def loss(logarithm: float) -> float:
        logits = scores * np.exp(logarithm)
        losses = scipy.special.logsumexp(logits, axis=1) - logits[np.arange(len(target)), target]
        return float(np.average(losses, weights=weight))

    found = scipy.optimize.minimize_scalar(loss, bounds=(-6.0, 4.0), method="bounded", options={"xatol": 1e-2})
    return float(np.exp(found.x)), float(found.fun)
