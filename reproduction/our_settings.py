"""Our recipe, one for each data set: the only place to change it.

Chosen on validation sets, but not blindly: the prototype that BIDMC's depth, step and sizes come from had been looked
at on test sets of random splits, and by patient, validation patients of one split are test patients of another.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from ..paths import Integral, Products, Scale, Spectrogram, Step, Steps
from .cells import Cell


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How `ours` prepares, builds and trains.

    Args:
        depth, step: where the command line names none.
        state, width, layers, blocks: of the model; blocks of the linear one only.
        turns: of the slowest and the fastest oscillator, a window.
        readout: "mean" or "final".
        solver: "heun", "rk4" or "euler".
        epochs, batch, rate, warmup, weight_decay, clip, patience: of AdamW with warm-up and cosine.
        standardise: "training" by the training set's mean and deviation; "sample" each series by its own.
        loss: "squared_error", "huber" or "histogram" (by ratios, for positive labels), for regression.
        cuts: ways of cutting a series into windows. Training draws one for each series and epoch, and answers are
            averaged over all: the path is the same, only the windows differ.
        stretch: slowest and fastest factor of `TimeStretch`; None trains on the series as they are.
        versions: how many stretched versions of the training set are made.
        speeds: at which series are looked at in use; the answer is their median.
        features: a step before all others, such as `Spectrogram`; `step` then counts the points that it leaves.
        keep: "best" weights on the validation set, or the "last", where it is too small to tell.
        copies: whether the channels are shifted copies of one series, to be put together first; see `without_copies`.
    """

    depth: int = 2
    step: int = 64
    state: int = 32
    width: int = 64
    layers: int = 2
    blocks: int = 2
    turns: tuple[float, float] = (0.05, 0.8)
    readout: str = "mean"
    solver: str = "heun"
    epochs: int = 60
    batch: int = 32
    rate: float = 3e-3
    warmup: float = 0.05
    weight_decay: float = 0.1
    clip: float | None = 1.0
    patience: int | None = None
    standardise: str = "training"
    loss: str = "squared_error"
    cuts: int = 1
    stretch: tuple[float, float] | None = None
    versions: int = 6
    speeds: tuple[float, ...] = (1.0,)
    features: Step | None = None
    keep: str = "best"
    copies: bool = False

    def told(self) -> dict[str, Any]:
        """As JSON holds it, without what the cell says itself and what older recipes did not have.

        >>> Recipe(features=Spectrogram(32)).told()["features"]
        'Spectrogram(frame=32, hop=None, bands=(0.0, 0.5), mean=True, floor=0.0001)'
        """
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        new = {"keep": "best", "copies": False, "features": None}
        told = {name: value for name, value in told.items() if name not in new or value != new[name]}
        told = {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}
        if self.features is not None:
            told["features"] = repr(self.features)
        return {name: value for name, value in told.items() if name not in ("depth", "step")}


BIDMC = Recipe(depth=3, step=128, epochs=60, batch=128, weight_decay=0.01, cuts=8)
# For patients never seen: the rhythm, not the person.
RHYTHM = Recipe(
    depth=2,
    step=32,
    state=128,
    width=128,
    epochs=12,
    batch=64,
    weight_decay=0.05,
    standardise="sample",
    loss="histogram",
    stretch=(0.6, 1.6),
    speeds=(1.0, 0.8, 1.25, 0.9, 1.1),
)
# Slow potentials and power above 100 Hz, in frames of 1/8 s that begin 1/32 s apart.
SCP = Recipe(
    step=4,
    state=16,
    width=32,
    readout="final",
    weight_decay=1.0,
    epochs=40,
    features=Spectrogram(32, hop=8, bands=(0.39, 0.5)),
    copies=True,
)
# Variances, correlations, restlessness. 43 worms: a validation set of 5 cannot choose weights.
WORMS = Recipe(
    depth=1,
    step=2048,
    state=8,
    width=16,
    readout="final",
    weight_decay=1.0,
    epochs=60,
    batch=8,
    keep="last",
    features=Steps(Scale(), Products(changes=True), Scale(), Integral()),
)
# 16 bands on the mel scale, in frames of 32 ms that begin 10 ms apart.
MELS = (80, 207, 354, 526, 725, 957, 1227, 1540, 1905, 2329, 2822, 3394, 4061, 4835, 5736, 6783, 8000)
SPEECH = Recipe(
    depth=1,
    step=2,
    state=64,
    weight_decay=1.0,
    epochs=40,
    keep="last",
    features=Spectrogram(512, hop=160, bands=[hertz / 16_000 for hertz in MELS], mean=False, floor=1e-3),
)

# By data set, or by data set and model where a model wants its own.
RECIPES: dict[str | tuple[str, str], Recipe] = {
    ("BIDMC32HR", "oscillators"): RHYTHM,
    # Some labels are near zero, where ratios mean nothing.
    ("BIDMC32RR", "oscillators"): replace(RHYTHM, step=64, loss="huber"),
    # No rhythm: little training, and much decay.
    ("BIDMC32SpO2", "oscillators"): replace(
        RHYTHM, loss="huber", epochs=4, versions=2, weight_decay=1.0, speeds=(1.0,)
    ),
    "BIDMC32HR": BIDMC,
    "BIDMC32RR": BIDMC,
    "BIDMC32SpO2": BIDMC,
    "SelfRegulationSCP1": SCP,
    "SelfRegulationSCP2": SCP,
    "eigenworms_source44": WORMS,
    "SpeechCommands10": SPEECH,
}


def recipe_of(dataset: str, model: str) -> Recipe:
    return RECIPES.get((dataset, model)) or RECIPES.get(dataset, Recipe())


def recipe_for(cell: Cell) -> Recipe:
    """The recipe of a cell's data set and model, or the default one; with the grid's sizes if the cell has some.

    >>> recipe_for(Cell(dataset="HR", model="nrde", depth=3, step=128, seed=0, protocol="ours")).batch
    128
    """
    recipe = recipe_of(cell.dataset, cell.model)
    if cell.sizes is None:
        return recipe
    state, layers, multiplier = cell.sizes
    return replace(recipe, state=state, layers=layers, width=multiplier * state)
