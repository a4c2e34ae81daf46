"""The league: classifiers with their default settings on real data sets, beside aeon's Rockets and seven statistics.

`python -m benchmarks league --help` lists the options; `docs/league.md` shows the results.
"""

from .command import main

__all__ = ["main"]
