"""`neuralrde inspect`: what data or a model is, and what would suit it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..datasets import Dataset, duplicates
from ..paths import Windows
from ..signatures import log_signature_channels
from . import flags
from .describe import is_dated, is_timed, summary, task_hints, time_span
from .estimator import blend_of, is_closed_form
from .predictions import is_classifier, load_model
from .proposal import group_hints, open_or_propose, proposed
from .report import about_blend
from .screen import count, number, pairs, print_json
from .screen import table as as_table

# Gaps that differ by less from the usual one are even: times in whole milliseconds at 16 per second are 62 or 63.
_JITTER = 0.05
# Rows of a table of channels that are shown.
_CHANNELS = 20


@flags.with_table
def inspect(
    *,
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="Data (file, folder or name), a run folder or a model file.")
    ],
    table: flags.Table,
    task: flags.Task = None,
    json: flags.AsJson = False,
) -> None:
    """Describe data or a model.

    For data it shows lengths, sampling, missing values, channels and classes, and suggests a depth and a step to begin
    with. Of a table that it cannot read it lists the columns, and proposes a command that can. For a model it shows
    what it is, how it was trained, and what it expects.

        neuralrde inspect hearts.csv
        neuralrde inspect hearts.csv --id patient --time hour --target ill
        neuralrde inspect runs/hearts
    """
    path = Path(what)
    if path.suffix == ".nrde" or (
        path.is_dir() and ((path / "model.nrde").exists() or (path / "settings.toml").exists())
    ):
        estimator = load_model(path)
        found = about_model(estimator)
        print_json(found) if json else print(f"{path}\n{pairs(found)}")
        return
    options = table if task is None else {**table, "task": task}
    data = open_or_propose(what, options)
    hints = [*task_hints(data, options), *group_hints(data), *suggestions(data)]
    found, channels = about_data(data), about_channels(data)
    if json:
        print_json({"name": data.name, **found, "channels": channels, "suggestions": hints})
        return
    print(summary(data))
    print("\nSampling\n" + pairs(found))
    body = [[row["name"], *(number(value) for value in list(row.values())[1:])] for row in channels[:_CHANNELS]]
    more = f"\n  ... and {len(channels) - _CHANNELS} more" if len(channels) > _CHANNELS else ""
    print("\nChannels\n" + as_table(body, header=["name", "missing %", "mean", "spread", "lowest", "highest"]) + more)
    print("\nSuggestions\n" + "\n".join(f"  - {hint}" for hint in hints))
    if data.target is None and (text := proposed(what, options)) is not None:
        print(f"\n{text}")


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
    sizes = ", ".join(f"depth {depth}: {log_signature_channels(channels, depth):,}" for depth in (1, 2, 3))
    depth = 2 if log_signature_channels(channels, 2) <= 500 else 1
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
    if is_classifier(estimator):
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


def _gaps(data: Dataset) -> np.ndarray | None:
    times = data.series.times
    return None if times is None else np.diff(times, axis=1)[data.series.valid[:, 1:]]


def _missing(data: Dataset) -> np.ndarray:
    """For each real point and channel."""
    return np.isnan(data.series.values[data.series.valid])
