"""`make bench`, or `python -m benchmarks [name ...]`. Keep the machine quiet: ratios are taken within one run."""

import importlib
import sys

from neuralrde.datasets import DatasetUnavailable

# What `make bench` runs, in this order.
QUICK = {
    "log_signatures": "speed",
    "torch_log_signatures": "speed",
    "solve": "speed",
    "linear_fields": "speed",
    "lengths": "speed",
    "long_series": "speed",
    "compile_times": "speed",
    "channels": "speed",
    "waiting": "speed",
    "several_processes": "speed",
}
# Those with options of their own, which take an hour, and are run only when named.
LONG = {
    "ablations": "quality",
    "forecast": "quality",
    "league": "quality",
    "patients": "quality",
    "larger_than_memory": "stress",
    "scaling": "speed",
}
FOLDERS = QUICK | LONG

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in LONG:
        importlib.import_module(f"benchmarks.{LONG[sys.argv[1]]}.{sys.argv[1]}").main(sys.argv[2:])
        sys.exit()
    chosen = sys.argv[1:] or list(QUICK)
    unknown = [name for name in chosen if name not in FOLDERS]
    if unknown:
        sys.exit(f"Got {', '.join(unknown)}; expected benchmarks among {', '.join(FOLDERS)}.")
    for name in chosen:
        try:
            importlib.import_module(f"benchmarks.{FOLDERS[name]}.{name}").main()
        except DatasetUnavailable as error:  # the others need no data
            print(f"\n{name} is left out. {error} Or set NEURALRDE_DATA to the folder of the data.\n")
