"""The tasks of a sweep: made from a TOML file, and run one by one.

The file says what is held fixed, as in `fit --config`, and what is varied:

data = "hearts.csv"                # as for a run, with [table], [model], [windows], [training] and so on

[training]
epochs = 50

[grid]                             # every combination; several grids as [[grid]]
model = ["closed-form", "log-ncde"]
depth = [1, 2]                     # short for "windows.depth"
"model.state" = [16, 32]           # any name that --set takes
seed = [0, 1, 2]

[sweep]                            # how it is run
cores = 1                          # of each run
retries = 5
"""

import inspect
import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..._version import __version__
from ..._write import Values, digest_of
from ...datasets import Dataset
from ...training import FileRefused, Listener
from .._lock import is_locked
from ..sweeps import Sweep, Task, content_key, grid_points
from .console import INTERRUPTED, TERMINATED, WRONG_USE, Refusal
from .loading import open_data, targets, with_channels
from .run import QUIET, train
from .run_folder import RunFolder, fingerprint
from .settings import TOP, RunSettings, check_names, estimator_for, read_toml, resolve, sections, settings_of

# Sections of the file that a run has not, and what is in them.
_OWN = {"grid": (), "sweep": ("cores", "gpus", "retries")}
# As the flags of `fit` call them.
_SHORT = {name: f"windows.{name}" for name in ("depth", "step", "every")} | {"learning_rate": "optimizer.learning_rate"}

Point = Values


def read_sweep(file: Path, folder: Path) -> tuple[Sweep, Values, Values]:
    """The sweep that a file describes, the options of the pool that runs it, and those of a pool on Ray.

    Wrong names and values are refused here, before anything runs.
    """
    found = read_toml(file)
    base = sections({name: value for name, value in found.items() if name not in _OWN}, file, more=_OWN)
    how = _section(found, "sweep")
    gpus = how.get("gpus", 0)
    if isinstance(gpus, bool) or not isinstance(gpus, int | float) or gpus < 0:
        raise Refusal(
            f"Got gpus = {gpus!r} in [sweep]; expected a number from 0; 0.5 lets two runs share one.", WRONG_USE
        )
    on_ray = {"cores": _whole(how, "cores", 1), "gpus": gpus, "retries": _whole(how, "retries", 5, least=0)}
    grids: Any = found.get("grid", {})
    grids = grids if isinstance(grids, list) else [grids]
    if not all(isinstance(one, dict) for one in grids):
        raise Refusal(f"Got grid = {found['grid']!r}; expected a section [grid], or several as [[grid]].", WRONG_USE)
    maker, tasks = _TaskMaker(base), []
    for grid in grids:
        named: Point = {_SHORT.get(str(name), str(name)): value for name, value in grid.items()}
        try:
            points = grid_points(named)
        except ValueError as error:
            raise Refusal(str(error), WRONG_USE) from None
        # The closed form among other models leaves out what is not for it.
        mixed = not all(_settings(base, point).closed_form for point in points)
        tasks += [maker.task(point, mixed=mixed) for point in points]
    sweep = Sweep(folder, tasks)
    return sweep, {"data": maker.data, "folder": sweep.runs.resolve()}, on_ray


def _settings(base: Values, point: Point) -> RunSettings:
    """The settings of a run at a point of the grid."""
    top = {name: point[name] for name in TOP if name in point}
    table = {name.removeprefix("table."): value for name, value in point.items() if name.startswith("table.")}
    own = {n: None if v == "none" else v for n, v in point.items() if n not in top and not n.startswith("table.")}
    return settings_of(base, table=table, estimator={}, assigned=own, **top)


class _TaskMaker:
    """Makes tasks from points of a grid. Each data set is read once."""

    def __init__(self, base: Values):
        self.base = base
        self.data: dict[str, Dataset] = {}
        self._prints: dict[str, str] = {}

    def task(self, point: Point, *, mixed: bool) -> Task:
        settings = _settings(self.base, point)
        if mixed and settings.closed_form:
            settings = _only_for_closed_form(settings)
        word = content_key([settings.data, settings.table])
        if word not in self.data:
            data = open_data(settings.data, settings.table)
            targets(data)  # refuses data that have none
            self.data[word], self._prints[word] = data, fingerprint_with_targets(data)
        data = self.data[word]
        settings = with_channels(settings, data)
        resolved = resolve(settings, estimator_for(settings, data))
        content = {"neuralrde": __version__, "data": self._prints[word], "estimator": resolved.estimator}
        content |= {name: getattr(resolved, name) for name in ("seed", "divide", "folds")}
        return Task(content_key(content), _shown(point, settings, data), settings, word)


def fingerprint_with_targets(data: Dataset) -> str:
    """A checksum of all that decides a result: the series, targets, groups and given parts, in their order."""
    series = data.series
    return digest_of(fingerprint(data), data.target, data.groups, data.split, series.ids, data.classes, series.channels)


def _shown(point: Point, settings: RunSettings, data: Dataset) -> Point:
    """What people tell runs apart by: data set, model, seed, and all that is varied and counts for this model."""
    model = point.get("model", settings.estimator.get("model", "default"))
    if isinstance(model, dict) and "model" not in point:
        model = model.get("name", "default")
    given = {"model", "data", "seed"}
    for part, options in settings.estimator.items():
        given |= {part, *(f"{part}.{name}" for name in (options if isinstance(options, dict) else ()))}
    counts = lambda name: name in TOP or name.startswith("table.") or name in given
    rest = {name: value for name, value in point.items() if name not in ("data", "model", "seed") and counts(name)}
    return {"data": data.name, "model": model, **rest, "seed": settings.seed}


def _only_for_closed_form(settings: RunSettings) -> RunSettings:
    """Without windows, epochs and other models' options: in a grid it is computed once, not once for each."""
    from ...estimators import LogSignatureClassifier

    model, known = settings.estimator["model"], inspect.signature(LogSignatureClassifier).parameters
    if isinstance(model, dict):
        model = {name: value for name, value in model.items() if name == "name" or name in known}
    return replace(settings, estimator={"model": model})


def _section(found: Values, name: str) -> Values:
    section = found.get(name, {})
    if not isinstance(section, dict):
        raise Refusal(f"Got {name} = {section!r}; expected a section [{name}].", WRONG_USE)
    check_names(section, _OWN[name], f" in [{name}]")
    return section


def _whole(section: Values, name: str, usual: int, *, least: int = 1) -> int:
    value = section.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Refusal(f"Got {name} = {value!r}; expected a whole number from {least}.", WRONG_USE)
    return value


class _Resumed(Listener):
    """Remembers how many epochs a checkpoint held."""

    epochs = 0

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        self.epochs = max(self.epochs, done)


def run_one(settings: RunSettings, data: Dataset, folder: Path) -> Values:
    """Train into the folder, or go on with what is there. What goes into the line of results."""
    # A worker that was given up as dead may still be writing to it: then one beside it.
    names = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    folder = next(one for one in itertools.chain([folder], names) if not is_locked(one / ".lock"))
    listener, known = _Resumed(), RunFolder(folder).read_metrics()  # written last: what is there is a whole run
    while not known:
        resume = (folder / "checkpoint.nrde").exists()
        if folder.exists() and not resume:
            shutil.rmtree(folder)  # stopped before its first checkpoint
        options: Values = {"data": data, "listeners": [listener], "with_closed_form": False}
        try:
            known = train(settings, folder, QUIET, resume=resume, **options)
        except FileRefused:
            if not resume:
                raise
            shutil.rmtree(folder)  # a checkpoint that cannot be read: from the beginning
        except Refusal as error:
            if error.code in (INTERRUPTED, TERMINATED):
                raise KeyboardInterrupt from None
            raise
    (folder / "checkpoint.nrde").unlink(missing_ok=True)
    judged, validation = known["assessment"], known["parts"].get("validation", {})
    found = {
        "metric": judged["metric"],
        "value": judged["value"],
        "part": judged["part"],
        "validation": {name: value for name, value in validation.items() if isinstance(value, int | float)},
        "epochs": known.get("epochs"),
        "best_epoch": known.get("best_epoch"),
        "resumed": listener.epochs,
    }
    if RunFolder(folder).history.exists():
        found["curve"] = [record["monitored"] for record in RunFolder(folder).read_history()]
        found["objective"] = min(found["curve"])
    return found
