"""`make bench`, or `python -m benchmarks [name ...]`. Keep the machine quiet: ratios are taken within one run."""

import importlib
import sys

from neuralrde.datasets import DatasetUnavailable

NAMES = [
    "log_signatures",
    "solve",
    "linear_fields",
    "lengths",
    "long_series",
    "compile_times",
    "channels",
    "several_processes",
    "ablations",
    "league",
    "patients",
    "larger_than_memory",
    "scaling",
]
# Those with options of their own, which take an hour, and are run only when named.
LONG = ("ablations", "league", "patients", "larger_than_memory", "scaling")

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in LONG:
        importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])
        sys.exit()
    chosen = sys.argv[1:] or [name for name in NAMES if name not in LONG]
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        sys.exit(f"Got {', '.join(unknown)}; expected benchmarks among {', '.join(NAMES)}.")
    for name in chosen:
        try:
            importlib.import_module(f"benchmarks.{name}").main()
        except DatasetUnavailable as error:  # the others need no data
            print(f"\n{name} is left out. {error} Or set NEURALRDE_DATA to the folder of the data.\n")
