"""What all pictures share: colours, a clean frame, and Matplotlib, which is asked for only when needed."""

import contextlib
import importlib
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._write import private_folder, writing

INK = "#1f2430"
"""The colour of text and axes."""
GRID = "#d5d9e0"
"""The colour of frames and lines in the background."""
PALE = "#9aa3b2"
"""The colour of what is shown for comparison."""
COLOURS = ("#0b6e99", "#d9730d", "#4f9d69", "#8e5ea2", "#c0392b", "#7a7f8a")
"""Colours that can be told apart with any kind of colour vision, and in grey; the documentation uses the first two."""
_LOOK = {
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
def figure(width: float, height: float) -> Iterator[Any]:
    """An empty figure, inside which everything that is drawn has our look.

    It belongs to no window and no global state, so pictures can be drawn anywhere, also in threads.
    """
    try:
        matplotlib, figures = importlib.import_module("matplotlib"), importlib.import_module("matplotlib.figure")
    except ImportError:
        raise PlotsUnavailable(
            "Pictures need Matplotlib, which is not installed. Write `pip install 'neuralrde[plot]'`."
        ) from None
    with matplotlib.rc_context(_LOOK):
        yield figures.Figure(figsize=(width, height), dpi=130, layout="constrained")


def add_note(picture: Any, note: str | None) -> None:
    """A line of small print below everything else, wrapped to the picture's width."""
    if note:
        characters = int(picture.get_figwidth() * 15)  # of this size, about 15 to an inch
        picture.supxlabel(textwrap.fill(note, characters), fontsize=8, color=INK)


def save(picture: Any, path: str | os.PathLike) -> Path:
    """Write a figure to a file (.png, .pdf or .svg by its ending); folders on the way are made."""
    path = Path(path)
    private_folder(path.parent)
    with writing(path) as file:
        picture.savefig(file, format=path.suffix.removeprefix(".") or None)
    return path
