"""A run: data are read and divided, an estimator is trained and judged, and a run folder keeps what came out.

With folds there are several trainings: one per fold, to judge, and one on everything, to keep. The series may be in a
store: then everything that needs whole series (folds, the closed form, a picture of windows) is left out.
"""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..assessment import assess, measures
from ..datasets import Dataset, Split
from ..datasets.dataset import PARTS
from ..stores import is_store
from .closed_form import Floor, floor, without_validation
from .config import RunSettings, as_toml
from .describe import summary, task_hints
from .dividing import divided, divided_for_all, divided_into_folds
from .errors import WRONG_USE, Refusal, how_stopped
from .estimator import estimator_for, resolve
from .job import Job
from .judging import pooled_baselines
from .loading import open_store, targets, with_channels
from .outcome import Folds, Say, finish
from .predictions import PredictionTable, pooled
from .proposal import group_hints, open_or_propose
from .report import about_folds, metric_line
from .run_folder import RunFolder
from .screen import count
from .shell import in_flags
from .workers import Worker


def train(
    settings: RunSettings,
    out: Path | None,
    *,
    resume: bool,
    plots: bool,
    say: Say,
    progress: str,
    tensorboard: bool,
    worker: Worker | None = None,
    data: Dataset | None = None,
    listeners: Sequence[Any] = (),
    with_floor: bool = True,
) -> dict[str, Any]:
    """Train, judge, and write a run folder. Of several processes the first does the writing and judging.

    A sweep has read the data already, listens to every epoch, and has the closed form as a run of its own.
    """
    # Data, and its parts.
    store = None
    if data is None and settings.data is not None and is_store(settings.data):
        store, data = open_store(settings)
        say(repr(store))
    elif data is None:
        data = open_or_propose(settings.data, settings.table, to_fit=True)
        settings = with_channels(settings, data)
    y = targets(data)
    if store is None:
        say(summary(data))
        for hint in (*task_hints(data, settings.table), *group_hints(data)):
            say(f"  note    {hint}")
    if settings.closed_form and data.per_time:
        raise Refusal(
            "Got a target for each point with --model closed-form; expected one for each series, because the closed "
            "form looks at series as a whole. Leave --model out.",
            WRONG_USE,
        )
    splits: list[Split] = []
    if settings.folds:
        rows, how_split = divided_for_all(data, settings.divide, settings.seed), f"{settings.folds} folds"
        splits, how = divided_into_folds(data, settings.folds, settings.divide, settings.seed)
        say(f"  folds   {settings.folds}, {how}; then training on all of the data")
    else:
        rows, how_split = divided(data, settings.divide, settings.seed)
        say(f"  parts   train {len(rows.train)}, validation {len(rows.validation)}, test {len(rows.test)}: {how_split}")
    if settings.closed_form:
        rows = without_validation(rows)

    # Model. Loaded here and not above, because scikit-learn and diffrax would slow every --help down.
    from ..devices import try_all_cores
    from ..processes import Processes
    from ..training import EventFile, JSONLines
    from ..training.listeners import ProgressLines

    try_all_cores()
    processes = Processes()
    heard = [*listeners, *([JSONLines(sys.stderr)] if progress == "json" else [])]
    if progress == "bar" and not sys.stderr.isatty():
        heard.append(ProgressLines(lambda line: say(in_flags(line))))
    verbose = None if progress == "bar" else False
    job = Job(settings, estimator_for(settings, data), data, y, verbose, heard, store)
    once = job.searched or job.closed_form or bool(settings.folds)
    if resume and once:
        raise _no_resume(job)

    # Training. What is resumed keeps its own settings until the checkpoint is found to belong to these.
    with RunFolder.of_all(processes, data.name, out, resume=resume) as folder:
        if worker is not None:
            worker.tell(folder.path)
        resolved = as_toml(resolve(settings, job.estimator, stored=store is not None))
        if not resume and processes.is_first:
            folder.begin(resolved, data, rows, how_split)
        if tensorboard and processes.is_first:
            job.listeners.append(EventFile(folder.path / "events"))
        has_floor = with_floor and store is None and not job.closed_form and not data.per_time and processes.is_first
        lowest = _floor(job, rows, folder, say) if has_floor else None
        if not job.closed_form:
            say("  now the neural model, which is compiled first ...")
        begun = time.monotonic()
        try:
            cross = _cross_validated(job, splits, say, with_floor=lowest is not None) if splits else None
            options = {} if once else {"checkpoint": folder.checkpoint, "resume": resume}
            estimator = job.fit(rows, **options)
        except KeyboardInterrupt as error:
            again = "" if worker is None else f" {worker.flags}"
            hint = "" if once else f" Go on with `neuralrde fit --resume --out {shlex.quote(str(folder.path))}{again}`."
            word, code = how_stopped(error)
            raise Refusal(f"{word}.{hint}", code) from None
        seconds = time.monotonic() - begun
        found = _predicted(job, estimator, rows)  # all processes share this work
        result: dict[str, Any] = {}
        if processes.is_first:
            if resume:
                folder.begin(resolved, data, rows, how_split)
            estimator.save(folder.model)
            options = {"seconds": seconds, "plots": plots, "say": say}
            result = finish(job, folder, rows, estimator, found, lowest, cross, **options)
        processes.agree(None)  # until now the others have waited
        return result


def _no_resume(job: Job) -> Refusal:
    what, advice = (
        "depth, step or model auto",
        ", or give --model, --depth and --step as an earlier metrics.json names them",
    )
    if job.settings.folds or job.closed_form:
        what, advice = "folds" if job.settings.folds else "--model closed-form", ""
    return Refusal(
        f"Got --resume with {what}; expected a single training, because that has one state to go on from. Run it "
        f"again{advice}.",
        WRONG_USE,
    )


def _predicted(job: Job, estimator: Any, rows: Split) -> dict[str, PredictionTable]:
    """The predictions for each part. After that, this process predicts for itself alone."""
    found = {part: job.predict(estimator, own) for part in PARTS if len(own := getattr(rows, part))}
    if not job.closed_form:
        estimator.predict_alone()
    return found


def _floor(job: Job, rows: Split, folder: RunFolder, say: Say) -> Floor | None:
    """The closed form, kept in the run's folder, with a line about what it reaches; the training has yet to begin."""
    try:
        found = floor(job.data, job.y, rows, seed=job.settings.seed)
    except ValueError as error:  # what it cannot learn from, a neural model may
        say(f"  closed form left out: {in_flags(str(error))}")
        return None
    if not folder.closed_form.exists():  # a run that is resumed has it, and may yet be refused
        found.estimator.save(folder.closed_form)
    judged = rows.test if len(rows.test) else rows.validation
    if job.settings.folds or not len(judged):
        return found
    values = measures(job.predict(found.estimator, judged).known())
    which = f"on {count(len(judged), 'test sample')}" if len(rows.test) else "on the validation part"
    say(f"  closed form, in {found.seconds:.1f} s: {metric_line(values)} {which}")
    return found


def _cross_validated(job: Job, splits: Sequence[Split], say: Say, *, with_floor: bool) -> Folds:
    """Train once per fold; say how each went, and how much they differ."""
    found, beside, rows, metric = [], [], [], ""
    for split in splits:
        one = job.predict(job.fit(split), split.test)
        others = job.baselines(split.train, split.test)
        if with_floor:
            others.append(floor(job.data, job.y, split, seed=job.settings.seed).baseline(job.data[split.test]))
        judged = assess(one.known(), others, seed=job.settings.seed)
        metric = judged.metric
        found.append((one, split.test))
        beside.append((others, split.test[one.sample[one.rows]]))
        values = {other.kind: values[metric] for other, values in judged.baselines}
        rows.append({"fold": len(rows) + 1, "samples": len(one.rows), metric: judged.value, "baselines": values})
        say(f"  fold {len(rows)} of {job.settings.folds}: {metric_line({metric: judged.value})}")
    say("\n" + about_folds(rows, metric))
    return Folds(pooled(found), pooled_baselines(beside), rows)
