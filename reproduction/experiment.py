"""An experiment: one training run of a table, by the names that the command line and the results use."""

import re
from dataclasses import asdict, dataclass
from typing import Any

MODELS = ("nrde", "ncde", "odernn", "logncde", "linear", "oscillators", "logsig-ssm", "closed-form", "neural")
PROTOCOLS = ("paper", "adjoint", "later", "corrected", "ours", "logsig-ssm", "defaults")
SPLITS = ("paper", "random", "group", "folds", "walker", "torch")
# Short names on the command line, and the catalogue's names.
DATASETS = {
    "HR": "BIDMC32HR",
    "RR": "BIDMC32RR",
    "SpO2": "BIDMC32SpO2",
    "SCP1": "SelfRegulationSCP1",
    "SCP2": "SelfRegulationSCP2",
    "worms": "eigenworms_source44",
    "speech": "SpeechCommands10",
}
# The appendix's grid: state, layers, multiplier of the width.
GRID = tuple((state, layers, times) for state in (16, 32, 64) for layers in (2, 3, 4) for times in (1, 2, 3))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is trained, on what, and how.

    Args:
        dataset: a name that `neuralrde.datasets.load` knows, or one of the short names in `DATASETS`.
        model: one of `MODELS`.
        depth: the depth of the log-signatures; 0 for the ODE-RNN, which uses none.
        step: points per window or block.
        seed: decides the initial weights, and the split unless that is the paper's.
        protocol: one of `PROTOCOLS`.
        split: one of `SPLITS`.
        sizes: (state, layers, multiplier), for the appendix's grid; None takes the protocol's own.

    >>> Experiment(dataset="BIDMC32HR", model="nrde", depth=3, step=512, seed=111).name
    'BIDMC32HR-nrde-3-512-111-paper-paper'
    """

    dataset: str
    model: str
    depth: int
    step: int
    seed: int
    protocol: str = "paper"
    split: str = "paper"
    sizes: tuple[int, int, int] | None = None

    def __post_init__(self):
        for name, choices in (("model", MODELS), ("protocol", PROTOCOLS), ("split", SPLITS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"Got {name}={getattr(self, name)!r}; expected one of {', '.join(choices)}.")
        if self.step < 1 or self.seed < 0 or self.depth < (self.model != "odernn"):
            raise ValueError(
                f"Got depth={self.depth}, step={self.step}, seed={self.seed}; expected a depth and a step of at least "
                "1 and a seed of at least 0."
            )
        # One spelling per experiment, so that none is run twice.
        object.__setattr__(self, "dataset", DATASETS.get(self.dataset, self.dataset))
        object.__setattr__(self, "depth", {"odernn": 0, "ncde": 1}.get(self.model, self.depth))
        object.__setattr__(self, "sizes", None if self.sizes is None else tuple(self.sizes))
        own = {"logsig-ssm": ("logsig-ssm",), "defaults": ("closed-form", "neural", "logsig-ssm")}.get(self.protocol)
        if own is not None and self.model not in own:
            raise ValueError(
                f"Got model={self.model!r} under the protocol {self.protocol!r}; expected {' or '.join(own)}."
            )
        if self.protocol != "ours" and own is None and self.model not in ("nrde", "ncde", "odernn"):
            raise ValueError(
                f"Got model={self.model!r} under the protocol {self.protocol!r}; expected nrde, ncde or odernn: the "
                "paper has no other. Write --protocol ours."
            )
        if self.protocol in ("adjoint", "later") and self.model == "odernn":
            raise ValueError(
                f"Got model='odernn' under the protocol {self.protocol!r}; expected nrde or ncde, because the ODE-RNN "
                "had exact gradients and time as it is from the first. Write --protocol paper."
            )

    @property
    def key(self) -> dict[str, Any]:
        """What identifies it in the results, ready for JSON."""
        return {**asdict(self), "sizes": None if self.sizes is None else list(self.sizes)}

    @property
    def name(self) -> str:
        parts = [self.dataset, self.model, self.depth, self.step, self.seed, self.protocol, self.split]
        parts += [] if self.sizes is None else self.sizes
        return re.sub(r"[^A-Za-z0-9_.-]", "_", "-".join(map(str, parts)))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a run may go; a later one with wider limits continues from there.

    Args:
        budget: seconds of training; None for no limit.
        epochs: instead of the protocol's. Another number is another run, because learning rate schedules depend on it.
        every, most: of the protocol logsig-ssm: steps between two looks at the validation set, and steps in all.
    """

    budget: float | None = None
    epochs: int | None = None
    every: int | None = None
    most: int | None = None
