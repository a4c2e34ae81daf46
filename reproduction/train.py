"""One experiment trained in this process, and the line of results that comes out."""

import contextlib
import ctypes
import gc
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from neuralrde import __version__
from neuralrde.datasets import Dataset, Split
from neuralrde.devices import use_all_cores
from neuralrde.solvers import Backsolve, Recompute
from neuralrde.training import Listener, Settings, TrainingState, accuracy, predict, weights_of

from .data import load
from .experiment import Experiment, Limits
from .floors import errors, floors, majority_class
from .inputs import Inputs, folded_inputs, paper_inputs, prepared
from .long_training import settings_of_results, train_defaults, train_logsig_ssm, unique
from .our_settings import our_settings
from .our_training import fit_ours, our_inputs, our_loss, our_model, our_training, point_predictions
from .paper_bugs import Bug, mean_over_batches
from .paper_models import PaperODERNN, paper_neural_rde
from .paper_settings import paper_settings
from .paper_training import CLASSIFICATION, REGRESSION, fit_as_in_the_paper
from .published import best_published
from .results import Line
from .splits import divide, shuffled

_LIBRARIES = ("jax", "jaxlib", "equinox", "diffrax", "optax", "numpy", "scipy", "scikit-learn", "safetensors")


def settings_of(experiment: Experiment, limits: Limits = Limits()) -> dict[str, Any]:  # noqa: B008 (immutable)
    """All settings of a run beside its experiment, as the results hold them."""
    if experiment.protocol in ("logsig-ssm", "defaults"):
        return settings_of_results(experiment, limits)
    chosen = our_settings(experiment) if experiment.protocol == "ours" else paper_settings(experiment)
    return chosen.as_json() if limits.epochs is None else chosen.as_json() | {"epochs": limits.epochs}


def train(
    experiment: Experiment,
    limits: Limits = Limits(),  # noqa: B008
    checkpoint: Path | None = None,
    *,
    data: Dataset | None = None,
    listeners: Sequence[Listener] = (),
) -> Line:
    """Train, and measure on the test set. A checkpoint that is there is resumed."""
    with contextlib.suppress(RuntimeError):  # JAX has begun: it goes on with the devices it has
        use_all_cores()
    data = load(experiment.dataset) if data is None else data
    data = unique(data) if experiment.split in ("walker", "torch") else data
    split = divide(data, experiment.split, experiment.seed)
    memory = EpochMemory()
    if experiment.protocol in ("logsig-ssm", "defaults"):
        if experiment.protocol == "defaults":
            line = train_defaults(experiment, data, split)
        else:
            line = train_logsig_ssm(experiment, limits, data, split, checkpoint, [memory, *listeners])
        about = {"cell": experiment.key, "settings": settings_of(experiment, limits)}
        about["floors"] = {"majority class": majority_class(data, split)}
        about |= {"sizes": [len(rows) for rows in split], "process_mb": _rounded(memory.process)}
        return about | line | {"budget": limits.budget, "versions": versions()}
    train_it = _train_ours if experiment.protocol == "ours" else _train_as_published
    trained = train_it(experiment, limits, data, split, checkpoint, [memory, *listeners])
    state, inputs, settings = trained.state, trained.inputs, trained.settings
    test = _metrics(trained, "test", data)
    if Bug.MEAN_OVER_BATCHES in trained.bugs and data.classes is None:
        predictions = predict(state.best, inputs.test, batch=settings.batch_size)
        test["mean_over_batches"] = mean_over_batches(predictions, np.asarray(inputs.test.target), settings.batch_size)
    weights = sum(leaf.size for leaf in jax.tree.leaves(weights_of(state.best)))
    return {
        "cell": experiment.key,
        "settings": settings_of(experiment, limits),
        "test": test,
        "validation": _metrics(trained, "validation", data),
        "floors": floors(data, split, experiment.split),
        "sizes": [len(rows) for rows in split],
        "windows": int(inputs.test.inputs[-1].shape[1]),
        "weights": int(weights),
        "minutes": round((state.seconds + inputs.seconds) / 60, 3),
        "training_seconds": round(state.seconds, 2),
        "log_signature_seconds": round(inputs.seconds, 2),
        "memory_mb": _rounded(memory.growth),
        "process_mb": _rounded(memory.process),
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        **_time_to_published(experiment, state, inputs.seconds),
        "stopped": _why_stopped(state, settings),
        "budget": limits.budget,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """The versions of everything that a result depends on, and the machine."""
    libraries = {library: metadata.version(library) for library in _LIBRARIES}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = {"machine": platform.machine(), "cores": str(cores)}
    return {"neuralrde": __version__, "python": platform.python_version()} | libraries | machine


class EpochMemory(Listener):
    """Memory, measured alike for every model: by how much the process grows at most during one whole epoch.

    After the first epoch, which compiles, free memory is given back and the peak forgotten; then one epoch is watched.
    `growth` is what that epoch needed on top of the data, in MB; `process` is the process's peak, compiling included.
    """

    growth: float | None = None
    process: float | None = None
    _epochs, _before = 0, None

    def epoch(self, record):
        self._epochs += 1
        peak = _resident("VmHWM")
        if peak is None:
            return
        self.process = max(self.process or 0.0, peak / 1e6)
        if self._epochs == 1:
            gc.collect()
            if sys.platform == "linux":
                ctypes.CDLL(None).malloc_trim(0)  # free memory that is kept for later would hide what is taken now
            try:
                Path("/proc/self/clear_refs").write_text("5")
            except OSError:  # a container may not allow it; then there is no number, rather than a wrong one
                return
            self._before = _resident("VmRSS")
        elif self._epochs == 2 and self._before is not None:
            self.growth = max(0.0, (peak - self._before) / 1e6)


def _resident(name: str) -> int | None:
    """Bytes by the kernel's account: "VmRSS" now, "VmHWM" at the peak. None where there is none (not Linux)."""
    status = Path("/proc/self/status")
    return int(status.read_text("utf-8").split(name + ":")[1].split()[0]) * 1024 if status.exists() else None


class _Trained(NamedTuple):
    state: TrainingState
    inputs: Inputs
    settings: Settings
    bugs: frozenset[Bug] = frozenset()
    predictions: Callable[[np.ndarray], np.ndarray] = np.asarray
    """From a model's outputs to numbers in the label's units, or one score per class."""


def _train_as_published(
    experiment: Experiment,
    limits: Limits,
    data: Dataset,
    split: Split,
    checkpoint: Path | None,
    listeners: list[Listener],
) -> _Trained:
    epochs = {} if limits.epochs is None else {"epochs": limits.epochs}
    settings = paper_settings(experiment, budget=limits.budget, **epochs)
    bugs = settings.bugs
    series = prepared(data, split, standardise_time=settings.standardise_time)
    split = shuffled(split) if Bug.NO_SHUFFLING in bugs else split
    key = jax.random.key(experiment.seed)
    outputs = 1 if data.classes is None else len(data.classes)
    if experiment.model == "odernn":
        inputs = folded_inputs(data, split, series, step=experiment.step, bugs=bugs)
        model: Any = PaperODERNN(inputs.train.inputs[0].shape[-1], outputs, state=settings.state, key=key)
    else:
        inputs = paper_inputs(data, split, series, depth=experiment.depth, step=experiment.step, bugs=bugs)
        model = paper_neural_rde(
            series.values.shape[2],
            outputs,
            depth=experiment.depth,
            state=settings.state,
            width=settings.width,
            layers=settings.layers,
            shared=Bug.SHARED_HIDDEN_LAYERS in bugs,
            gradient=Backsolve() if settings.adjoint else Recompute(),
            key=key,
        )
    del series
    state = fit_as_in_the_paper(
        model,
        inputs.train,
        inputs.validation,
        task=REGRESSION if data.classes is None else CLASSIFICATION,
        settings=settings.training,
        bugs=bugs,
        checkpoint=checkpoint,
        listeners=listeners,
    )
    return _Trained(state, inputs, settings.training, bugs)


def _train_ours(
    experiment: Experiment,
    limits: Limits,
    data: Dataset,
    split: Split,
    checkpoint: Path | None,
    listeners: list[Listener],
) -> _Trained:
    settings, classes = our_settings(experiment), None if data.classes is None else len(data.classes)
    inputs = our_inputs(experiment, settings, data, split)
    loss = our_loss(settings, inputs, classes)
    model = our_model(experiment, settings, inputs.first_epoch(), loss, classes)
    training = our_training(experiment, settings, limits)
    options: dict[str, Any] = {"checkpoint": checkpoint, "listeners": listeners}
    state = fit_ours(model, inputs, loss=loss, settings=settings, training=training, **options)
    return _Trained(state, inputs, training, predictions=lambda outputs: point_predictions(outputs, loss))


def _metrics(trained: _Trained, part: str, data: Dataset) -> dict[str, float]:
    """Of the predictions; with test-time augmentation, of their mean or median."""
    augmented, examples = trained.inputs.test_time, getattr(trained.inputs, part)
    predicted = lambda examples: trained.predictions(
        predict(trained.state.best, examples, batch=trained.settings.batch_size)
    )
    predictions = [predicted(examples), *(predicted(getattr(one, part)) / one.label_factor for one in augmented)]
    # At other speeds a rhythm can be taken for its double: the median leaves that out.
    combine = np.median if any(one.label_factor != 1.0 for one in augmented) else np.mean
    combined, target = combine(predictions, axis=0), np.asarray(examples.target)
    if data.classes is not None:
        return {"accuracy": accuracy(combined, target)}
    found = errors(combined, target)
    return found if not augmented else found | {"rmse_of_one_view": errors(predictions[0], target)["rmse"]}


def _time_to_published(experiment: Experiment, state: TrainingState, before: float) -> dict[str, float | None]:
    """The paper's best value on this data set, and the seconds after which the *validation* set reached it."""
    wanted = best_published(experiment.dataset)
    found: dict[str, float | None] = {"published_best": wanted, "seconds_to_published": None}
    if wanted is None or not state.history:
        return found
    for record in state.history:
        reached = record["validation_rmse"] <= wanted if "validation_rmse" in record else (
            100 * record["validation_accuracy"] >= wanted
        )  # fmt: skip
        if reached:
            return found | {"seconds_to_published": round(record["seconds"] + before, 2)}
    return found


def _why_stopped(state: TrainingState, settings: Settings) -> str:
    if state.epoch >= settings.epochs:
        return "epochs"
    if settings.patience is not None and state.waited >= settings.patience:
        return "patience"
    if settings.time_budget is not None and state.seconds >= settings.time_budget:
        return "budget"
    return "diverged"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
