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
        readout: "mean" or "final".
        solver: "heun", "rk4" or "euler".
        epochs, batch, rate, warmup, weight_decay, clip, patience: of AdamW with warm-up and cosine.
        standardise: "training" by the training set's mean and deviation; "sample" each series by its own.
        loss: "squared_error" or "huber", for regression.
        stretch: slowest and fastest factor of `TimeStretch`; None trains on the series as they are.
    """

    depth: int = 2
    step: int = 64
    state: int = 32
    width: int = 64
    layers: int = 2
    blocks: int = 2
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
    stretch: tuple[float, float] | None = None

    def told(self) -> dict[str, Any]:
        """As JSON holds it, without what the cell says itself."""
        return {name: value for name, value in asdict(self).items() if name not in ("depth", "step")}


BIDMC = Recipe(depth=3, step=128, epochs=100, batch=128, weight_decay=0.01)
FEW = Recipe(state=8, width=16, weight_decay=1.0, epochs=40)  # some hundred series, as in `neuralrde demo`

RECIPES = {
    "BIDMC32HR": BIDMC,
    "BIDMC32RR": BIDMC,
    "BIDMC32SpO2": BIDMC,
    "SelfRegulationSCP1": FEW,
    "SelfRegulationSCP2": FEW,
    "eigenworms_source44": replace(FEW, step=128, batch=8),
    "SpeechCommands10": Recipe(depth=4, step=80),
}


def recipe_for(cell: Cell) -> Recipe:
    """The recipe of a cell's data set, or the default one; with the grid's sizes if the cell has some.

    >>> recipe_for(Cell(dataset="HR", model="nrde", depth=3, step=128, seed=0, protocol="ours")).batch
    128
    """
    recipe = RECIPES.get(cell.dataset, Recipe())
    if cell.sizes is None:
        return recipe
    state, layers, multiplier = cell.sizes
    return replace(recipe, state=state, layers=layers, width=multiplier * state)
