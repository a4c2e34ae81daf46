"""Is a result good? Metrics with intervals, baselines beside them, and a verdict in sentences."""

from ..features.statistics import running_statistics, summary_statistics
from ._assess import Assessment, assess
from ._baselines import FLOOR, Baseline, TrainingTargets, baselines, cheap_model, trivial
from ._verdict import Training, verdict
from .intervals import accuracy_interval, bootstrap_interval, wilson
from .metrics import Predictions, calibration_error, measures

__all__ = [
    "FLOOR",
    "Assessment",
    "Baseline",
    "Predictions",
    "Training",
    "TrainingTargets",
    "accuracy_interval",
    "assess",
    "baselines",
    "bootstrap_interval",
    "calibration_error",
    "cheap_model",
    "measures",
    "running_statistics",
    "summary_statistics",
    "trivial",
    "verdict",
    "wilson",
]
