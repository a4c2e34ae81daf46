"""Bugs planted at random, and which tests see them: where a suite lets one pass, it has a hole.

    python -m tests.mutants map                      # first, and after tests have changed: which test calls what
    python -m tests.mutants run --count 40 --seed 0  # goes on where it stopped
    python -m tests.mutants report                   # each that survived, as a diff
    python -m tests.mutants again                    # those that survived, with the tests of today

Each bug is planted in a copy of the tree. The tests that call the changed function run until one fails, quickest
first: the quick suite, then the long one. What no test should see, such as the size of a buffer, survives rightly.
"""

import argparse
import ast
import copy
import difflib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT, PACKAGE = Path(__file__).parents[1], "src/neuralrde"
OUT = ROOT / "build" / "mutants"
SUITES = {"quick": "not slow and not long", "long": "long and not slow"}
PAGES = [f"--ignore=tests/{page}.py" for page in ("test_docs", "test_examples", "test_made_pages")]
# For each mutant and suite: tests that together took at most so many seconds when they were mapped.
SECONDS = {"quick": 60.0, "long": 300.0}
# How a picture looks, and what is said, no test should pin.
COSMETIC = ("/plots.py", "/cli/console.py", "/cli/inspect.py", "/cli/report.py", "/sweeps/page.py")
SAID = {"print", "echo", "warn", "told", "Option", "Argument", "Typer", "Refusal", "damaged", "field", "overload"}
FLIPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    file: str
    function: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str

    def source(self, old: bytes) -> bytes:
        return old[: self.start] + self.new.encode() + old[self.end :]


def mutants_of(file: str) -> Iterator[Mutant]:
    """Everything that can be changed in a file."""
    source = (ROOT / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, function in _nodes(ast.parse(source), ()):
        for kind, at, new in _changes(node, any(part in file for part in COSMETIC)):
            start, end = starts[at.lineno - 1] + at.col_offset, starts[at.end_lineno - 1] + at.end_col_offset
            yield Mutant(file, function, at.lineno, kind, start, end, source[start:end].decode(), new)


def _nodes(node: ast.AST, inside: tuple[str, ...]) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that compute something, without types, decorators and messages, and the function that each is in."""
    yield node, ".".join(inside[:-1] if inside[-1:] == ("<locals>",) else inside)
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            children = [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
            inside = (*inside, node.name, "<locals>")
        case ast.ClassDef():
            children, inside = node.body, (*inside, node.name)
        case ast.keyword(arg="strict"):
            return
        case ast.AnnAssign():
            children = [node.value] if node.value else []
        case ast.Raise() | ast.JoinedStr() | ast.Assert():
            return
        case ast.Call() if _called(node) in SAID:
            return
        case _:
            children = ast.iter_child_nodes(node)
    for child in children:
        yield from _nodes(child, inside)


def _changes(node: Any, cosmetic: bool) -> Iterator[tuple[str, Any, str]]:
    """What can be done to a node: the kind of change, the part that is replaced, and by what."""

    def with_(**fields: Any) -> str:
        changed = copy.copy(node)
        vars(changed).update(fields)
        return f"({ast.unparse(changed)})"

    match node:
        case ast.Compare(ops=[op]):
            yield "comparison", node, with_(ops=[FLIPPED[type(op)]()])
        case ast.BinOp(op=op) if type(op) in FLIPPED and not cosmetic:
            yield "arithmetic", node, with_(op=FLIPPED[type(op)]())
        case ast.BoolOp():
            yield "and/or", node, with_(op=FLIPPED[type(node.op)]())
        case ast.Constant(value=bool()):
            yield "constant", node, str(not node.value)
        case ast.Constant(value=int() | float()) if not cosmetic:
            yield "constant", node, repr(node.value + 1)
        case ast.If() | ast.While() | ast.IfExp():
            yield "not", node.test, f"(not ({ast.unparse(node.test)}))"
        case ast.Expr(value=ast.Call()) if _called(node.value) not in SAID and not cosmetic:
            yield "statement", node, "pass"
        case ast.AugAssign() | ast.Continue() | ast.Break() | ast.Raise():
            yield "statement", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", node, "pass"
        case ast.Call() if _called(node) not in SAID and not cosmetic:
            if node.keywords:
                yield "argument", node, with_(keywords=node.keywords[:-1])
            elif len(node.args) > 1:
                yield "argument", node, with_(args=node.args[:-1])


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def chosen(count: int, seed: int) -> list[Mutant]:
    """So many mutants, from all folders in proportion to what can be changed there; of one function at most one."""
    every, drawn, functions = [], [], set()
    for file in sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE).rglob("*.py")):
        every += mutants_of(file)
    every.sort(key=lambda one: Path(one.file).parent)  # by folder: equal strides through them give each its share
    draw = random.Random(seed)
    while wanted := count - len(drawn):
        for i in range(wanted):
            one = every[int(len(every) * (i + draw.random()) / wanted)]
            if (one.file, one.function) not in functions and _is_different(one):
                functions.add((one.file, one.function))
                drawn.append(one)
    return drawn


def _is_different(one: Mutant) -> bool:
    old = (ROOT / one.file).read_bytes()
    try:
        return ast.dump(ast.parse(one.source(old))) != ast.dump(ast.parse(old))
    except SyntaxError:
        return False


# Which test calls which functions: pytest loads this file as a plugin, in every worker.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    package, calls, seen, begun = f"{ROOT / PACKAGE}/", set(), set(), time.monotonic()

    def note(frame: Any, event: str, argument: Any) -> None:
        if (code := frame.f_code) not in seen:
            seen.add(code)
            if code.co_filename.startswith(package):
                calls.add(f"{code.co_filename.removeprefix(f'{ROOT}/')}::{code.co_qualname}")

    sys.settrace(note)
    threading.settrace(note)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore
        told = {"test": item.nodeid, "seconds": round(time.monotonic() - begun, 3), "calls": sorted(calls)}
        with open(Path(os.environ["MUTANTS_MAP"]) / f"{os.getpid()}.jsonl", "a") as file:
            file.write(json.dumps(told) + "\n")


def make_map(suite: str) -> None:
    shutil.rmtree(OUT / suite, ignore_errors=True)
    (OUT / suite).mkdir(parents=True)
    environment = os.environ | {"MUTANTS_MAP": str(OUT / suite), "PYTHONPATH": str(ROOT / "src")}
    spread = ["-n", "auto", "--dist", "loadgroup", "-p", "tests.mutants"]
    command = [sys.executable, "-m", "pytest", "-m", SUITES[suite], *PAGES, *spread]
    ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if ended.returncode:
        sys.exit(f"The {suite} tests fail as they are; mend them first, because a mutant must be what a test fails of.")


def tests_for(mutant: Mutant, suite: str) -> list[str]:
    """The tests that call the function, quickest first, then the others of their files; not more than there is time.

    What is computed on import belongs to the whole class or file; what no test calls, to the folder's tests.
    """
    found = [
        json.loads(line) for file in (OUT / suite).glob("*.jsonl") for line in file.read_text("utf-8").splitlines()
    ]
    own, at_file = f"{mutant.file}::{mutant.function}", lambda test: test.split("::")[0]
    calling = {one["test"] for one in found if any(f"{call}.".startswith(f"{own}.") for call in one["calls"])}
    if not calling and "." not in mutant.function:
        calling = {one["test"] for one in found if any(call.startswith(f"{mutant.file}::") for call in one["calls"])}
    # tests/ mirrors the parts, those among the tools too.
    files, folder = {*map(at_file, calling)}, f"tests/{Path(mutant.file).parent.name}/"
    near = [one for one in found if at_file(one["test"]) in files or one["test"].startswith((folder, mutant.file))]
    rank = lambda one: (one["test"] not in calling, at_file(one["test"]) not in files, one["seconds"])
    tests, left = [], SECONDS[suite]
    for one in sorted(near, key=rank):
        left -= one["seconds"]
        if left > 0 or not tests:
            tests.append(one["test"])
    return tests


def caught(mutant: Mutant, tree: Path, stamp: int) -> dict[str, Any]:
    """Which suite sees it, by which test. The stamp keeps Python from taking an old compiled file for the new one."""
    file = tree / mutant.file
    whole = file.read_bytes()
    result = {**mutant._asdict(), "caught": None, "diff": _diff(mutant, whole)}
    file.write_bytes(mutant.source(whole))
    os.utime(file, (stamp, stamp))
    try:
        for suite in SUITES:
            tests = tests_for(mutant, suite)
            result[f"{suite} tests"] = len(tests)
            if tests and (told := _failure(tests, tree, 3 * SECONDS[suite] + 60)):
                return result | {"caught": suite, "by": told}
    finally:
        file.write_bytes(whole)
        os.utime(file, (stamp + 1, stamp + 1))
    return result


def _failure(tests: list[str], tree: Path, seconds: float) -> str | None:
    (tree / "tests.txt").write_text("\n".join(tests))
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "NEURALRDE_DATA": str(ROOT.parent / "shared" / "data")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider", "@tests.txt"]
    options: Any = {"cwd": tree, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, start_new_session=True, text=True, **options) as process:
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "out of time"
    if process.returncode == 0:
        return None
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR", "ImportError"))]
    if process.returncode in (4, 5) and "conftest" not in said:
        sys.exit(f"pytest ended with {process.returncode}: is the map old?\n{said[-2000:]}")
    return failed[0][:300] if failed else said[-300:]


def _diff(mutant: Mutant, old: bytes) -> str:
    texts = (text.decode().splitlines() for text in (old, mutant.source(old)))
    return "\n".join(difflib.unified_diff(*texts, mutant.file, mutant.kind, lineterm="", n=1))


def survivors(results: Path) -> list[Mutant]:
    """Those of an earlier run, where they are now; without those whose function has changed."""
    found = []
    for one in _read(results):
        now = mutants_of(one["file"]) if one["caught"] is None and (ROOT / one["file"]).exists() else ()
        found += [
            new for new in now if all(new._asdict()[key] == one[key] for key in ("function", "kind", "old", "new"))
        ][:1]
    return found


def run(mutants: list[Mutant], results: Path, jobs: int) -> None:
    done = {(one["file"], one["start"], one["new"]) for one in _read(results)}
    left = [one for one in mutants if (one.file, one.start, one.new) not in done]
    stamps, lock, local = itertools.count(10**9, 2), threading.Lock(), threading.local()

    def one(mutant: Mutant) -> None:
        if not hasattr(local, "tree"):
            local.tree = Path(tempfile.mkdtemp(dir=folder)) / "tree"
            kept = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", "runs", "site")
            shutil.copytree(ROOT, local.tree, ignore=kept)
        begun = time.monotonic()
        result = caught(mutant, local.tree, next(stamps))
        result["seconds"] = round(time.monotonic() - begun)
        with lock, open(results, "a") as file:
            file.write(json.dumps(result) + "\n")
            print(f"{result['caught'] or 'SURVIVED'}: {mutant.file}:{mutant.line} {mutant.kind}", flush=True)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as threads:
        list(threads.map(one, left))
    report(results)


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def report(results: Path) -> None:
    found = _read(results)
    for one in found:
        if one["caught"] is None:
            print(one["diff"], {suite: one.get(f"{suite} tests") for suite in SUITES}, "", sep="\n")
    counts = Counter(one["caught"] for one in found)
    print(f"{len(found)} planted: {counts['quick']} caught by quick tests, {counts['long']} more by long ones, "
          f"{counts[None]} survived.")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("what", choices=["map", "list", "run", "report", "again"])
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=list(SUITES), help="to map")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    results = OUT / f"results-{given.seed}.jsonl"
    if given.what == "map":
        for suite in given.suites:
            make_map(suite)
    elif given.what == "list":
        print(*chosen(given.count, given.seed), sep="\n")
    elif given.what == "run":
        run(chosen(given.count, given.seed), results, given.jobs)
    elif given.what == "again":
        run(survivors(results), results.with_stem(f"{results.stem}-again"), given.jobs)
    else:
        report(results)


if __name__ == "__main__":
    main()
