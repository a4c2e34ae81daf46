"""`make bench`, or `python -m benchmarks [name ...]`. Keep the machine quiet: ratios are taken within one run."""

import importlib
import sys

NAMES = ["log_signatures", "solve", "linear_fields", "lengths", "long_series", "compile_times", "league"]

if __name__ == "__main__":
    if sys.argv[1:2] == ["league"]:  # which has options of its own, and takes an hour
        from .league import main

        main(sys.argv[2:])
        sys.exit()
    chosen = sys.argv[1:] or [name for name in NAMES if name != "league"]
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        sys.exit(f"Got {', '.join(unknown)}; expected benchmarks among {', '.join(NAMES)}.")
    for name in chosen:
        importlib.import_module(f"benchmarks.{name}").main()
