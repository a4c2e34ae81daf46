"""Pictures: each is a function that returns a Matplotlib figure. Matplotlib is imported when one is drawn."""

import contextlib
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ._types import Options, Plain, SeriesLike
from ._write import private_folder, writing
from .estimators.explanation import Explanation
from .paths.windows import as_scales, depths_of
from .signatures import log_signatures, lyndon_words

__all__ = [
    "COLOURS",
    "GRID",
    "INK",
    "PALE",
    "PlotsUnavailable",
    "calibration",
    "confusion",
    "explanation",
    "figure",
    "forecast",
    "forecast_errors",
    "learning_curves",
    "predicted_against_true",
    "save",
    "windows_over_series",
]

Picture = Any
"""A figure of Matplotlib, which may not be installed."""

INK = "#1f2430"
"""The colour of text and axes."""
GRID = "#d5d9e0"
"""The colour of frames and lines in the background."""
PALE = "#9aa3b2"
"""The colour of what is shown for comparison."""
COLOURS = ("#0b6e99", "#d9730d", "#4f9d69", "#8e5ea2", "#c0392b", "#7a7f8a")
"""Colours that can be told apart with any kind of colour vision, and in grey; the documentation uses the first two."""
_LOOK: dict[Any, Plain] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "text.parse_math": False,  # a channel may be called cost_$
}


class PlotsUnavailable(ImportError):
    """Matplotlib is not installed."""


@contextlib.contextmanager
def figure(width: float, height: float) -> Iterator[Picture]:
    """An empty figure, inside which everything that is drawn has our look.

    It belongs to no window and no global state, so pictures can be drawn anywhere, also in threads.
    """
    try:
        import matplotlib  # type: ignore
        from matplotlib.figure import Figure  # type: ignore
    except ImportError:
        raise PlotsUnavailable(
            "Pictures need Matplotlib, which is not installed. Write `pip install 'neuralrde[plot]'`."
        ) from None
    with matplotlib.rc_context(_LOOK):
        yield Figure(figsize=(width, height), dpi=130, layout="constrained")


def add_note(picture: Picture, note: str | None) -> None:
    """A line of small print below everything else, wrapped to the picture's width."""
    if note:
        characters = int(picture.get_figwidth() * 15)  # of this size, about 15 to an inch
        picture.supxlabel(textwrap.fill(note, characters), fontsize=8, color=INK)


def save(picture: Picture, path: str | os.PathLike) -> Path:
    """Write a figure to a file (.png, .pdf or .svg by its ending); folders on the way are made."""
    path = Path(path)
    private_folder(path.parent)
    with writing(path) as file:
        picture.savefig(file, format=path.suffix.removeprefix(".") or None)
    return path


def learning_curves(history: Sequence[Mapping[str, Plain]], *, title: str = "Learning curves") -> Picture:
    """Losses on the left; on the right the validation metric, if there is one. A dot marks the weights kept.

    Args:
        history: the `history_` of an estimator.
        title: of the picture.

    >>> learning_curves([{"epoch": 1, "loss": 0.7, "validation_loss": 0.6, "validation_accuracy": 0.8}])
    <Figure size 1196x494 with 2 Axes>
    """
    if not history:
        raise ValueError("Got a history of no epochs; expected at least one.")
    metric = next((key for key in history[0] if key.startswith("validation_") and key != "validation_loss"), None)
    epochs = [record["epoch"] for record in history]
    best = min(range(len(history)), key=lambda k: history[k].get("monitored", history[k]["loss"]))

    with figure(9.2, 3.8) as picture:
        axes = picture.subplots(1, 1 + (metric is not None), squeeze=False)[0]
        dotted: Options = {"linewidth": 1.1, "linestyle": (0, (2, 1.5))}
        axes[0].plot(epochs, [record["loss"] for record in history], color=COLOURS[0], label="training", **dotted)
        for axis, name in zip(axes, ("validation_loss", metric), strict=False):
            if name is not None and name in history[0]:
                values = [record[name] for record in history]
                axis.plot(epochs, values, color=COLOURS[0], linewidth=1.5, label="validation")
                axis.plot(epochs[best], values[best], "o", color=COLOURS[0], markersize=5, markeredgecolor="white")
        axes[0].set(xlabel="epoch", ylabel="loss", title=title)
        picture.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        if metric is not None:
            said = metric.replace("_", " ").capitalize()
            axes[1].set(xlabel="epoch", title=f"{said}; a dot marks the weights kept")
            if metric.endswith("accuracy"):
                axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
                lowest = min(record[metric] for record in history)
                axes[1].set_ylim(max(0.0, min(0.85, lowest - 0.05)), 1.01)  # always the same top, and no 104 %
        for axis in axes:
            axis.grid(axis="y", color=INK, alpha=0.08)
            axis.xaxis.get_major_locator().set_params(integer=True)
    return picture


# Beyond this many classes the numbers inside the cells could not be read.
_NUMBERED = 20
# Up to this many, a cell has room for its share beside its count.
_DETAILED = 6


def confusion(
    true: ArrayLike,
    predicted: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    note: str | None = None,
) -> Picture:
    """Counts of each true class (rows) and predicted class (columns); the shade is the share of the row.

    >>> confusion(["run", "walk", "run"], ["run", "walk", "walk"])
    <Figure size 598x572 with 1 Axes>

    Args:
        true, predicted: labels, one per sample.
        classes: their order; None sorts them.
        note: a line below, such as what to compare it with.
    """
    from sklearn.metrics import confusion_matrix

    true, predicted = np.asarray(true).astype(str), np.asarray(predicted).astype(str)
    if true.shape != predicted.shape or true.ndim != 1 or len(true) == 0:
        raise ValueError(
            f"Got labels of shape {true.shape} and predictions of shape {predicted.shape}; expected one of each for "
            "every sample."
        )
    found = sorted({*true.tolist(), *predicted.tolist()})
    names = list(dict.fromkeys([*map(str, found if classes is None else classes), *found]))
    counts = confusion_matrix(true, predicted, labels=names)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    right = np.trace(counts)

    size = 3.6 + 0.5 * min(len(names), _NUMBERED)
    with figure(size + 0.6 * (len(names) > _DETAILED), size - 0.2) as picture:
        axis = picture.subplots()
        image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        if len(names) <= _NUMBERED:
            for (row, column), count in np.ndenumerate(counts):
                text = f"{count}\n{shares[row, column]:.0%}" if len(names) <= _DETAILED else f"{count}"
                colour = "white" if shares[row, column] > 0.55 else INK
                axis.text(column, row, text, ha="center", va="center", color=colour)
        slanted = max(map(len, names)) > 8 and len(names) > 2
        axis.set_xticks(range(len(names)), names, rotation=40 if slanted else 0, ha="right" if slanted else "center")
        axis.set_yticks(range(len(names)), names)
        axis.set(xlabel="predicted", ylabel="true")
        axis.set_title(f"{right} of {len(true)} right: {right / len(true):.1%}")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        if len(names) > _DETAILED:  # else every cell says its share
            bar = picture.colorbar(image, ax=axis, pad=0.02, shrink=0.85, format=lambda value, _: f"{value:.0%}")
            bar.set_label("share of the true class")
            bar.outline.set_edgecolor(GRID)
        add_note(picture, note)
    return picture


def predicted_against_true(
    true: ArrayLike, predicted: ArrayLike, *, name: str = "target", note: str | None = None
) -> Picture:
    """A point for each sample; pairs with an unknown (NaN) side are left out.

    >>> predicted_against_true([1.0, 2.0, 3.0], [1.1, 2.0, 2.7])
    <Figure size 637x611 with 1 Axes>

    Args:
        true, predicted: numbers of one shape.
        name: what they are of.
        note: a line below, such as what to compare it with.
    """
    true, predicted = np.asarray(true, float).ravel(), np.asarray(predicted, float).ravel()
    if true.shape != predicted.shape:
        raise ValueError(f"Got {len(true)} true and {len(predicted)} predicted numbers; expected the same number.")
    known = np.isfinite(true) & np.isfinite(predicted)
    true, predicted = true[known], predicted[known]
    if len(true) == 0:
        raise ValueError("Got no pair of a true and a predicted number that is known; expected at least one.")
    rmse = np.sqrt(np.mean((predicted - true) ** 2))
    low, high = min(true.min(), predicted.min()), max(true.max(), predicted.max())
    edge = 0.05 * (high - low) or 1.0

    with figure(4.9, 4.7) as picture:
        axis = picture.subplots()
        ends = (low - edge, high + edge)
        axis.plot(ends, ends, color=PALE, linewidth=1, linestyle="--", zorder=1)
        faint = float(np.clip(30 / np.sqrt(len(true)), 0.08, 0.75))  # many points would be one blot
        axis.scatter(true, predicted, s=16, color=COLOURS[0], alpha=faint, linewidths=0, zorder=2)
        axis.set(xlim=ends, ylim=ends, aspect="equal", xlabel=f"true {name}", ylabel=f"predicted {name}")
        axis.set_title(f"RMSE {rmse:.3g} over {len(true):,} samples")
        add_note(picture, note)
    return picture


# Channels of a fan, at most, and how much of the past is shown beside it, in horizons.
_FANS, _SHOWN = 6, 3.0


def forecast(
    model: Any,
    X: SeriesLike,
    *,
    sample: int = 0,
    now: Any = None,
    horizon: Any = None,
    interval: float = 0.9,
    channels: Sequence[str] | None = None,
    title: str | None = None,
) -> Picture:
    """The past of a series and the fan of its forecast; with `now`, also what came after it.

    Args:
        model: a fitted forecaster.
        X: series, as `model.predict` takes them.
        sample: which of them.
        now: the present, a time of the series; None is its last point.
        horizon: how far ahead; None is that of the model.
        interval: the share of what comes that the fan holds.
        channels: the names of those to draw; None draws the first six that were observed.
        title: of the picture.
    """
    series, presents, dated = model.moments(X, now)
    series, present = series[sample], presents[sample]
    names, clock, values = list(model.fitted_.inputs.channels), series.clock[0], series.values[0]
    times = model.times_ahead(X, horizon, now=presents)[sample : sample + 1]
    first = present - min(_SHOWN * (times[0, -1] - present), model.fitted_.lookback)
    shown = (clock >= first) & (clock <= times[0, -1])
    if channels is None:
        seen = ~np.isnan(values[shown & (clock <= present)])
        channels = [name for name, one in zip(names, seen.any(axis=0), strict=True) if one][:_FANS] or names[:_FANS]
    found, ends = model.predict(series, times, now=present, channels=channels, interval=interval)
    moments = lambda times: np.asarray(1e3 * times, "datetime64[ms]") if dated else times

    with figure(9.2, 1.0 + 1.5 * len(channels)) as picture:
        axes = picture.subplots(len(channels), 1, sharex=True, squeeze=False)[:, 0]
        for number, (name, axis) in enumerate(zip(channels, axes, strict=True)):
            own = values[:, names.index(name)]
            for part, colour, said in ((clock <= present, INK, "observed"), (clock > present, COLOURS[1], "came")):
                part = part & shown & ~np.isnan(own)
                label = said if (clock[shown] > present).any() or colour == INK else None
                axis.plot(moments(clock[part]), own[part], ".-", color=colour, linewidth=0.7, markersize=4, label=label)
            low, high = np.where(np.isfinite(ends[0, :, number]), ends[0, :, number], np.nan).T
            said = f"{interval:.0%} interval"
            axis.fill_between(moments(times[0]), low, high, color=COLOURS[0], alpha=0.18, linewidth=0, label=said)
            axis.plot(moments(times[0]), found[0, :, number], color=COLOURS[0], linewidth=1.6, label="forecast")
            axis.axvline(moments(present), color=PALE, linewidth=1, linestyle="--")
            axis.set_ylabel(name)
            axis.grid(axis="y", color=INK, alpha=0.08)
        if title is not None:
            axes[0].set_title(title)
        if dated:
            from matplotlib.dates import ConciseDateFormatter  # type: ignore

            axes[-1].xaxis.set_major_formatter(ConciseDateFormatter(axes[-1].xaxis.get_major_locator()))
        else:
            axes[-1].set_xlabel("time")
        picture.align_ylabels(axes)
        picture.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return picture


def forecast_errors(evaluation: Mapping[str, Plain], *, interval: float = 0.9) -> Picture:
    """By the time ahead: errors of forecasts beside naive ones, and the share of what came inside the intervals.

    Args:
        evaluation: what a forecaster's `evaluate` returned.
        interval: the share that was asked for.
    """
    parts = evaluation["ahead"]
    edges = [parts[0]["from"], *(part["to"] for part in parts)]
    with figure(9.2, 3.6) as picture:
        left, right = picture.subplots(1, 2)
        errors = {"forecast": [part["mse"] for part in parts]}
        errors |= {name: [part["naive"][name]["mse"] for part in parts] for name in parts[0]["naive"]}
        for colour, (name, values) in zip((COLOURS[0], PALE, COLOURS[1], COLOURS[2]), errors.items(), strict=False):
            left.stairs(values, edges, color=colour, linewidth=1.6, label=name, baseline=None)
        left.set(xlabel="time ahead", ylabel="mean squared error", title="Errors, in standard deviations squared")
        left.set_ylim(bottom=0)
        left.legend()
        right.stairs([part["coverage"] for part in parts], edges, color=COLOURS[0], linewidth=1.6, baseline=None)
        right.axhline(interval, color=PALE, linewidth=1, linestyle="--")
        right.set(xlabel="time ahead", title=f"Share inside {interval:.0%} intervals", ylim=(0, 1.02))
        right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        for axis in (left, right):
            axis.grid(axis="y", color=INK, alpha=0.08)
    return picture


# Points of a calibration picture: each has as many samples, so that none is of a few only.
_GROUPS = 10


def calibration(
    true: ArrayLike, probability: ArrayLike, *, name: str = "the class", note: str | None = None
) -> Picture:
    """How often a class is true, against how likely it was said to be, in groups of as many samples each.

    Bars are 95 % intervals (Wilson); below is how many samples had which probability.

    >>> calibration([True, False] * 30, np.linspace(0, 1, 60))
    <Figure size 637x689 with 2 Axes>

    Args:
        true: whether each sample has the class.
        probability: as predicted.
        name: of the class.
        note: a line below.
    """
    from scipy.stats import binomtest

    true, probability = np.asarray(true, bool).ravel(), np.asarray(probability, float).ravel()
    if true.shape != probability.shape or len(true) == 0:
        raise ValueError(f"Got {len(true)} samples and {len(probability)} probabilities; expected one for each.")
    groups = np.array_split(np.argsort(probability, kind="stable"), min(_GROUPS, max(1, len(true) // 5)))
    said, share = (np.array([one[group].mean() for group in groups]) for one in (probability, true))
    ends = [binomtest(int(true[group].sum()), len(group)).proportion_ci(method="wilson") for group in groups]
    with figure(4.9, 5.3) as picture:
        above, below = picture.subplots(2, 1, height_ratios=[4, 1], sharex=True)
        above.plot([0, 1], [0, 1], color=PALE, linewidth=1, linestyle="--")
        above.vlines(said, *zip(*ends, strict=True), color=COLOURS[0], linewidth=1.2)
        above.plot(said, share, "o", color=COLOURS[0], markersize=5, markeredgecolor="white")
        above.set(xlim=(0, 1), ylim=(0, 1), ylabel=f"share that is {name}")
        above.set_title(f"Brier score {np.mean((probability - true) ** 2):.3g} over {len(true):,} samples")
        below.hist(probability, bins=np.linspace(0, 1, 31).tolist(), color=COLOURS[0])
        below.set(xlabel=f"predicted probability of {name}", ylabel="samples")
        add_note(picture, note)
    return picture


# More rows and channels could not be told apart; later ones are left out, and the picture says so.
_ROWS, _CHANNELS = 28, 8
# A bracket this much smaller than the path would allow is zero but for rounding, as the areas of a straight piece are.
_ZERO = 1e-6


def windows_over_series(
    path: Float[np.ndarray, "length channels"],
    *,
    step: int | None = None,
    cuts: np.ndarray | None = None,
    depth: int | tuple[int, ...] = 2,
    scales: float | tuple[float, ...] = (1,),
    since: Sequence[np.ndarray | None] | None = None,
    channels: Sequence[str] | None = None,
    times: np.ndarray | None = None,
) -> Picture:
    """The channels with the boundaries of windows; below, for each scale, the log-signatures that end with a window.

    Each row has its own scale of colours. Rows that are zero everywhere are left out: within a window of one step, a
    path is straight and has no areas.

    Args:
        path: one prepared series, without missing values.
        step: points in a window; or `cuts`, as `window_cuts` gives them for one sample.
        depth: of the log-signatures; several, one for each scale.
        scales: how many windows back each log-signature looks, as in `Windows`.
        since: where those start that are no whole number of windows, as `Windows.starts` says.
        channels: names; None calls them x0, x1, ...
        times: of the points, numbers or dates of NumPy; None counts the points.

    >>> windows_over_series(np.random.default_rng(0).normal(size=(200, 2)).cumsum(axis=0), step=20, scales=(1, 4))
    <Figure size 1300x595.816 with 4 Axes>
    """
    path = np.asarray(path)
    if path.ndim != 2 or (step is None) == (cuts is None):
        raise ValueError(
            f"Got a path of shape {path.shape}, step={step} and cuts {'not ' if cuts is None else ''}given; expected "
            "(length, channels), and either step or cuts."
        )
    cuts = np.append(np.arange(0, len(path) - 1, step), len(path) - 1) if cuts is None else np.unique(cuts)
    sizes = f"Channels: {path.shape[1]:,}; points: {len(path):,}; windows: {len(cuts) - 1:,}"
    sizes += f"; {_CHANNELS} channels are drawn" if path.shape[1] > _CHANNELS else ""
    path = path[:, :_CHANNELS]
    names = [f"x{c}" for c in range(path.shape[1])] if channels is None else [str(name) for name in channels]
    scales = as_scales(scales)
    rows = [
        _rows(path, cuts, scale, starts, deep, most=max(6, _ROWS // len(scales)))
        for scale, starts, deep in zip(scales, since or [None] * len(scales), depths_of(depth, scales), strict=True)
    ]
    x = np.arange(len(path)) if times is None else np.asarray(times)[: len(path)]
    # Each channel on its own band, so that none hides another; it is the shape that is looked at.
    spread = np.maximum(path.max(axis=0) - path.min(axis=0), 1e-12)
    bands = (path - path.min(axis=0)) / spread * 0.86 + np.arange(path.shape[1])[::-1] + 0.07

    shown = [len(words) for _, _, words in rows]
    heights = [1.4 + 0.3 * path.shape[1], *(0.6 + 0.22 * max(1, number) for number in shown)]
    with figure(10, 1.6 + 0.66 * sum(heights)) as picture:
        above, *below = picture.subplots(1 + len(scales), 1, height_ratios=heights, sharex=True)
        for cut in cuts if len(cuts) <= 200 else []:
            above.axvline(x[cut], color=GRID, linewidth=0.9, zorder=0)
        for c in range(path.shape[1]):
            above.plot(x, bands[:, c], color=COLOURS[c % len(COLOURS)], linewidth=1.1)
        above.set_yticks(np.arange(path.shape[1])[::-1] + 0.5, names[: path.shape[1]])
        above.tick_params(axis="y", length=0)
        above.set(ylim=(0, path.shape[1]), xlim=(x[0], x[-1]))
        above.set_title(sizes)
        for axis, (said, scaled, words) in zip(below, rows, strict=True):
            edges = np.arange(len(words) + 1)
            image = axis.pcolormesh(x[cuts], edges, scaled.T, cmap="RdBu_r", vmin=-2.5, vmax=2.5)
            axis.invert_yaxis()
            axis.set_yticks(
                edges[:-1] + 0.5, [_named(word, names) for word in words], fontsize=10 if sum(shown) < 16 else 7
            )
            axis.tick_params(axis="y", length=0)
            for row in np.flatnonzero(np.diff([len(word) for word in words])) + 1:
                axis.axhline(row, color=PALE, linewidth=1.2)
            axis.set_title(said, fontsize=11 if len(scales) == 1 else 9)
        _name_time(below[-1], x, numbered=times is None)
        bar = picture.colorbar(image, ax=below, pad=0.01, aspect=40)
        bar.set_label("in root mean squares")
        bar.outline.set_edgecolor(GRID)
    return picture


def _rows(path: np.ndarray, cuts: np.ndarray, scale: float, starts: Any, depth: int, *, most: int) -> tuple:
    """For one scale: its title, its rows in root mean squares, and their words."""
    if starts is None:
        logs = np.asarray(log_signatures(path, depth, cuts=cuts, scales=scale, basis="brackets"))
    else:
        logs = np.asarray(log_signatures(path, depth, starts=np.ravel(starts), ends=cuts[1:], basis="brackets"))
    words = lyndon_words(path.shape[1], depth)
    sizes = np.sqrt((logs**2).mean(axis=0))
    levels = np.array([len(word) for word in words])
    some = np.flatnonzero(sizes > _ZERO * sizes[levels == 1].max() ** levels)
    some = some if len(some) else np.arange(path.shape[1])
    chosen = some[:most]
    left = f"; {len(chosen)} of {len(words)} rows" if len(chosen) < len(some) else ""
    left = left or (f"; the other {len(words) - len(some)} rows are zero" if len(some) < len(words) else "")
    what = "each window" if scale == 1 else f"the last {scale:.4g} windows" if np.isfinite(scale) else "all so far"
    said = f"What drives the hidden state: the depth-{depth} log-signature of {what}{left}"
    return said, logs[:, chosen] / np.maximum(sizes[chosen], 1e-12), [words[row] for row in chosen]


def _named(word: Sequence[int], names: Sequence[str]) -> str:
    """A Lyndon word by its channels; of two letters, the bracket, which is the Levy area."""
    letters = [names[letter] for letter in word]
    return letters[0] if len(letters) == 1 else f"[{', '.join(letters)}]"


def explanation(
    found: Explanation,
    row: int = 0,
    *,
    output: int = 0,
    most: int = 8,
    dates: bool = False,
    course: ArrayLike | None = None,
    title: str | None = None,
) -> Picture:
    """A series above, and below what each of its channels contributed to an output, and when.

    Channels are those that contributed most, in both halves the same; red raises the output and blue lowers it. To the
    right, sums over time, in which the statistics of the whole series are.

    Args:
        found: what `estimator.explain(X)` returned.
        row: which series.
        output: which output, a class or a number.
        most: the largest number of channels to show.
        dates: whether times are seconds since 1970.
        course: the prediction after each point, such as a probability, to be drawn on top.
        title: before the sum; None takes the name of the output.

    >>> from neuralrde.estimators import LogSignatureRegressor
    >>> X = np.random.default_rng(0).normal(size=(20, 50, 3))
    >>> explanation(LogSignatureRegressor(draws=4).fit(X, X.mean(axis=(1, 2))).explain(X[:1]))
    <Figure size 1300x643.5 with 4 Axes>
    """
    from matplotlib.colors import TwoSlopeNorm  # type: ignore

    length, channels = int(found.series.lengths[row]), found.channels
    parts, baseline = found.contributions[row, ..., output], float(found.baseline[row, output])
    values, clock, times = found.series.values[row, :length], found.series.clock[row, :length], found.times[row]
    if dates:
        clock, times = ((one * 1e6).astype("datetime64[us]") for one in (clock, times))
    order = np.argsort(-np.abs(parts).sum(axis=1), kind="stable")[:most]
    total, rest = parts.sum(), parts.sum() - parts[order].sum()
    names = [str(channels[row]) for row in order]
    series = [row for row in order if row < values.shape[1]]
    spans, sums = parts[order, :-1], parts[order].sum(axis=1)
    largest = max(float(np.abs(spans).max(initial=0.0)), 1e-12)
    sums_up = f"{baseline + total:+.2f} = baseline {baseline:+.2f}, contributions {total:+.2f}"
    sums_up = f"{found.names[output] if title is None else title}: {sums_up}"
    with figure(10, 2.4 + 0.3 * len(order) + 0.45 * len(series) + 1.5 * (course is not None)) as picture:
        heights = [1.5] * (course is not None) + [0.6 + len(series) * 0.45, 0.6 + len(order) * 0.3]
        axes = picture.subplots(len(heights), 2, height_ratios=heights, width_ratios=[5, 1.3], sharex="col")
        for axis in axes[:-1, 1]:
            axis.remove()
        above, below, beside = axes[-2, 0], axes[-1, 0], axes[-1, 1]
        if course is not None:
            top = axes[0, 0]
            top.step(clock, np.asarray(course, float)[:length], where="post", color=COLOURS[4])
            top.set(ylabel="prediction", ylim=(0, None))
            top.grid(axis="y", color=INK, alpha=0.08)
        axes[0, 0].set_title(sums_up)
        for band, row in enumerate(reversed(series)):
            known = np.isfinite(values[:, row])
            own = values[known, row]
            low, high = (own.min(), own.max()) if len(own) else (0.0, 0.0)
            shape = band + 0.1 + 0.8 * ((own - low) / (high - low) if high > low else np.full(len(own), 0.5))
            dots: Options = {"marker": "o", "markersize": 2.5} if len(own) < 150 else {}
            above.plot(clock[known], shape, color=COLOURS[band % len(COLOURS)], linewidth=1.0, **dots)
            said = f"{low:.4g} to {high:.4g}" if len(own) else "never observed"
            above.text(
                1.005, (band + 0.5) / max(1, len(series)), said, transform=above.transAxes, va="center", fontsize=8
            )
        above.set_yticks(np.arange(len(series)) + 0.5, [str(channels[row]) for row in reversed(series)])
        above.set(ylim=(0, max(1, len(series))), xlim=(times[0], times[-1]))
        above.tick_params(axis="y", length=0)
        norm = TwoSlopeNorm(0.0, -largest, largest)
        image = below.pcolormesh(times, np.arange(len(order) + 1), spans, cmap="RdBu_r", norm=norm)
        below.set_yticks(np.arange(len(order)) + 0.5, names)
        below.invert_yaxis()
        below.tick_params(axis="y", length=0)
        below.set_title("contributions in time", fontsize=9)
        colours = [COLOURS[4] if one > 0 else COLOURS[0] for one in sums]
        beside.barh(np.arange(len(order)) + 0.5, sums, color=colours, height=0.7)
        beside.axvline(0, color=PALE, linewidth=0.8)
        beside.set(ylim=below.get_ylim(), yticks=[])
        beside.set_title(f"in all; others {rest:+.2f}" if len(parts) > most else "in all", fontsize=9)
        _name_time(below, times, numbered=found.series.times is None)
        bar = picture.colorbar(image, ax=beside, location="right", aspect=30)
        bar.outline.set_edgecolor(GRID)
    return picture


def _name_time(axis: Any, times: np.ndarray, *, numbered: bool) -> None:
    if np.issubdtype(times.dtype, np.datetime64):
        from matplotlib.dates import ConciseDateFormatter  # type: ignore

        axis.xaxis.set_major_formatter(ConciseDateFormatter(axis.xaxis.get_major_locator()))
    else:
        axis.set_xlabel("point" if numbered else "time")
