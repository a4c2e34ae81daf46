"""Training: one state, one loop, stopping, checkpoints, history."""

from ..frozen import Frozen, partition_weights, weights_of
from ..registry import Registry
from .archive import FileRefused
from .augmentation import AUGMENTATIONS, AbstractAugmentation, RandomChoice, TimeStretch, stretch_time
from .checkpoint import Settings, TrainingState, TrainingWarning, fingerprint_of, load_checkpoint, save_checkpoint
from .examples import Examples, Source, predict, targets_at_cuts
from .interrupt import Terminated, interrupts_between_steps
from .listeners import JSONLines, Listener, ProgressBar
from .loop import fit
from .losses import (
    AbstractLoss,
    CrossEntropy,
    EachMember,
    FunctionLoss,
    Histogram,
    Huber,
    Quantiles,
    SquaredError,
    accuracy,
    label_scale,
    rmse,
)
from .optimizers import (
    OPTIMIZERS,
    SCHEDULES,
    AdamW,
    ConstantRate,
    OptaxOptimizer,
    Plateau,
    Schedule,
    WarmupCosine,
)

LOSSES = Registry(
    "loss",
    AbstractLoss,
    {
        "cross-entropy": CrossEntropy,
        "squared-error": SquaredError,
        "huber": Huber,
        "quantiles": Quantiles,
        "histogram": Histogram,
    },
)

__all__ = [
    "AUGMENTATIONS",
    "LOSSES",
    "OPTIMIZERS",
    "SCHEDULES",
    "AbstractAugmentation",
    "AbstractLoss",
    "AdamW",
    "ConstantRate",
    "CrossEntropy",
    "EachMember",
    "Examples",
    "FileRefused",
    "Frozen",
    "FunctionLoss",
    "Histogram",
    "Huber",
    "JSONLines",
    "Listener",
    "OptaxOptimizer",
    "Plateau",
    "ProgressBar",
    "Quantiles",
    "RandomChoice",
    "Schedule",
    "Settings",
    "Source",
    "SquaredError",
    "Terminated",
    "TimeStretch",
    "TrainingState",
    "TrainingWarning",
    "WarmupCosine",
    "accuracy",
    "fingerprint_of",
    "fit",
    "interrupts_between_steps",
    "label_scale",
    "load_checkpoint",
    "partition_weights",
    "predict",
    "rmse",
    "save_checkpoint",
    "stretch_time",
    "targets_at_cuts",
    "weights_of",
]
