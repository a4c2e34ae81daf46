"""A process that runs inputs one after the other, under limits of memory and time, and tells how each ended."""

import faulthandler
import json
import linecache
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from .targets import Input, Target, Wrong, chosen

# Address space; JAX alone reserves some of it. Files here have a few KB.
MEMORY = 6 * 2**30
# What one input may add to the largest memory so far. Compiling a model takes some.
GROWTH = 400 * 2**20
# Of processor time, which does not depend on what else the machine does.
SECONDS = 20


def choose(seed: int, number: int, among: dict[str, Target]) -> tuple[str, Input]:
    """The input of a number: the same in every run and on every machine."""
    rng = random.Random(f"{seed} {number}")
    name = rng.choices(list(among), [target.share for target in among.values()])[0]
    return name, among[name].make(rng)


def outcome(target: Target, given: Input, folder: Path) -> tuple[str, str]:
    """How reading an input ended, and the traceback if it should not have ended so."""
    before = _largest_memory()
    try:
        target.run(given.write(folder), given)
        ended = "accepted", ""
    except Wrong:
        ended = "wrong", traceback.format_exc()
    except Exception as error:
        ended = _refusal(error)
    grown = _largest_memory() - before
    return ("memory", f"{grown / 2**20:.0f} MB more, then {ended}") if grown > GROWTH else ended


def _largest_memory() -> int:
    """In bytes, since the process began."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _refusal(error: Exception) -> tuple[str, str]:
    """Ours are our own classes of errors, and sentences that our own code raises; the latter name no file."""
    from neuralrde.datasets import DatasetUnavailable, ReadError
    from neuralrde.tools.cli.console import Refusal
    from neuralrde.training import FileRefused

    if isinstance(error, ReadError | DatasetUnavailable | FileRefused | Refusal):
        return "refused", ""
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = "neuralrde" in Path(last.filename).parts and linecache.getline(last.filename, last.lineno or 0)
    if (
        isinstance(error, ValueError | TypeError | MemoryError | OverflowError)
        and ours
        and ours.strip().startswith("raise")
    ):
        return "unnamed", ""
    return "raw", "".join(traceback.format_exception(error))


def main() -> None:
    """Numbers come on the input, one a line; for each, `begin` and then how it ended go to the output."""
    seed, only = int(sys.argv[1]), sys.argv[2].split(",")
    told = sys.stdout
    sys.stdout = sys.stderr
    tell = lambda record: print(json.dumps(record), file=told, flush=True)
    warnings.simplefilter("ignore")
    # Without a handler the signal ends the process wherever it is; before that it says where.
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    among = chosen(only)
    with tempfile.TemporaryDirectory() as place:
        _warm_up(among, Path(place) / "seeds")
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        tell({"ready": True})
        for line in sys.stdin:
            number = int(line)
            name, given = choose(seed, number, among)
            tell({"begin": number, "target": name})
            folder = Path(place) / "input"
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            ended, why = outcome(among[name], given, folder)
            signal.setitimer(signal.ITIMER_PROF, 0)
            shutil.rmtree(folder, ignore_errors=True)
            tell({"number": number, "target": name, "outcome": ended, "why": why})


def _warm_up(among: dict[str, Target], folder: Path) -> None:
    """Undamaged files are read first: most must be accepted, and what is compiled counts for no input."""
    for name, target in among.items():
        ends = [outcome(target, given, folder / f"{name} {i}") for i, given in enumerate(target.seeds())]
        # A reader may find one ambiguous; if it refuses most, damaged ones would not come far enough.
        if sum(end == "accepted" for end, _ in ends) <= len(ends) / 2:
            raise RuntimeError(f"Undamaged inputs of the target {name!r} are not accepted: {ends}")


if __name__ == "__main__":
    main()
