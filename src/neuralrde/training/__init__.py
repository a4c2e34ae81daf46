"""Training: one state, one loop, stopping, checkpoints, history."""

from .archive import FileRefused
from .augmentation import Augmented, TimeStretch
from .cache import LogSignatureCache
from .checkpoint import load_checkpoint, save_checkpoint
from .events import EventFile
from .examples import Examples, targets_at_cuts
from .listeners import JSONLines, Listener, ProgressBar
from .loop import TrainingWarning, fit
from .losses import CrossEntropy, Huber, SquaredError
from .metrics import accuracy, rmse
from .predict import predict
from .schedules import ConstantRate, Plateau, Schedule, WarmupCosine
from .settings import Settings
from .state import TrainingState

__all__ = [
    "Augmented",
    "ConstantRate",
    "CrossEntropy",
    "EventFile",
    "Examples",
    "FileRefused",
    "Huber",
    "JSONLines",
    "Listener",
    "LogSignatureCache",
    "Plateau",
    "ProgressBar",
    "Schedule",
    "Settings",
    "SquaredError",
    "TimeStretch",
    "TrainingState",
    "TrainingWarning",
    "WarmupCosine",
    "accuracy",
    "fit",
    "load_checkpoint",
    "predict",
    "rmse",
    "save_checkpoint",
    "targets_at_cuts",
]
