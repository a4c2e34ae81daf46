"""Parameters of estimators written flat, for tests: `options(step=4, state=8, fill=None)`."""

from typing import Any

from neuralrde import Config, NeuralRDE, Windows
from neuralrde.training import AdamW
from neuralrde.transforms import Standard

PARTS = {
    "windows": ("step", "depth", "every", "count", "shifts"),
    "model": ("state", "width", "layers", "readout"),
    "transform": ("fill", "scale", "time", "base_point"),
    "optimizer": ("learning_rate", "weight_decay", "clip", "schedule"),
}


def options(**flat: Any) -> dict[str, Any]:
    """The parts that these make, and all other parameters as they are. The model is the default one, but for these."""
    own = {part: {name: flat.pop(name) for name in names if name in flat} for part, names in PARTS.items()}
    made = {
        "windows": lambda given: Windows(**given),
        "model": lambda given: Config(NeuralRDE, **{"layers": 2, "readout": "mean", "solver": "heun"} | given),
        "transform": lambda given: Standard(**given),
        "optimizer": lambda given: AdamW(**given),
    }
    return {part: made[part](given) for part, given in own.items() if given} | flat
