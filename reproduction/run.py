"""A run: from an experiment to its line of results, in a process of its own, resuming where an earlier one stopped."""

import math
import multiprocessing
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from .experiment import Experiment, Limits
from .results import FOLDER, Line, append, find, is_finished, read_results
from .train import settings_of, train, versions


def run(
    experiment: Experiment,
    *,
    limits: Limits = Limits(),  # noqa: B008 (immutable)
    folder: Path = FOLDER,
    work: Path = Path("runs/reproduce"),
    own_process: bool = True,
    say: Callable[[str], None] = print,
) -> Line:
    """The line of an experiment: as it stands if it is there and finished, else trained, and appended.

    Args:
        limits: of the training.
        folder: of the results.
        work: of checkpoints, which are kept while a run is not finished.
        own_process: whether to train in a new process, so that memory and devices are its own.
        say: called with a sentence on what happens.
    """
    settings = settings_of(experiment, limits)
    old = find(read_results(folder), experiment, settings)
    if old is not None and (is_finished(old) or _would_stop_again(old, limits)):
        say(f"{experiment.name}: is there ({'finished' if is_finished(old) else 'out of budget'})")
        return old
    digest = blake2b(repr(sorted(settings.items())).encode(), digest_size=4).hexdigest()
    checkpoint = work / f"{experiment.name}-{digest}.nrde"
    begin = time.monotonic()
    try:
        one = _train_in_a_process if own_process else train
        line = one(experiment, limits, checkpoint)
    except KeyboardInterrupt:
        append(_unfinished(experiment, settings, "interrupted"), folder)
        raise
    except Exception as error:
        append(_unfinished(experiment, settings, f"error: {error}"), folder)
        raise
    append(line, folder)
    if is_finished(line):
        checkpoint.unlink(missing_ok=True)
    shown = ", ".join(f"{name} {value:.4g}" for name, value in line["test"].items())
    say(f"{experiment.name}: {shown}; {line['epochs']} epochs, {time.monotonic() - begin:.0f} s, {line['stopped']}")
    return line


def _unfinished(experiment: Experiment, settings: dict[str, Any], why: str) -> Line:
    """The line of a run that has no result yet."""
    return {"cell": experiment.key, "settings": settings, "test": {}, "stopped": why, "versions": versions()}


def _would_stop_again(line: Line, limits: Limits) -> bool:
    """Whether it ran out of a budget that has not grown since, or diverged."""
    if line["stopped"] == "diverged":
        return True
    more = math.inf if limits.budget is None else limits.budget
    return line["stopped"] == "budget" and more <= (line["budget"] or 0.0)


def _train_in_a_process(experiment: Experiment, limits: Limits, checkpoint: Path) -> Line:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_send, args=(theirs, experiment, limits, checkpoint))
    process.start()
    theirs.close()
    try:
        outcome = ours.recv()
    except EOFError:
        process.join()
        raise RuntimeError(
            f"The process of {experiment.name} ended without a result (exit code {process.exitcode}; -9 usually means "
            "that memory ran out). Its checkpoint is kept: run the command again to continue."
        ) from None
    except KeyboardInterrupt:  # the other process has it too, and is saving its state
        process.join()
        raise
    process.join()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _send(connection: Any, experiment: Experiment, limits: Limits, checkpoint: Path) -> None:
    try:
        connection.send(train(experiment, limits, checkpoint))
    except KeyboardInterrupt:
        pass
    except Exception as error:  # the process that asked reports it
        connection.send(RuntimeError(f"{type(error).__name__}: {error}"))
