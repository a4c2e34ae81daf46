"""Windows over a series: where it is cut, and the log-signatures at each scale, which are all that the model sees."""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ..paths.windows import as_scales, depths_of
from ..signatures import log_signatures, lyndon_words
from .style import COLOURS, GRID, PALE, figure

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
    scales: int | tuple[int, ...] = (1,),
    channels: Sequence[str] | None = None,
    times: np.ndarray | None = None,
    title: str | None = None,
) -> Any:
    """The channels with the boundaries of windows; below, for each scale, the log-signatures that end with a window.

    Each row has its own scale of colours. Rows that are zero everywhere are left out: within a window of one step, a
    path is straight and has no areas.

    Args:
        path: one prepared series, without missing values.
        step: points in a window; or `cuts`, as `window_cuts` gives them for one sample.
        depth: of the log-signatures; several, one for each scale.
        scales: how many windows back each log-signature looks, as in `Windows`.
        channels: names; None calls them x0, x1, ...
        times: of the points, numbers or dates of NumPy; None counts the points.
        title: None shows sizes.

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
    sizes = f"{len(path):,} points of {_count(path.shape[1], 'channel')}, cut into {_count(len(cuts) - 1, 'window')}"
    sizes += f"; {_CHANNELS} channels are drawn" if path.shape[1] > _CHANNELS else ""
    path = path[:, :_CHANNELS]
    names = [f"x{c}" for c in range(path.shape[1])] if channels is None else [str(name) for name in channels]
    scales = as_scales(scales)
    rows = [
        _rows(path, cuts, one, deep, most=max(6, _ROWS // len(scales)))
        for one, deep in zip(scales, depths_of(depth, scales), strict=True)
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
        above.set_title(title or sizes)
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
        if np.issubdtype(x.dtype, np.datetime64):
            dates = importlib.import_module("matplotlib.dates")
            below[-1].xaxis.set_major_formatter(dates.ConciseDateFormatter(below[-1].xaxis.get_major_locator()))
        else:
            below[-1].set_xlabel("point" if times is None else "time")
        bar = picture.colorbar(image, ax=below, pad=0.01, aspect=40)
        bar.set_label("in root mean squares")
        bar.outline.set_edgecolor(GRID)
    return picture


def _rows(path: np.ndarray, cuts: np.ndarray, scale: int, depth: int, *, most: int) -> tuple:
    """For one scale: its title, its rows in root mean squares, and their words."""
    logs = np.asarray(log_signatures(path, depth, cuts=cuts, scales=scale, basis="brackets"))
    words = lyndon_words(path.shape[1], depth)
    sizes = np.sqrt((logs**2).mean(axis=0))
    levels = np.array([len(word) for word in words])
    some = np.flatnonzero(sizes > _ZERO * sizes[levels == 1].max() ** levels)
    some = some if len(some) else np.arange(path.shape[1])
    chosen = some[:most]
    left = f"; {len(chosen)} of {len(words)} rows" if len(chosen) < len(some) else ""
    left = left or (f"; the other {len(words) - len(some)} rows are zero" if len(some) < len(words) else "")
    what = "each window" if scale == 1 else f"the last {scale} windows"
    said = f"What drives the hidden state: the depth-{depth} log-signature of {what}{left}"
    return said, logs[:, chosen] / np.maximum(sizes[chosen], 1e-12), [words[row] for row in chosen]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _named(word: Sequence[int], names: Sequence[str]) -> str:
    """A Lyndon word by its channels; of two letters, the bracket, which is the Levy area."""
    letters = [names[letter] for letter in word]
    return letters[0] if len(letters) == 1 else f"[{', '.join(letters)}]"
