"""A run: from a cell to its line of results, in a process of its own, going on where an earlier one was stopped."""

import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .._version import versions
from ..datasets import Dataset, Split, load
from ..devices import try_all_cores
from ..solve import Backsolve, Recompute
from ..training import Listener, Settings, TrainingState, accuracy, predict
from . import results
from .bugs import Bug, mean_over_batches
from .cells import Cell
from .floors import errors, floors
from .inputs import Parts, driven_parts, folded_parts, prepared
from .measure import EpochMemory
from .ours import answers_of, fit_ours, our_loss, our_model, our_parts, our_settings
from .paper_models import PaperODERNN, paper_neural_rde
from .paper_training import CLASSIFICATION, REGRESSION, fit_as_in_the_paper
from .protocols import plan_for
from .published import best_published
from .recipes import recipe_for
from .results import Line
from .splits import divide, mixed


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a run may go; a later one with wider limits goes on from there.

    Args:
        budget: seconds of training; None for no limit.
        epochs: instead of the protocol's. Another number is another run, because schedules know it.
    """

    budget: float | None = None
    epochs: int | None = None


def settings_of(cell: Cell, limits: Limits = Limits()) -> dict[str, Any]:  # noqa: B008 (immutable)
    """All settings of a run beside its cell, as the results hold them."""
    told = recipe_for(cell).told() if cell.protocol == "ours" else plan_for(cell).told()
    return told if limits.epochs is None else told | {"epochs": limits.epochs}


def run(
    cell: Cell,
    *,
    limits: Limits = Limits(),  # noqa: B008
    folder: Path = results.FOLDER,
    work: Path = Path("runs/reproduce"),
    own_process: bool = True,
    say: Callable[[str], None] = print,
) -> Line:
    """The line of a cell: as it stands if it is there and finished, else trained, and appended.

    Args:
        limits: of the training.
        folder: of the results.
        work: of checkpoints, which are kept while a run is not finished.
        own_process: whether to train in a new process, so that memory and devices are its own.
        say: told what happens.
    """
    settings = settings_of(cell, limits)
    old = results.find(results.read_results(folder), cell, settings)
    if old is not None and (results.is_finished(old) or _spent(old, limits)):
        say(f"{cell.name}: is there ({'finished' if results.is_finished(old) else 'out of budget'})")
        return old
    checkpoint = work / f"{cell.name}-{_short(settings)}.nrde"
    begin = time.monotonic()
    try:
        line = _in_a_process(cell, limits, checkpoint) if own_process else train(cell, limits, checkpoint)
    except KeyboardInterrupt:
        results.append(unfinished(cell, settings, "interrupted"), folder)
        raise
    except Exception as error:
        results.append(unfinished(cell, settings, f"error: {error}"), folder)
        raise
    results.append(line, folder)
    if results.is_finished(line):
        checkpoint.unlink(missing_ok=True)
    shown = ", ".join(f"{name} {value:.4g}" for name, value in line["test"].items())
    say(f"{cell.name}: {shown}; {line['epochs']} epochs, {time.monotonic() - begin:.0f} s, {line['stopped']}")
    return line


def train(
    cell: Cell,
    limits: Limits = Limits(),  # noqa: B008
    checkpoint: Path | None = None,
    *,
    data: Dataset | None = None,
    listeners: Sequence[Listener] = (),
) -> Line:
    """Train a cell in this process, and measure."""
    try_all_cores()
    data = load(cell.dataset) if data is None else data
    split = divide(data, cell.split, cell.seed)
    memory = EpochMemory()
    listeners = [memory, *listeners]
    train_it = _ours if cell.protocol == "ours" else _as_published
    trained = train_it(cell, limits, data, split, checkpoint, listeners)
    state, parts, settings = trained.state, trained.parts, trained.settings
    test = _metrics(trained, "test", data)
    if Bug.MEAN_OVER_BATCHES in trained.bugs and data.classes is None:
        answers = predict(state.best, parts.test, batch=settings.batch)
        test["mean_over_batches"] = mean_over_batches(answers, np.asarray(parts.test.target), settings.batch)
    weights = sum(leaf.size for leaf in jax.tree.leaves(state.best) if getattr(leaf, "dtype", None) == np.float32)
    return {
        "cell": cell.key,
        "settings": settings_of(cell, limits),
        "test": test,
        "validation": _metrics(trained, "validation", data),
        "floors": floors(data, split, cell.split),
        "sizes": [len(rows) for rows in split],
        "windows": int(parts.test.inputs[-1].shape[1]),
        "weights": int(weights),
        "minutes": round((state.seconds + parts.seconds) / 60, 3),
        "training_seconds": round(state.seconds, 2),
        "log_signature_seconds": round(parts.seconds, 2),
        "memory_mb": _rounded(memory.growth),
        "process_mb": _rounded(memory.process),
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        **_time_to_published(cell, state, parts.seconds),
        "stopped": _stopped(state, settings),
        "budget": limits.budget,
        "versions": versions(),
    }


def unfinished(cell: Cell, settings: dict[str, Any], why: str) -> Line:
    """The line of a run that has no result yet."""
    return {"cell": cell.key, "settings": settings, "test": {}, "stopped": why, "versions": versions()}


class _Trained(NamedTuple):
    state: TrainingState
    parts: Parts
    settings: Settings
    bugs: frozenset[Bug] = frozenset()
    answers: Callable[[np.ndarray], np.ndarray] = np.asarray
    """From a model's predictions to numbers in the label's units, or one for each class."""


def _as_published(
    cell: Cell, limits: Limits, data: Dataset, split: Split, checkpoint: Path | None, listeners: list[Listener]
) -> _Trained:
    plan = plan_for(cell, budget=limits.budget, **({} if limits.epochs is None else {"epochs": limits.epochs}))
    series = prepared(data, split, standardise_time=plan.standardise_time)
    split = mixed(split) if Bug.NO_SHUFFLING in plan.bugs else split
    key = jax.random.key(cell.seed)
    outputs = 1 if data.classes is None else len(data.classes)
    if cell.model == "odernn":
        parts = folded_parts(data, split, series, step=cell.step, bugs=plan.bugs)
        model: Any = PaperODERNN(parts.train.inputs[0].shape[-1], outputs, state=plan.state, key=key)
    else:
        parts = driven_parts(data, split, series, depth=cell.depth, step=cell.step, bugs=plan.bugs)
        shared = Bug.SHARED_HIDDEN_LAYERS in plan.bugs
        sizes = {"state": plan.state, "width": plan.width, "layers": plan.layers, "shared": shared}
        gradient = Backsolve() if plan.adjoint else Recompute()
        channels = series.values.shape[2]
        model = paper_neural_rde(channels, outputs, depth=cell.depth, gradient=gradient, key=key, **sizes)
    del series
    state = fit_as_in_the_paper(
        model,
        parts.train,
        parts.validation,
        task=REGRESSION if data.classes is None else CLASSIFICATION,
        settings=plan.training,
        bugs=plan.bugs,
        checkpoint=checkpoint,
        resume=True,
        listeners=listeners,
    )
    return _Trained(state, parts, plan.training, plan.bugs)


def _ours(
    cell: Cell, limits: Limits, data: Dataset, split: Split, checkpoint: Path | None, listeners: list[Listener]
) -> _Trained:
    recipe, classes = recipe_for(cell), None if data.classes is None else len(data.classes)
    parts = our_parts(cell, data, split, recipe)
    settings = our_settings(cell, recipe, budget=limits.budget, epochs=limits.epochs)
    loss = our_loss(recipe, parts, classes)
    model = our_model(cell, recipe, parts.drawn(), loss, classes)
    options: dict[str, Any] = {"checkpoint": checkpoint, "resume": True, "listeners": listeners}
    state = fit_ours(model, parts, loss=loss, recipe=recipe, settings=settings, **options)
    return _Trained(state, parts, settings, answers=lambda predictions: answers_of(predictions, loss))


def _metrics(trained: _Trained, part: str, data: Dataset) -> dict[str, float]:
    """Of the answers; over all views of the series where there are several, their mean or median."""
    views, examples = trained.parts.views, getattr(trained.parts, part)
    answer = lambda examples: trained.answers(predict(trained.state.best, examples, batch=trained.settings.batch))
    answers = [answer(examples)] + [answer(getattr(view, part)) / view.factor for view in views]
    # At other speeds a rhythm can be taken for its double: the median leaves that out.
    combine = np.median if any(view.factor != 1.0 for view in views) else np.mean
    combined, target = combine(answers, axis=0), np.asarray(examples.target)
    if data.classes is not None:
        return {"accuracy": accuracy(combined, target)}
    found = errors(combined, target)
    return found if not views else found | {"rmse_of_one_view": errors(answers[0], target)["rmse"]}


def _time_to_published(cell: Cell, state: TrainingState, before: float) -> dict[str, float | None]:
    """The paper's best value on this data set, and the seconds after which the *validation* set reached it."""
    wanted = best_published(cell.dataset)
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


def _stopped(state: TrainingState, settings: Settings) -> str:
    if state.epoch >= settings.epochs:
        return "epochs"
    if settings.patience is not None and state.waited >= settings.patience:
        return "patience"
    if settings.time_budget is not None and state.seconds >= settings.time_budget:
        return "budget"
    return "diverged"


def _spent(line: Line, limits: Limits) -> bool:
    """Whether a run out of budget would be so again, at once; or has diverged, and would again."""
    if line["stopped"] == "diverged":
        return True
    more = math.inf if limits.budget is None else limits.budget
    return line["stopped"] == "budget" and more <= (line["budget"] or 0.0)


def _in_a_process(cell: Cell, limits: Limits, checkpoint: Path) -> Line:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_send, args=(theirs, cell, limits, checkpoint))
    process.start()
    theirs.close()
    try:
        outcome = ours.recv()
    except EOFError:
        process.join()
        raise RuntimeError(
            f"The process of {cell.name} ended without a result (exit code {process.exitcode}; -9 is usually too "
            "little memory). Its checkpoint is kept: run the command again to go on."
        ) from None
    except KeyboardInterrupt:  # the other process has it too, and is saving its state
        process.join()
        raise
    process.join()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _send(connection: Any, cell: Cell, limits: Limits, checkpoint: Path) -> None:
    try:
        connection.send(train(cell, limits, checkpoint))
    except KeyboardInterrupt:
        pass
    except Exception as error:  # told by the process that asked
        connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _short(settings: dict[str, Any]) -> str:
    return blake2b(repr(sorted(settings.items())).encode(), digest_size=4).hexdigest()
