"""`python -m tests.fuzz --inputs 100000 --seed 0`; the exit code says whether anything failed."""

import argparse
import os
import sys
import time
from pathlib import Path

from .run import fuzz
from .targets import chosen, models_in_place, targets
from .worker import choose


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, help="a budget of time: fewer inputs if it is over")
    parser.add_argument("--targets", nargs="+", default=list(targets()), choices=list(targets()), help="all by default")
    parser.add_argument("--only", type=int, help="run one input again, here, with its traceback")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where inputs that failed are kept")
    given = parser.parse_args()
    if given.only is not None:
        return _again(given.seed, given.only, given.targets)
    begun = time.monotonic()
    options = {"workers": given.workers, "only": given.targets, "seconds": given.seconds, "out": given.out}
    results = fuzz(given.inputs, given.seed, **options)
    print(f"{results.table()} in {time.monotonic() - begun:.0f} s, seed {given.seed}")
    print(results.list_of_failures())
    return 1 if results.failures else 0


def _again(seed: int, number: int, names: list[str]) -> int:
    with models_in_place(names) as folder:
        name, given = choose(seed, number, chosen(names))
        print(name, given.options, {path: content[:2000] for path, content in given.files.items()})
        targets()[name].run(given.write(folder / "input"), given)
    print("accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
