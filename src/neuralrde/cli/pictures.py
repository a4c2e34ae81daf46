"""Which pictures a run or a model has."""

from pathlib import Path
from typing import Any

import numpy as np

from ..paths import Series
from ..plots import confusion, learning_curves, predicted_against_true, save, windows_over_series
from .predictions import PredictionTable


def draw_curves(history: list[dict[str, Any]], folder: Path) -> Path:
    return save(learning_curves(history), folder / "learning_curves.png")


def draw_predictions(found: PredictionTable, folder: Path, *, name: str = "target", note: str | None = None) -> Path:
    """A confusion matrix of classes, or predicted against true numbers; the note says what to compare it with."""
    known = found.known()
    if found.classes is not None:
        picture = confusion(known.true, known.predicted, classes=found.classes, note=note)
        return save(picture, folder / "confusion.png")
    picture = predicted_against_true(known.true, known.predicted, name=name, note=note)
    return save(picture, folder / "predicted_against_true.png")


def draw_windows(model: Any, series: Series, folder: Path) -> Path:
    """The first series of more than one point as the model sees it: prepared, cut, and its log-signatures."""
    prepared = model.transform_(series[np.array([np.argmax(series.lengths > 1)])])
    cuts = model.windows_.cuts(prepared)
    path = prepared.values[0, : prepared.lengths[0]]
    picture = windows_over_series(
        path,
        cuts=np.unique(np.minimum(np.atleast_2d(cuts)[0], len(path) - 1)),
        depth=model.windows_.depths[0],
        channels=prepared.channels,
    )
    return save(picture, folder / "windows.png")
