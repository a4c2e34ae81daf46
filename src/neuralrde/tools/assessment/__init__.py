"""Is a result good? Metrics with intervals, baselines beside them, and a verdict in sentences."""

from ...features.statistics import running_statistics, summary_statistics
from ._baselines import CLOSED_FORM, Baseline, TrainingTargets, baselines, cheap_model, trivial
from ._published import PublishedResult, published
from ._verdict import Assessment, Training, assess, verdict
from .metrics import Predictions, accuracy_interval, bootstrap_interval, calibration_error, measures, wilson

__all__ = [
    "CLOSED_FORM",
    "Assessment",
    "Baseline",
    "Predictions",
    "PublishedResult",
    "Training",
    "TrainingTargets",
    "accuracy_interval",
    "assess",
    "baselines",
    "bootstrap_interval",
    "calibration_error",
    "cheap_model",
    "measures",
    "published",
    "running_statistics",
    "summary_statistics",
    "trivial",
    "verdict",
    "wilson",
]
