"""Which pictures a run or a model has."""

from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..plots import confusion, learning_curves, predicted_against_true, save, windows_over_series
from .describe import is_dated
from .predictions import PredictionTable


def draw_curves(history: list[dict[str, Any]], folder: Path, *, blended: bool = False) -> Path:
    """With `blended`, they are not of what predicts in the end, and say so."""
    title = "The neural part, before it is blended" if blended else "Learning curves"
    return save(learning_curves(history, title=title), folder / "learning_curves.png")


def draw_predictions(found: PredictionTable, folder: Path, *, name: str = "target", note: str | None = None) -> Path:
    """A confusion matrix of classes, or predicted against true numbers; the note says what to compare it with."""
    known = found.known()
    if found.classes is not None:
        picture = confusion(known.true, known.predicted, classes=found.classes, note=note)
        return save(picture, folder / "confusion.png")
    picture = predicted_against_true(known.true, known.predicted, name=name, note=note)
    return save(picture, folder / "predicted_against_true.png")


def draw_windows(model: Any, data: Dataset, folder: Path) -> Path:
    """The first series of more than one point as the model sees it: prepared, cut, and its log-signatures."""
    one = data[np.array([np.argmax(data.series.lengths > 1)])]
    prepared, windows = model.transform_(one.series), model.windows_
    path = prepared.values[0, : prepared.lengths[0]]
    picture = windows_over_series(
        path,
        cuts=np.minimum(np.atleast_2d(windows.cuts(prepared))[0], len(path) - 1),
        depth=windows.depths,
        scales=windows.scales,
        channels=prepared.channels,
        times=times_of(one, len(path)),
    )
    return save(picture, folder / "windows.png")


def times_of(one: Dataset, points: int) -> np.ndarray | None:
    """When the points of a single series are, dates as dates; None if nobody knows."""
    times = one.series.times
    if times is None or one.series.lengths[0] != points:
        return None
    return (times[0, :points] * 1e6).astype("datetime64[us]") if is_dated(one) else times[0, :points]
