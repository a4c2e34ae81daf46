"""The paper's protocol, its variants and the corrected one: sizes, optimiser, schedule, stopping, and which bugs.

The variants differ from `paper` in one thing each, to see what it does: `adjoint` has the adjoint's gradients, as the
paper's main tables, and `later` time from 0 to 1, as later versions of the authors' code.
"""

from dataclasses import dataclass
from typing import Any

from ..training import Plateau, Settings
from .bugs import Bug
from .cells import Cell

# State, layers, multiplier of the width, as printed; and the ODE-RNN's state (appendix C of the paper).
SIZES = {
    "BIDMC32HR": ((64, 2, 2), 32),
    "BIDMC32RR": ((64, 3, 3), 192),
    "BIDMC32SpO2": ((64, 3, 3), 32),
    "EigenWorms": ((32, 3, 2), 128),
}
OTHERS = SIZES["EigenWorms"]  # for sets that the paper does not have
BATCH = {"BIDMC32HR": 512, "BIDMC32RR": 512, "BIDMC32SpO2": 512, "EigenWorms": 1024}
SEEDS = (111, 222, 333)
BUGS = {name: frozenset(Bug) for name in ("paper", "adjoint", "later")} | {"corrected": frozenset()}


@dataclass(frozen=True)
class Plan:
    """All that decides a run under any protocol but `ours`, beside the cell."""

    state: int
    layers: int
    width: int
    bugs: frozenset[Bug]
    standardise_time: bool
    adjoint: bool
    training: Settings

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        training = self.training
        return {
            "state": self.state,
            "layers": self.layers,
            "width": self.width,
            "bugs": sorted(bug.name.lower() for bug in self.bugs),
            "standardise_time": self.standardise_time,
            **({"gradients": "adjoint"} if self.adjoint else {}),
            **({"order": "mixed"} if Bug.NO_SHUFFLING in self.bugs else {}),  # see `splits.mixed`
            "batch": training.batch,
            "rate": training.rate,
            "epochs": training.epochs,
            "patience": training.patience,
        }


def plan_for(cell: Cell, *, budget: float | None = None, epochs: int = 1000) -> Plan:
    """The published settings for a cell.

    >>> plan = plan_for(Cell(dataset="HR", model="nrde", depth=3, step=512, seed=111))
    >>> plan.state, plan.width, plan.training.rate
    (64, 128, 0.000625)

    Args:
        budget: seconds of training at most.
        epochs: at most; the paper's are 1000.
    """
    chosen, recurrent = SIZES.get(cell.dataset, OTHERS)
    state, layers, multiplier = chosen if cell.sizes is None else cell.sizes
    if Bug.SWAPPED_SIZES in BUGS[cell.protocol]:
        layers, multiplier = multiplier, layers
    batch = BATCH.get(cell.dataset, 1024)
    rate = 0.01 * 32 / batch
    settings = Settings(
        epochs=epochs,
        batch=batch,
        rate=rate,
        # PyTorch's patience of 15 acts at the 16th epoch, and the rate never falls below 1e-7.
        schedule=Plateau(patience=16, factor=0.1, floor=1e-7 / rate),
        weight_decay=0.0,
        clip=None,
        patience=60,
        seed=cell.seed,
        time_budget=budget,
    )
    if cell.model == "odernn" and cell.sizes is None:
        state = recurrent
    # The tables of neural CDEs and RDEs came with the first version of the authors' code, the ODE-RNN with the second,
    # which left time as it is.
    standardise_time = cell.model != "odernn" and cell.protocol != "later"
    adjoint = cell.protocol == "adjoint"
    return Plan(state, layers, multiplier * state, BUGS[cell.protocol], standardise_time, adjoint, settings)
