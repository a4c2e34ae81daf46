"""`make bench`, or `python -m benchmarks [name ...]`. Keep the machine quiet: ratios are taken within one run."""

import importlib
import sys

NAMES = ["log_signatures", "solve", "linear_fields", "lengths", "long_series"]

if __name__ == "__main__":
    chosen = sys.argv[1:] or NAMES
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        sys.exit(f"Got {', '.join(unknown)}; expected benchmarks among {', '.join(NAMES)}.")
    for name in chosen:
        importlib.import_module(f"benchmarks.{name}").main()
