"""Ridge regression whose penalties are chosen by leaving out examples, or groups of them, in closed form.

`ridge_of_classes` and `ridge_of_numbers` fit it to the two kinds of targets; `LinearModel` is what they lead to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import equinox as eqx
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
from jaxtyping import Float, Int

from .features import SeriesFeatures

# Parts of the features, and the scales that each may have.
Blocks = Sequence[tuple[slice, Sequence[float]]]
# Penalties that are compared, as multiples of the mean squared length of a centred example. Features of many windows
# are nearly collinear, so the best penalty lies anywhere between almost none and almost everything.
PENALTIES = np.logspace(-5, 2, 15)
# A larger matrix is not decomposed, which would take minutes, but factorised for one penalty. A part of the samples
# chooses it: the best penalty is the ratio of noise to signal, and hardly depends on their number.
_LARGEST, _PART = 2500, 1500
# By how much a block that may be left out has to lower the loss: of a few dozen series that are easily told apart, any
# choice looks perfect.
_CLEARLY = 0.002
# Multiples of the mean squared length from which float32 is fine enough for a factorisation.
_COARSE = 1e-3
# Rows of features that are worked on at once where there are many.
_BLOCK = 4096


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
        blocks: Blocks | None = None,
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
            blocks: of features, with the scales that each may have: the larger, the smaller is the penalty of its
                coefficients; 0 leaves it out, unless that is clearly worse. None takes features as they are.
        """
        targets = np.asarray(targets, np.float64)
        weight = np.ones(len(targets)) if weight is None else np.asarray(weight, np.float64)
        if loss is None:
            loss = lambda found, rows: float((weight[rows, None] * (targets[rows] - found) ** 2).mean())
        members = None if groups is None else _members(groups)
        # Samples without weight have no place in what is left out.
        rows, penalties = np.flatnonzero(weight > 0), np.asarray(penalties, np.float64)
        blocks = blocks or [(slice(features.shape[1]), (1.0,))]
        choice = (members, penalties, loss, blocks)
        if len(penalties) == 1 and all(len(scales) == 1 for _, scales in blocks):
            ridge = _factorised(features, targets, weight, members, rows, float(penalties[0]))
        elif min(len(rows), features.shape[1]) <= _LARGEST:
            ridge, *_ = _decomposed(features, targets, weight, rows, *choice)
        else:
            _, number, scales = _decomposed(features, targets, weight, _part(rows, members), *choice)
            each = _repeated(scales, blocks, features.shape[1]).astype(features.dtype)
            scaled = _Scaled(features, each)
            ridge = _factorised(scaled, targets, weight, members, rows, float(penalties[number]))
            ridge = replace(ridge, coefficients=ridge.coefficients * each[:, None])
        left_out = np.empty((len(targets), targets.shape[1]))
        left_out[rows] = ridge.left_out
        if len(rest := np.flatnonzero(~(weight > 0))):  # predicted as they are
            left_out[rest] = np.asarray(features[rest], np.float64) @ ridge.coefficients + ridge.intercept
        return replace(ridge, left_out=left_out)


def _decomposed(features, targets, weight, rows, members, penalties, loss, blocks: Blocks):
    """Fit to some rows, for which it says what was left out; which penalty is best, and which scales of the blocks."""
    x, y, w = np.asarray(features[rows], np.float64), targets[rows], weight[rows] * (len(rows) / weight[rows].sum())
    mean, level = (np.average(array, axis=0, weights=w) for array in (x, y))
    root = np.sqrt(w)[:, None]
    centred = _Centred(root * (x - mean), root * (y - level), blocks)
    inside = None if members is None else _inside(members, rows)
    best: Any = None
    for scales in product(*(scales for _, scales in blocks)):
        solver = centred.decomposed(scales)
        cost = _CLEARLY * sum(scale > 0 for scale, (_, options) in zip(scales, blocks, strict=True) if 0.0 in options)
        unit = max(float(solver.w.sum()) / len(x), 1e-300)
        for number, penalty in enumerate(penalties * unit):
            block = partial(solver.block, penalty)
            left_out = y - _missed(solver.residuals(penalty), solver.own(penalty), block, root, len(y), inside) / root
            found = loss(left_out, rows) + cost
            if best is None or found < best[0]:
                best = found, number, left_out, float(penalty), solver, scales
    _, number, left_out, penalty, solver, scales = best
    coefficients = solver.coefficients(penalty)
    return Ridge(coefficients, level - mean @ coefficients, penalty, left_out), number, scales


def _repeated(scales: Sequence[float], blocks: Blocks, width: int) -> np.ndarray:
    """The scale of each feature."""
    each = np.empty(width)
    for scale, (block, _) in zip(scales, blocks, strict=True):
        each[block] = scale
    return each


@dataclass(frozen=True)
class _Scaled:
    """Features times the scales of their blocks, as an array whose rows are computed whenever they are needed."""

    features: Any
    scales: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.shape

    @property
    def dtype(self) -> Any:
        return self.features.dtype

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self.features[rows] * self.scales


def _factorised(features, targets, weight, members, rows, penalty: float) -> Ridge:
    """Fit with one penalty, by a Cholesky factorisation in the smaller space: of the samples, or of the features.

    If there are more samples than features, only a block of features is in memory at a time. Float32 takes half the
    time of float64; its solution is refined once, by its residual.
    """
    order, blocks = _blocks(rows, members)
    rows = rows[order]
    count, width = len(rows), features.shape[1]
    w = weight[rows] * (count / weight[rows].sum())
    root, level = np.sqrt(w)[:, None], np.average(targets[rows], axis=0, weights=w)
    y = root * (targets[rows] - level)
    kind = np.float32 if features.dtype == np.float32 and penalty >= _COARSE else np.float64
    syrk, potrf, potrs, trtri, trtrs = _lapack(kind)
    weighted = lambda block: root[block].astype(kind) * features[rows[block]]

    if count <= width:
        x = np.concatenate([weighted(block) for block, _ in blocks])
        mean = (root.T.astype(kind) @ x)[0].astype(np.float64) / count
        for block, _ in blocks:
            x[block] -= root[block].astype(kind) * mean.astype(kind)
        square = syrk(1.0, x.T, trans=1, lower=1)
        factor = potrf(square, penalty := penalty * _unit(square, count))
        dual = potrs(factor, y)
        dual += potrs(factor, y - x @ (x.T @ dual.astype(kind)) - penalty * dual)
        coefficients, residuals = (x.T @ dual.astype(kind)).astype(np.float64), penalty * dual
        inverse = trtri(factor) * kind(np.sqrt(penalty))
        hat = lambda block: (0.0, inverse[:, block], residuals[block])  # 1 - H = penalty (x x' + penalty)^-1
    else:
        square, sums, along = np.zeros((width, width), kind, order="F"), np.zeros(width), np.zeros((width, y.shape[1]))
        for block, _ in blocks:
            x = weighted(block)
            square = syrk(1.0, x.T, beta=1.0, c=square, lower=1, overwrite_c=1)
            sums += (root[block].T.astype(kind) @ x)[0]
            along += x.T @ y[block].astype(kind)
        mean = sums / count
        centred = lambda block: weighted(block) - root[block].astype(kind) * mean.astype(kind)
        square = syrk(-1.0, (np.sqrt(count) * mean).astype(kind)[:, None], beta=1.0, c=square, lower=1, overwrite_c=1)
        factor = potrf(square, penalty := penalty * _unit(square, count))
        coefficients = potrs(factor, along)
        along = -penalty * coefficients
        for block, _ in blocks:
            x = centred(block)
            along += x.T @ (y[block] - x @ coefficients.astype(kind)).astype(kind)
        coefficients += potrs(factor, along)

        def hat(block: slice):  # H = x (x' x + penalty)^-1 x'
            x = centred(block)
            return 1.0, trtrs(factor, x.T), y[block] - x @ coefficients.astype(kind)

    left_out = np.empty_like(y)
    for block, groups in blocks:
        one, thin, residuals_of = hat(block)
        sign = 1.0 - 2.0 * one
        own = one + sign * np.einsum("ij,ij->j", thin, thin).astype(np.float64)
        squares = lambda of, thin=thin: thin.T[of] @ thin.T[of].swapaxes(1, 2)
        across = lambda of, one=one, sign=sign, squares=squares: one * np.eye(of.shape[1]) + sign * squares(of)
        missed = _missed(residuals_of, own, across, root[block], count, groups)
        left_out[order[block]] = (y[block] - missed) / root[block] + level
    return Ridge(coefficients, level - mean @ coefficients, penalty, left_out)


def _unit(square: np.ndarray, count: int) -> float:
    """The mean squared length of a row: samples' and features' squares have the same trace."""
    return max(float(np.trace(square, dtype=np.float64)) / count, 1e-300)


def _lapack(kind: type) -> Any:
    """BLAS and LAPACK for lower triangles of this kind of number; what is solved for is in float64."""
    syrk = scipy.linalg.get_blas_funcs("syrk", dtype=kind)
    cholesky, solve, invert, half = scipy.linalg.get_lapack_funcs(("potrf", "potrs", "trtri", "trtrs"), dtype=kind)

    def potrf(square: np.ndarray, penalty: float) -> np.ndarray:
        square[np.diag_indices(len(square))] += penalty
        factor, failed = cholesky(square, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError(f"A ridge regression with the penalty {penalty:.3g} is singular.")
        return factor

    potrs = lambda factor, right: solve(factor, right.astype(kind), lower=1)[0].astype(np.float64)
    trtri = lambda factor: invert(factor, lower=1, overwrite_c=1)[0]
    return syrk, potrf, potrs, trtri, lambda factor, right: half(factor, right, lower=1)[0]


def _blocks(rows: np.ndarray, members: list[np.ndarray] | None) -> tuple[np.ndarray, list[tuple[slice, Any]]]:
    """An order of the rows in which those of a group are together; and blocks of them, with the groups inside."""
    if members is None:
        return np.arange(len(rows)), [(slice(first, first + _BLOCK), None) for first in range(0, len(rows), _BLOCK)]
    groups = _inside(members, rows)
    ends, blocks, start = np.cumsum([len(group) for group in groups]), [], 0
    while start < ends[-1]:
        last = max(np.searchsorted(ends, start + _BLOCK, "right") - 1, np.searchsorted(ends, start, "right"))
        inside = [0, *(ends[(ends > start) & (ends <= ends[last])] - start)]
        blocks.append((slice(start, int(ends[last])), [np.arange(*ends) for ends in pairwise(inside)]))
        start = int(ends[last])
    return np.concatenate(groups), blocks


def _inside(members: list[np.ndarray], rows: np.ndarray) -> list[np.ndarray]:
    """The members of each group by their place among some rows."""
    place = np.full(max(map(np.max, members)) + 1, -1)
    place[rows] = np.arange(len(rows))
    return [own for group in members if len(own := place[group][place[group] >= 0])]


class _Centred:
    """Rows and targets, weighted and centred, from which a decomposition is made for all scales of the blocks."""

    def __init__(self, x: np.ndarray, y: np.ndarray, blocks: Blocks):
        self.x, self.y, self.blocks = x, y, blocks
        # Whichever of the two squares is smaller: of the samples, one for each block; or of the features.
        self.wide = x.shape[0] <= x.shape[1]
        self.squares = [x[:, block] @ x[:, block].T for block, _ in blocks] if self.wide else [x.T @ x]

    def decomposed(self, scales: Sequence[float]) -> "_Decomposed":
        each = _repeated(scales, self.blocks, self.x.shape[1])
        if self.wide:
            square = sum(scale**2 * square for scale, square in zip(scales, self.squares, strict=True))
        else:
            square = each[:, None] * self.squares[0] * each
        return _Decomposed(self.x, self.y, each, np.asarray(square), self.wide)


class _Decomposed:
    """Ridge regressions with any penalty, from one decomposition x = U diag(sqrt(w)) V'."""

    def __init__(self, x: np.ndarray, y: np.ndarray, each: np.ndarray, square: np.ndarray, wide: bool):
        self.x, self.y, self.each, self.back = x, y, each, None
        w, vectors = scipy.linalg.eigh(square, driver="evd", check_finite=False)
        if wide:
            self.w, self.u = np.maximum(w, 0.0), vectors
        else:
            kept = w > 1e-12 * max(float(w[-1]), 1e-300)
            self.w, self.back = w[kept], vectors[:, kept]
            self.u = (x * each) @ self.back / np.sqrt(self.w)
        self.along = self.u.T @ y

    def residuals(self, penalty: float) -> np.ndarray:
        return self.y - self.u @ ((self.w / (self.w + penalty))[:, None] * self.along)

    def own(self, penalty: float) -> np.ndarray:
        """The diagonal of 1 - H."""
        return 1.0 - (self.u**2) @ (self.w / (self.w + penalty))

    def block(self, penalty: float, rows: Int[np.ndarray, "groups rows"]) -> Float[np.ndarray, "groups rows rows"]:
        """The blocks of 1 - H of groups of one size."""
        u = self.u[rows]
        return np.eye(rows.shape[1]) - (u * (self.w / (self.w + penalty))) @ u.swapaxes(1, 2)

    def coefficients(self, penalty: float) -> np.ndarray:
        solved = self.along / (self.w + penalty)[:, None]
        if self.back is None:
            return self.each[:, None] ** 2 * (self.x.T @ (self.u @ solved))
        return self.each[:, None] * (self.back @ (np.sqrt(self.w)[:, None] * solved))


def _missed(
    residuals: np.ndarray,
    own: np.ndarray,
    across: Callable[[np.ndarray], np.ndarray],
    root: np.ndarray,
    count: int,
    members: list[np.ndarray] | None,
) -> np.ndarray:
    """By how much predictions miss targets that were left out, from the residuals of a fit with all of them.

    Rows are weighted. A sample also has a weight in the mean, which is not penalised.

    Args:
        own, across: the diagonal of 1 - H, and its blocks of groups of rows `(groups, rows)`.
        root, count: roots of the weights, which sum to `count` over all blocks.
        members: the rows that are left out together; None leaves out one at a time.
    """
    if members is None:
        # A sample that alone decides its own prediction says nothing when it is left out.
        return residuals / np.maximum(own - root[:, 0] ** 2 / count, 1e-6)[:, None]
    missed, sizes = np.empty_like(residuals), np.array([len(rows) for rows in members])
    # Groups of one size at once: there may be thousands of small ones.
    for size in np.unique(sizes):
        rows = np.stack([members[number] for number in np.flatnonzero(sizes == size)])
        apart = across(rows) - root[rows] @ root[rows].swapaxes(1, 2) / count
        missed[rows] = np.linalg.solve(apart + 1e-9 * np.eye(size), residuals[rows])
    return missed


def _part(rows: np.ndarray, members: list[np.ndarray] | None) -> np.ndarray:
    """Some of the rows at random, of all groups alike: whole groups would be few, and classes may take turns."""
    if members is None or len(members) > len(rows) // 4:
        return np.sort(np.random.default_rng(0).choice(rows, min(_PART, len(rows)), replace=False))
    several = -(-len(rows) // _PART)
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
    features: Any,
    target: Int[np.ndarray, " samples"],
    classes: int,
    weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    blocks: Blocks | None = None,
) -> tuple[Ridge, float]:
    """The regression of 1 for the right class and -1 for others, with the smallest log loss; and its sharpness."""
    targets = np.where(target[:, None] == np.arange(classes), 1.0, -1.0)
    each = np.ones(len(target)) if weight is None else weight
    loss = lambda scores, rows: calibrated(scores, target[rows], each[rows])[1]
    ridge = Ridge.fit(features, targets, weight=weight, groups=groups, loss=loss, blocks=blocks)
    return ridge, calibrated(ridge.left_out, target, weight)[0]


def ridge_of_numbers(
    features: Any,
    target: Float[np.ndarray, "samples outputs"],
    weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    blocks: Blocks | None = None,
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
        own_weight = weight * known
        ridge = Ridge.fit(features, np.nan_to_num(wanted) / spread, weight=own_weight, groups=groups, blocks=blocks)
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
