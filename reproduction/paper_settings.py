"""The settings of the paper's protocol, its variants and the corrected one: sizes, optimizer, stopping, and bugs.

Each variant differs from `paper` in one thing, to see what it does: `adjoint` uses the adjoint's gradients, as in the
paper's main tables, and `later` lets time run from 0 to 1, as in later versions of the authors' code.
"""

from dataclasses import dataclass
from typing import Any

from neuralrde.training import AdamW, Plateau, Settings

from .experiment import Experiment
from .paper_bugs import Bug

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
class PaperSettings:
    """Everything that decides a run under any protocol but `ours`, beside the experiment itself."""

    state: int
    layers: int
    width: int
    bugs: frozenset[Bug]
    standardise_time: bool
    adjoint: bool
    training: Settings

    def as_json(self) -> dict[str, Any]:
        training = self.training
        return {
            "state": self.state,
            "layers": self.layers,
            "width": self.width,
            "bugs": sorted(bug.name.lower() for bug in self.bugs),
            "standardise_time": self.standardise_time,
            **({"gradients": "adjoint"} if self.adjoint else {}),
            **({"order": "mixed"} if Bug.NO_SHUFFLING in self.bugs else {}),  # see `splits.shuffled`
            "batch": training.batch_size,
            "rate": training.optimizer.learning_rate,
            "epochs": training.epochs,
            "patience": training.patience,
        }


def paper_settings(experiment: Experiment, *, budget: float | None = None, epochs: int = 1000) -> PaperSettings:
    """The published settings for an experiment.

    >>> settings = paper_settings(Experiment(dataset="HR", model="nrde", depth=3, step=512, seed=111))
    >>> settings.state, settings.width, settings.training.optimizer.learning_rate
    (64, 128, 0.000625)

    Args:
        budget: the longest training, in seconds.
        epochs: the most epochs; the paper's limit is 1000.
    """
    chosen, recurrent = SIZES.get(experiment.dataset, OTHERS)
    state, layers, multiplier = chosen if experiment.sizes is None else experiment.sizes
    if Bug.SWAPPED_SIZES in BUGS[experiment.protocol]:
        layers, multiplier = multiplier, layers
    batch = BATCH.get(experiment.dataset, 1024)
    rate = 0.01 * 32 / batch
    training = Settings(
        epochs=epochs,
        batch_size=batch,
        patience=60,
        seed=experiment.seed,
        time_budget=budget,
        optimizer=AdamW(
            learning_rate=rate,
            schedule=Plateau(patience=16, factor=0.1, floor=1e-7 / rate),
            weight_decay=0.0,
            clip=None,
        ),
    )
    if experiment.model == "odernn" and experiment.sizes is None:
        state = recurrent
    # The tables of neural CDEs and RDEs came with the first version of the authors' code, the ODE-RNN with the second,
    # which left time as it is.
    standardise_time = experiment.model != "odernn" and experiment.protocol != "later"
    adjoint = experiment.protocol == "adjoint"
    return PaperSettings(
        state, layers, multiplier * state, BUGS[experiment.protocol], standardise_time, adjoint, training
    )
