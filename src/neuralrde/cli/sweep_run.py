"""One run of a sweep, in a worker's process: begun, gone on with after a crash, or taken as it is if it has ended."""

import platform
import shutil
from pathlib import Path
from typing import Any

from .._lock import Lock
from ..datasets import Dataset
from ..sweeps import Report, content_key
from ..training import FileRefused, Listener
from .config import RunSettings
from .errors import INTERRUPTED, TERMINATED, Refusal
from .run_folder import RunFolder
from .training import train

# JAX keeps every program that it has compiled, each with several memory maps, and Linux allows a process 65,530.
_MOST_MAPS = 30_000


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
