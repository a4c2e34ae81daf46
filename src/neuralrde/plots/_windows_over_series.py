"""Windows over a series: where it is cut, and each window's log-signature, which is all that the model sees."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ..signatures import log_signatures, lyndon_words
from .style import COLOURS, GRID, PALE, figure

# More rows could not be told apart; deeper and later ones are left out, and the picture says so.
_ROWS = 28


def windows_over_series(
    path: Float[np.ndarray, "length channels"],
    *,
    step: int | None = None,
    cuts: np.ndarray | None = None,
    depth: int = 2,
    channels: Sequence[str] | None = None,
    title: str | None = None,
) -> Any:
    """The channels with the boundaries of windows; below, every window's log-signature, each row to its own scale.

    Args:
        path: one prepared series, without missing values.
        step: points in a window; or `cuts`, as `window_cuts` gives them for one sample.
        depth: of the log-signatures.
        channels: names; None calls them x0, x1, ...
        title: None shows sizes.

    >>> windows_over_series(np.random.default_rng(0).normal(size=(200, 2)).cumsum(axis=0), step=20)
    <Figure size 1300x526.5 with 3 Axes>
    """
    path = np.asarray(path)
    if path.ndim != 2 or (step is None) == (cuts is None):
        raise ValueError(
            f"Got a path of shape {path.shape}, step={step} and cuts {'not ' if cuts is None else ''}given; expected "
            "(length, channels), and either step or cuts."
        )
    names = [f"x{c}" for c in range(path.shape[1])] if channels is None else [str(name) for name in channels]
    cuts = np.append(np.arange(0, len(path) - 1, step), len(path) - 1) if cuts is None else np.unique(cuts)
    logs = np.asarray(log_signatures(path, depth=depth, cuts=cuts, basis="brackets"))
    words = lyndon_words(path.shape[1], depth)
    shown = words[:_ROWS]
    scaled = logs / np.maximum(np.sqrt((logs**2).mean(axis=0)), 1e-12)
    # Each channel on its own band, so that none hides another; it is the shape that is looked at.
    spread = np.maximum(path.max(axis=0) - path.min(axis=0), 1e-12)
    bands = (path - path.min(axis=0)) / spread * 0.86 + np.arange(path.shape[1])[::-1] + 0.07

    with figure(10, 3.4 + 0.15 * len(shown) + 0.1 * path.shape[1]) as picture:
        above, below = picture.subplots(
            2, 1, height_ratios=[1.4 + 0.3 * path.shape[1], 1.2 + 0.22 * len(shown)], sharex=True
        )
        for cut in cuts if len(cuts) <= 200 else []:
            above.axvline(cut, color=GRID, linewidth=0.9, zorder=0)
        for c in range(path.shape[1]):
            above.plot(bands[:, c], color=COLOURS[c % len(COLOURS)], linewidth=1.1)
        above.set_yticks(np.arange(path.shape[1])[::-1] + 0.5, names)
        above.tick_params(axis="y", length=0)
        above.set(ylim=(0, path.shape[1]), xlim=(0, len(path) - 1))
        above.set_title(title or f"{len(path):,} points of {_count(path.shape[1], 'channel')}, "
                                 f"cut into {_count(len(cuts) - 1, 'window')}")  # fmt: skip
        edges = np.arange(len(shown) + 1)
        image = below.pcolormesh(cuts, edges, scaled[:, : len(shown)].T, cmap="RdBu_r", vmin=-2.5, vmax=2.5)
        below.invert_yaxis()
        below.set_yticks(
            edges[:-1] + 0.5, [_named(word, names) for word in shown], fontsize=10 if len(shown) < 16 else 7
        )
        below.tick_params(axis="y", length=0)
        level = np.array([len(word) for word in shown])
        for row in np.flatnonzero(np.diff(level)) + 1:
            below.axhline(row, color=PALE, linewidth=1.2)
        cut_off = f"; {len(shown)} of {len(words)} rows" if len(shown) < len(words) else ""
        below.set_title(f"What drives the hidden state: the depth-{depth} log-signature of each window{cut_off}")
        below.set_xlabel("point")
        bar = picture.colorbar(image, ax=below, pad=0.01)
        bar.set_label("in root mean squares")
        bar.outline.set_edgecolor(GRID)
    return picture


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _named(word: Sequence[int], names: Sequence[str]) -> str:
    """A Lyndon word by its channels; of two letters, the bracket, which is the Levy area."""
    letters = [names[letter] for letter in word]
    return letters[0] if len(letters) == 1 else f"[{', '.join(letters)}]"
