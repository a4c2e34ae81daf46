"""The tests on other machines: `python -m tests.environments` runs the quick suite in each environment, one by one.

    python -m tests.environments background colours --tests tests/cli
    python -m tests.environments --long "background+colours+time zone"  # at once

Each has what fails elsewhere: a shell's background, no terminal, colours, another language, place, time or order. A
line tells the counts of each, and what failed; the exit code says whether anything did.
"""

import argparse
import contextlib
import importlib.util
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [f"--ignore=tests/{page}.py" for page in ("test_docs", "test_examples", "test_made_pages")]
# As in the Makefile.
SUITES = {
    False: ["-m", "not slow and not long", "--dist", "worksteal", *PAGES],
    True: ["-m", "long and not slow", "--dist", "loadgroup"],
}


@dataclass(frozen=True)
class Environment:
    variables: dict[str, str] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    before: Callable[[], object] = lambda: None
    """What the new process does before it becomes pytest."""
    terminal: bool = False
    in_folder: str = ""
    """The name of the folder that a copy of the tree lies in, and temporary files too."""


def _one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


POSIX = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ENVIRONMENTS = {
    "terminal": Environment(terminal=True),
    "no terminal": Environment(before=os.setsid),
    "background": Environment(before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)),
    "colours": Environment({"FORCE_COLOR": "1"}),
    "no colours": Environment({"NO_COLOR": "1"}),
    "LANG=C": Environment(POSIX),
    "time zone": Environment({"TZ": "Asia/Kolkata"}),
    "space": Environment(in_folder="two words"),
    "random order": Environment(options=["-p", "randomly"]),
    "one core": Environment(before=_one_core),
    "warnings": Environment({"PYTHONWARNINGS": "error"}),
}


def together(names: str) -> Environment:
    """The environments of the names, joined by "+", at once."""
    parts = [ENVIRONMENTS[name] for name in names.split("+")]
    return Environment(
        variables={name: value for part in parts for name, value in part.variables.items()},
        options=[option for part in parts for option in part.options],
        before=lambda: [part.before() for part in parts],
        terminal=any(part.terminal for part in parts),
        in_folder="".join(part.in_folder for part in parts),
    )


def run(environment: Environment, options: list[str]) -> tuple[int, str]:
    """The exit code, and what was said."""
    unset = ("FORCE_COLOR", "NO_COLOR", "PYTHONWARNINGS", "TZ")
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    with contextlib.ExitStack() as stack:
        root, python = ROOT, sys.executable
        if environment.in_folder:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / environment.in_folder
            root = folder / "tree"
            ignored = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", ".hypothesis", ".pytest_cache")
            shutil.copytree(ROOT, root, ignore=ignored)
            (root / ".venv").symlink_to(sys.prefix)
            (folder / "tmp").mkdir()
            variables |= {"TMPDIR": str(folder / "tmp"), "NEURALRDE_DATA": str(ROOT.parent / "shared" / "data")}
            python = str(root / ".venv" / "bin" / "python")
        paths = [str(root / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        variables |= {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | environment.variables
        ours, theirs = pty.openpty() if environment.terminal else os.pipe()
        process = subprocess.Popen(
            [python, "-m", "pytest", "-n", "auto", "--color=no", "--tb=short", *environment.options, *options],
            cwd=root, env=variables, preexec_fn=environment.before, stderr=subprocess.STDOUT, stdout=theirs,
            stdin=theirs if environment.terminal else subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        said = []
        with contextlib.suppress(OSError):  # how a terminal ends
            while data := os.read(ours, 2**16):
                said.append(data)
        os.close(ours)
        return process.wait(), b"".join(said).decode(errors="replace")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.environments", description=__doc__)
    parser.add_argument("names", nargs="*", help="all by default")
    parser.add_argument("--long", action="store_true", help="the long tests instead of the quick ones")
    parser.add_argument("--tests", nargs="+", default=[], help="files or folders; all by default")
    given = parser.parse_args()
    failed = 0
    for name in given.names or ENVIRONMENTS:
        environment, begun = together(name), time.monotonic()
        if "randomly" in environment.options and importlib.util.find_spec("pytest_randomly") is None:
            print(f"{name:12}  not run: there is no pytest-randomly", flush=True)
            continue
        code, said = run(environment, [*SUITES[given.long], *given.tests])
        counts = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", said[-300:])
        print(f"{name:12}  {', '.join(counts) or said[-2000:]} in {time.monotonic() - begun:.0f} s", flush=True)
        for line in said.splitlines():
            if line.startswith(("FAILED", "ERROR")):
                print(f"    {line[:200]}", flush=True)
        failed += code != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
