"""Our recipe, one for each data set: the only place to change it."""

from dataclasses import asdict, dataclass, replace
from typing import Any

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
        loss: "squared_error" or "huber", for regression.
        cuts: ways of cutting a series into windows. Training draws one for each series and epoch, and answers are
            averaged over all: the path is the same, only the windows differ.
        stretch: slowest and fastest factor of `TimeStretch`; None trains on the series as they are.
        versions: how many stretched versions of the training set are made.
        speeds: at which series are looked at in use, answers averaged.
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

    def told(self) -> dict[str, Any]:
        """As JSON holds it, without what the cell says itself."""
        told = {name: value for name, value in asdict(self).items() if name not in ("depth", "step")}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


BIDMC = Recipe(depth=3, step=128, epochs=60, batch=128, weight_decay=0.01, cuts=8)
# For patients never seen: the rhythm, not the person.
RHYTHM = Recipe(
    depth=2,
    step=32,
    state=128,
    width=128,
    epochs=16,
    batch=64,
    weight_decay=0.05,
    standardise="sample",
    loss="huber",
    stretch=(0.6, 1.6),
    speeds=(1.0, 0.8, 1.25),
)
FEW = Recipe(state=8, width=16, weight_decay=1.0, epochs=40)  # some hundred series, as in `neuralrde demo`

# By data set, or by data set and model where a model wants its own.
RECIPES: dict[str | tuple[str, str], Recipe] = {
    ("BIDMC32HR", "oscillators"): RHYTHM,
    ("BIDMC32RR", "oscillators"): replace(RHYTHM, step=64),
    ("BIDMC32SpO2", "oscillators"): RHYTHM,
    "BIDMC32HR": BIDMC,
    "BIDMC32RR": BIDMC,
    "BIDMC32SpO2": BIDMC,
    "SelfRegulationSCP1": FEW,
    "SelfRegulationSCP2": FEW,
    "eigenworms_source44": replace(FEW, step=128, batch=8),
    "SpeechCommands10": Recipe(depth=4, step=80),
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
