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

[search]                           # or a search, one for each combination of the grid
trials = 40
pruner = "median"                  # or "asha", "hyperband", "none"

[search.ranges]
"optimizer.learning_rate" = {low = 1e-4, high = 1e-1, log = true}

[sweep]                            # how it is run
cores = 1                          # of each run
retries = 5
"""

import inspect
import platform
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._lock import Lock
from .._version import __version__
from ..datasets import Dataset
from ..sweeps import Report, Search, Sweep, Task, content_key, grid_points
from ..sweeps.results import short
from ..training import FileRefused, Listener
from .console import INTERRUPTED, TERMINATED, WRONG_USE, Refusal
from .loading import open_data, targets, with_channels
from .run import train
from .run_folder import RunFolder, fingerprint_with_targets
from .settings import PARTS, TOP, RunSettings, check_names, estimator_for, read_toml, resolve, sections, settings_of

_OWN = ("grid", "search", "sweep")
_SWEEP, _SEARCH = ("cores", "gpus", "retries"), ("trials", "pruner", "sampler", "warmup", "ranges")
# As the flags of `fit` call them.
_SHORT = {name: f"windows.{name}" for name in ("depth", "step", "every")} | {"learning_rate": "optimizer.learning_rate"}
# JAX keeps every program that it has compiled, each with several memory maps, and Linux allows a process 65,530.
_MOST_MAPS = 30_000


@dataclass(frozen=True)
class ConfiguredSweep:
    """A sweep and how to run it. `data` are the data sets, by the names that tasks know them by."""

    sweep: Sweep
    data: dict[str, Dataset]
    cores: int
    gpus: float


def read_sweep(file: Path, folder: Path) -> ConfiguredSweep:
    """The sweep that a file describes. Wrong names and values are refused here, before anything runs."""
    found = read_toml(file)
    base = sections({name: value for name, value in found.items() if name not in _OWN}, file, more=_OWN)
    how = _section(found, "sweep", _SWEEP)
    cores, retries = (_whole(how, name, usual) for name, usual in (("cores", 1), ("retries", 5)))
    gpus = how.get("gpus", 0)
    if isinstance(gpus, bool) or not isinstance(gpus, int | float) or gpus < 0:
        raise Refusal(
            f"Got gpus = {gpus!r} in [sweep]; expected a number from 0; 0.5 lets two runs share one.", WRONG_USE
        )
    grids = found.get("grid", {})
    if not isinstance(grids, dict | list) or not all(isinstance(one, dict) for one in _listed(grids)):
        raise Refusal(f"Got grid = {grids!r}; expected a section [grid], or several as [[grid]].", WRONG_USE)
    points = [point for one in _listed(grids) for point in _points(base, one)]
    maker = _TaskMaker(base)
    options: dict[str, Any] = {"retries": retries, "name": file.stem}
    if "search" not in found:
        tasks = [maker.task(point, lenient) for point, lenient in points]
        return ConfiguredSweep(Sweep(folder, tasks, **options), maker.data, cores, gpus)
    searches = [_search(found, maker, point) for point, _ in points]
    return ConfiguredSweep(Sweep(folder, [], searches, **options), maker.data, cores, gpus)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _points(base: Mapping[str, Any], grid: Mapping[str, Any]) -> list[tuple[dict[str, Any], bool]]:
    """Every combination; and whether the closed form among other models may leave out what is not for it."""
    try:
        found = grid_points({_long(name): value for name, value in grid.items()})
    except ValueError as error:
        raise Refusal(str(error), WRONG_USE) from None
    mixed = not all(_is_closed_form(base, point) for point in found)
    return [(point, mixed) for point in found]


def _is_closed_form(base: Mapping[str, Any], point: Mapping[str, Any]) -> bool:
    model = {"model": point["model"]} if "model" in point else {}
    return settings_of({name: base[name] for name in base if name == "model"}, table={}, estimator=model).closed_form


def _search(found: Mapping[str, Any], maker: "_TaskMaker", point: dict[str, Any]) -> Search:
    how = _section(found, "search", _SEARCH)
    ranges = how.get("ranges", {})
    if not isinstance(ranges, dict) or not ranges:
        raise Refusal(
            "Got a [search] without ranges; expected a section [search.ranges] with for example "
            '"model.state" = [16, 32].',
            WRONG_USE,
        )
    if (both := sorted({_long(name) for name in ranges} & set(point))) != []:
        raise Refusal(f"Got {both[0]} in [grid] and in [search.ranges]; expected it in one of them.", WRONG_USE)
    if maker.settings(point, False).closed_form:
        raise Refusal(
            "Got a [search] with the model closed-form; expected a neural model, because the closed form has no "
            "validation loss to search by. Put it into a [grid].",
            WRONG_USE,
        )
    options = {name: how[name] for name in ("pruner", "sampler") if name in how}
    # Other ranges are another search, whose trials are its own.
    name = ", ".join([*map(short, point.values()), f"search {content_key(ranges)[:6]}"])
    make = lambda params, number: maker.task({**point, **params}, False, search=(name, number))
    try:
        search = Search(
            name,
            {_long(one): value for one, value in ranges.items()},
            trials=_whole(how, "trials", 20),
            warmup=_whole(how, "warmup", 5, least=0),
            make=make,
            **options,
        )
    except ValueError as error:
        raise Refusal(str(error), WRONG_USE) from None
    # The first value of each range: a name that there is none of is found now, and not by the first trial.
    make({_long(one): value[0] if isinstance(value, list) else value["low"] for one, value in ranges.items()}, 0)
    return search


class _TaskMaker:
    """Makes tasks from points of a grid. Each data set is read once."""

    def __init__(self, base: dict[str, Any]):
        self._base = base
        self.data: dict[str, Dataset] = {}
        self._prints: dict[str, str] = {}

    def settings(self, point: Mapping[str, Any], lenient: bool) -> RunSettings:
        top = {name: point[name] for name in TOP if name in point}
        table = {name.removeprefix("table."): value for name, value in point.items() if name.startswith("table.")}
        own = {
            name: None if value == "none" else value
            for name, value in point.items()
            if name not in top and not name.startswith("table.")
        }
        found = settings_of(self._base, table=table, estimator={}, assigned=own, **top)
        return _only_for_closed_form(found) if lenient and found.closed_form else found

    def task(self, point: dict[str, Any], lenient: bool, search: tuple[str, int] | None = None) -> Task:
        settings = self.settings(point, lenient)
        word, data = self._open(settings)
        settings = with_channels(settings, data)
        resolved = resolve(settings, estimator_for(settings, data))
        content = {
            "neuralrde": __version__,
            "data": self._prints[word],
            "seed": resolved.seed,
            "divide": resolved.divide,
            "folds": resolved.folds,
            "estimator": resolved.estimator,
        }
        if search is not None:
            content["pruned by"] = search[0]  # what a search gives up is no result for a grid
        return Task(content_key(content), self._shown(point, settings, data), settings, word, search)

    def _open(self, settings: RunSettings) -> tuple[str, Dataset]:
        word = content_key([settings.data, settings.table])
        if word not in self.data:
            data = open_data(settings.data, settings.table)
            targets(data)  # refuses data that have none
            self.data[word], self._prints[word] = data, fingerprint_with_targets(data)
        return word, self.data[word]

    def _shown(self, point: Mapping[str, Any], settings: RunSettings, data: Dataset) -> dict[str, Any]:
        """What people tell runs apart by: data set, model, seed, and all that is varied and counts for this model."""
        model = settings.estimator.get("model", "default")
        if isinstance(model, dict):
            asked = point.get("model")
            model = asked if isinstance(asked, dict) else model.get("name", "default")
        given = {name for name in settings.estimator if name not in PARTS}
        for part, options in settings.estimator.items():
            given |= {f"{part}.{name}" for name in options} if isinstance(options, dict) else {part}
        rest = {name: value for name, value in point.items() if name not in ("data", "model", "seed")}
        rest = {
            name: value for name, value in rest.items() if name in TOP or name.startswith("table.") or name in given
        }
        return {"data": data.name, "model": model, **rest, "seed": settings.seed}


def _only_for_closed_form(settings: RunSettings) -> RunSettings:
    """Without windows, epochs and other models' options: the floor of a grid is computed once, not once for each."""
    from ..estimators import LogSignatureClassifier

    model, known = settings.estimator["model"], inspect.signature(LogSignatureClassifier).parameters
    options = (
        {name: value for name, value in model.items() if name == "name" or name in known}
        if isinstance(model, dict)
        else model
    )
    return replace(settings, estimator={"model": options})


def _long(name: str) -> str:
    return _SHORT.get(name, name)


def _section(found: Mapping[str, Any], name: str, known: Iterable[str]) -> dict[str, Any]:
    section = found.get(name, {})
    if not isinstance(section, dict):
        raise Refusal(f"Got {name} = {section!r}; expected a section [{name}].", WRONG_USE)
    check_names(section, known, f"[{name}]")
    return section


def _whole(section: Mapping[str, Any], name: str, usual: int, *, least: int | None = None) -> int:
    value = section.get(name, usual)
    least = (0 if name == "retries" else 1) if least is None else least
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Refusal(f"Got {name} = {value!r}; expected a whole number from {least}.", WRONG_USE)
    return value


def run_in_worker(settings: RunSettings, data: Dataset, folder: Path, report: Report) -> dict[str, Any]:
    """As `run_one`, with a cache of compiled programs that all workers of a machine share.

    A crash while JAX reads or writes it would cost a worker, not the sweep: the task is given out again.
    """
    import jax

    if jax.config.jax_compilation_cache_dir is None:  # type: ignore
        jax.config.update("jax_compilation_cache_dir", str(_programs()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    return run_one(settings, data, folder, report)


def run_one(settings: RunSettings, data: Dataset, folder: Path, report: Report) -> dict[str, Any]:
    """Train into the folder, or go on with what is there. What goes into the line of results."""
    folder = _free(folder)
    known = RunFolder(folder).read_metrics()  # written last: what is there is a whole run
    listener = _Reports(report)
    if not known:
        _forget_programs()
        known = _trained(settings, data, folder, listener)
    (folder / "checkpoint.nrde").unlink(missing_ok=True)
    judged = known["assessment"]
    validation = known["parts"].get("validation", {})
    found = {
        "metric": judged["metric"],
        "value": judged["value"],
        "part": judged["part"],
        "validation": {name: value for name, value in validation.items() if isinstance(value, int | float)},
        "epochs": known.get("epochs"),
        "best_epoch": known.get("best_epoch"),
        "resumed": listener.resumed,
    }
    if RunFolder(folder).history.exists():
        curve = [record["monitored"] for record in RunFolder(folder).read_history()]
        found |= {"objective": min(curve), "curve": curve}
    return found


def _trained(settings: RunSettings, data: Dataset, folder: Path, listener: Any) -> dict[str, Any]:
    resume = (folder / "checkpoint.nrde").exists()
    if folder.exists() and not resume:
        shutil.rmtree(folder)  # stopped before its first checkpoint
    options: dict[str, Any] = {"plots": False, "say": lambda text: None, "progress": "none", "tensorboard": False}
    options |= {"data": data, "listeners": [listener], "with_floor": False}
    try:
        try:
            return train(settings, folder, resume=resume, **options)
        except FileRefused:
            if not resume:
                raise
        # A checkpoint that cannot be read: from the beginning.
        shutil.rmtree(folder)
        return train(settings, folder, resume=False, **options)
    except Refusal as error:
        if error.code in (INTERRUPTED, TERMINATED):
            raise KeyboardInterrupt from None
        raise


class _Reports(Listener):
    """Tells the sweep of every epoch."""

    def __init__(self, report: Report):
        self._report, self.resumed = report, 0

    def start(self, *, epochs, steps, done):
        self.resumed = max(self.resumed, done)

    def epoch(self, record):
        self._report(record)


def _free(folder: Path) -> Path:
    """The folder, or one beside it while a worker that was given up as dead still writes to it."""
    number = 1
    found = folder
    while Lock.owner(found / ".lock") is not None:
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


def _programs() -> Path:
    """Where this kind of machine keeps its programs: on a shared disk, another processor might not know their words."""
    from importlib.metadata import version

    import platformdirs

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        kind = sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        kind = [platform.processor()]
    name = content_key([version("jaxlib"), platform.machine(), kind])
    folder = platformdirs.user_cache_path("neuralrde") / "programs" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _forget_programs() -> None:
    """A worker does many runs, and each compiles programs of its own."""
    try:
        maps = Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:  # there is such a file on Linux only
        return
    if maps > _MOST_MAPS:
        import gc

        import jax

        jax.clear_caches()
        gc.collect()
