"""Training: one state, one loop, stopping, checkpoints, history."""

from .archive import FileRefused
from .augmentation import Augmented, TimeStretch, played
from .cache import LogSignatureCache
from .checkpoint import TrainingWarning, fingerprint_of, load_checkpoint, save_checkpoint
from .events import EventFile
from .examples import Examples, targets_at_cuts
from .histogram import Histogram
from .interrupt import Terminated, interrupts_between_steps
from .listeners import JSONLines, Listener, ProgressBar
from .loop import fit
from .losses import CrossEntropy, Huber, SquaredError
from .metrics import accuracy, rmse
from .predict import predict
from .schedules import ConstantRate, Plateau, Schedule, WarmupCosine
from .settings import Settings
from .state import TrainingState
from .versions import Versions

__all__ = [
    "Augmented",
    "ConstantRate",
    "CrossEntropy",
    "EventFile",
    "Examples",
    "FileRefused",
    "Histogram",
    "Huber",
    "JSONLines",
    "Listener",
    "LogSignatureCache",
    "Plateau",
    "ProgressBar",
    "Schedule",
    "Settings",
    "SquaredError",
    "Terminated",
    "TimeStretch",
    "TrainingState",
    "TrainingWarning",
    "Versions",
    "WarmupCosine",
    "accuracy",
    "fingerprint_of",
    "fit",
    "interrupts_between_steps",
    "load_checkpoint",
    "played",
    "predict",
    "rmse",
    "save_checkpoint",
    "targets_at_cuts",
]
