"""Is a result good? Metrics with intervals, what costs nothing beside them, and the sentences that follow."""

from .assess import Assessment, assess
from .baselines import Baseline, TrainingTargets, baselines, cheap_model, trivial
from .calibration import calibration_error
from .intervals import accuracy_interval, bootstrap_interval, wilson
from .metrics import Predictions, measures
from .statistics import running_statistics, summary_statistics
from .verdict import Training, verdict

__all__ = [
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
