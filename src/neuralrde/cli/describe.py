"""Data and models in words for people: sampling, channels, spans of time, and what to begin with."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..datasets import Dataset, duplicates
from ..datasets.targets import is_number
from ..datasets.times import SINCE_1970
from ..paths import Windows
from .console import count
from .settings import blend_of, is_closed_form

# Gaps that differ by less from the usual one are even: times in whole milliseconds at 16 per second are 62 or 63.
_JITTER = 0.05
# Beyond this many distinct whole numbers nobody would speak of classes, and below it perhaps.
_FEW = 20
_SPANS = ((86400 * 7, "week"), (86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"), (1e-3, "millisecond"))


def is_dated(data: Dataset) -> bool:
    """Whether the times were dates."""
    return data.time_unit == SINCE_1970


def is_timed(data: Dataset) -> bool:
    """Whether times are known to be in seconds."""
    return data.time_unit is not None


def span(seconds: float) -> str:
    """
    >>> span(86400.0), span(5400.0), span(0.0625), span(0.0)
    ('1 day', '1.5 hours', '62.5 milliseconds', '0 seconds')
    """
    size, name = next(((size, name) for size, name in _SPANS if abs(seconds) >= size), _SPANS[-2])
    amount = f"{seconds / size:.4g}"
    return f"{amount} {name}{'' if amount == '1' else 's'}"


def time_span(data: Dataset, value: float) -> str:
    """A stretch of the data's time, with its unit where that is known."""
    return span(value) if is_timed(data) else f"{value:.4g}"


def task_hints(data: Dataset, table: dict[str, Any]) -> Iterator[str]:
    """How the task was guessed, where somebody could think otherwise."""
    chosen = "task" in table or "task" in data.reading
    if data.target is None or chosen:
        return
    if data.classes is not None and len(data.classes) > 2 and all(map(is_number, data.classes)):
        yield f"the target's {len(data.classes)} numbers are taken for classes; --task regression predicts numbers"
    if data.classes is None:
        known = np.asarray(data.target)[np.isfinite(data.target)]
        distinct = np.unique(known)
        if len(distinct) <= _FEW and (distinct == np.round(distinct)).all() and len(distinct) < len(known) / 2:
            yield (
                f"the target's {len(distinct)} distinct whole numbers are predicted as numbers; --task classification "
                "takes them for classes"
            )


def about_data(data: Dataset) -> dict[str, Any]:
    """Lengths, times, gaps, missing values and duplicates."""
    series, lengths = data.series, data.series.lengths
    found: dict[str, Any] = {"samples": len(series)}
    apart = f"{lengths.min():,} to {lengths.max():,}, median {np.median(lengths):,.0f}"
    found["lengths"] = apart if series.ragged else f"{lengths[0]:,}, all the same"
    gaps = _gaps(data)
    if gaps is None:
        found["times"] = "none given; points are taken as evenly spaced"
    elif len(gaps):
        assert series.times is not None
        middle = float(np.median(gaps))
        uneven = float((np.abs(gaps - middle) > _JITTER * middle).mean())
        irregular = f"irregular: {uneven:.0%} of the gaps are not the usual one"
        ends = (
            f"{data.time_text(series.times.min())} to {data.time_text(series.times.max())}, " if is_dated(data) else ""
        )
        found["times"] = f"{ends}{'evenly spaced' if uneven < 0.01 else irregular}"
        most = "" if gaps.min() == gaps.max() else f", {time_span(data, gaps.min())} to {time_span(data, gaps.max())}"
        rate = f" ({1 / middle:.4g} per {'second' if is_timed(data) else 'unit of time'})"
        found["gap"] = (
            f"usually every {time_span(data, middle)}{most}{rate if middle < 1 or not is_timed(data) else ''}"
        )
    found["missing"] = f"{_missing(data).mean():.2%} of the values"
    twins = int((duplicates(series) != np.arange(len(series))).sum())
    repeats = "repeats" if twins == 1 else "repeat"
    found["duplicates"] = f"{count(twins, 'sample')} {repeats} an earlier one" if twins else "none"
    return found


def about_channels(data: Dataset) -> list[dict[str, Any]]:
    """For each channel its missing values, in percent, and its mean, spread, lowest and highest value."""
    values, valid, missing = data.series.values, data.series.valid, _missing(data)
    rows = []
    for c, name in enumerate(data.series.channels):
        real = values[..., c][valid].astype(float)
        real = real[~np.isnan(real)]
        spread = [real.mean(), real.std(), real.min(), real.max()] if len(real) else [np.nan] * 4
        named = zip(("mean", "spread", "lowest", "highest"), map(float, spread), strict=True)
        rows.append({"name": name, "missing": round(100 * float(missing[:, c].mean()), 2), **dict(named)})
    return rows


def suggestions(data: Dataset) -> Iterator[str]:
    """What to begin with, and what to watch out for."""
    series = data.series
    missing = _missing(data).any(axis=0).sum()
    channels = series.values.shape[2] + 1 + int(missing)
    step = Windows.step_for(series, Windows.count)
    two = channels * (channels + 1) // 2
    # As `log_signature_channels` counts them, which would load JAX.
    sizes = f"depth 1: {channels:,}, depth 2: {two:,}, depth 3: {two + (channels**3 - channels) // 3:,}"
    depth = 2 if two <= 500 else 1
    yield f"begin with --depth {depth} --step {step} (about 32 windows per series); --depth auto --step auto searches"
    yield f"log-signature channels with time{' and counts of observations' if missing else ''}: {sizes}"
    gaps = _gaps(data)
    if gaps is not None and len(gaps) and np.ptp(gaps) > 0.5 * np.median(gaps):
        middle = float(np.median(gaps)) * step
        unit = f" ({time_span(data, middle)}, in seconds)" if is_timed(data) else ""
        yield f"times are irregular: --every {middle:.4g}{unit} cuts by time instead of by points"
    channels_found = about_channels(data)
    empty = [row["name"] for row in channels_found if np.isnan(row["mean"])]
    if empty:
        yield f"without any value, so that `fit` refuses it: {_few(empty)}; name the others with --columns"
    if missing - len(empty):
        filled = count(int(missing) - len(empty), "channel")
        yield f"{filled} with missing values: filled forward, and counted in one more channel each"
    still = [row["name"] for row in channels_found if row["spread"] == 0]
    if still:
        yield f"constant, and of no use: {_few(still)}; leave it out with --columns"
    if data.classes is not None and not data.per_time:
        sizes = np.bincount(np.asarray(data.target), minlength=len(data.classes))
        if sizes.max() > 3 * max(1, sizes.min()):
            yield "classes are of very different sizes: --set class_weight=balanced"
    if data.target is None:
        yield "there is no target yet: name its column with --target"
    if data.groups is not None:
        yield "there are groups: `fit` keeps each in one part, because a random split would leak"
    if len(series) < 100:
        yield "few samples: a single test part says little; --folds 5 tests on every sample once"
    if (series.lengths < 2).any():
        single = int((series.lengths < 2).sum())
        has = "has" if single == 1 else "have"
        yield f"{count(single, 'sample')} {has} one point only, from which nothing about time can be learned"


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")


def about_model(estimator: Any) -> dict[str, Any]:
    """What it is, how it was trained, and what it expects."""
    closed = is_closed_form(estimator)
    found = {
        "estimator": type(estimator).__name__,
        "model": "random log-signature features and ridge, in closed form" if closed else str(estimator.config_),
        "predicts": "for each point" if estimator.per_time_ else "for each series",
        "expects": count(int(estimator.n_channels_in_), "channel"),
        "transform": str(estimator.transform_),
        **(_about_features(estimator) if closed else _about_training(estimator)),
    }
    if hasattr(estimator, "classes_"):
        found["classes"] = ", ".join(str(name) for name in estimator.classes_)
    return found


def _about_features(estimator: Any) -> dict[str, Any]:
    return {
        "features": f"{estimator.features_:,}",
        "penalty": f"{estimator.penalty_:.3g}, by the error on series that were left out",
    }


def _about_training(estimator: Any) -> dict[str, Any]:
    import jax

    from ..frozen import weights_of

    windows = estimator.windows_
    weights = sum(leaf.size for leaf in jax.tree.leaves(weights_of(estimator.model_)))
    return {
        "depth": windows.depth,
        "scales": ", ".join(map(str, windows.scales)),
        "windows": f"{windows.step} points" if windows.every is None else f"time {windows.every:g}",
        "weights": f"{weights:,}",
        **({} if (blend := blend_of(estimator)) is None else {"blend": about_blend(*blend)}),
        "trained": f"{count(len(estimator.history_), 'epoch')}, best {estimator.best_epoch_}, "
        f"monitored loss {estimator.validation_loss_:.4g}",
    }


def about_blend(closed: float, neural: float) -> str:
    """The weights of both parts of a prediction.

    >>> about_blend(1.0, 0.0)
    'the neural part has weight 0: this is the closed form (its weight is 1)'
    >>> about_blend(0.8, 0.4)
    'weights: closed form 0.8, neural 0.4'
    """
    if neural == 0:
        return f"the neural part has weight 0: this is the closed form (its weight is {closed:.3g})"
    return f"weights: closed form {closed:.3g}, neural {neural:.3g}"


def _gaps(data: Dataset) -> np.ndarray | None:
    times = data.series.times
    return None if times is None else np.diff(times, axis=1)[data.series.valid[:, 1:]]


def _missing(data: Dataset) -> np.ndarray:
    """For each real point and channel."""
    return np.isnan(data.series.values[data.series.valid])
