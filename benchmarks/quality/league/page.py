"""The leagues' pages of the documentation: their text is written by hand, their tables are made from the lines.

A table stands between `<!-- league: NAME -->` and `<!-- /league -->`. A test checks that the page is as the lines say.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ..ablations import ablations_table
from .classifiers import CLASSIFIERS
from .damage import DAMAGES
from .lines import ROOT, Line, of_league
from .ranking import ALPHA, rank
from .tables import (
    NOTHING,
    accuracy_table,
    complete,
    damage_table,
    frame_of,
    mean_over_seeds,
    ranking_table,
    sets_table,
    split_table,
)

PAGES = {"regular": ROOT / "docs" / "league.md", "irregular": ROOT / "docs" / "irregular-league.md"}
MARK = re.compile(r"^(<!-- league: ([\w-]+) -->\n).*?^(<!-- /league -->)$", re.MULTILINE | re.DOTALL)


def rendered(text: str, lines: Sequence[Line]) -> str:
    """The page with all its tables made anew."""

    def block(found: re.Match) -> str:
        if found[2] not in BLOCKS:
            raise ValueError(f"Got <!-- league: {found[2]} -->; expected one of {', '.join(BLOCKS)}.")
        return f"{found[1]}\n{BLOCKS[found[2]](lines)}\n\n{found[3]}"

    return MARK.sub(block, text)


def write_page(lines: Sequence[Line], league: str = "regular") -> Path:
    path = PAGES[league]
    path.write_text(rendered(path.read_text("utf-8"), of_league(lines, league)))
    return path


def compared(lines: Sequence[Line]):
    """The table that ranks are taken of: undamaged, official split, classifiers with all sets."""
    frame = frame_of(lines)
    return None if frame.empty else complete(mean_over_seeds(frame))


def players(lines: Sequence[Line]) -> str:
    """The classifiers that have lines, and what they are."""
    present = {line["classifier"] for line in lines}
    return (
        "\n".join(f"- **{one.name}**: {one.meaning}." for one in CLASSIFIERS.values() if one.name in present) or NOTHING
    )


def tests(lines: Sequence[Line]) -> str:
    """What Friedman's and Wilcoxon's tests say, in sentences."""
    wide = compared(lines)
    if wide is None or wide.shape[1] < 2 or len(wide) < 2:
        return NOTHING
    found = rank(wide)
    said = []
    if found.friedman is not None:
        verb = "differ" if found.friedman <= ALPHA else "cannot be told apart"
        said.append(f"Over {len(wide)} sets, {wide.shape[1]} classifiers {verb} (Friedman, p = {found.friedman:.2g}).")
    differ = {pair: p for pair, p in found.pairs.items() if p <= ALPHA}
    names = list(found.ranks)
    if differ and (found.friedman is None or found.friedman <= ALPHA):
        pairs = [sorted(pair, key=names.index) for pair in differ]
        said.append("Pairs that differ (Wilcoxon, Holm's correction): " + "; ".join(
            f"{a} and {b} (p = {differ[frozenset((a, b))]:.2g})" for a, b in pairs) + ".")  # fmt: skip
    else:
        said.append("No pair differs (Wilcoxon, Holm's correction).")
    return " ".join(said)


def made_with(lines: Sequence[Line]) -> str:
    """Machine, dates, versions and commits, for each classifier."""
    said = []
    for name in CLASSIFIERS:
        own = [line for line in lines if line["classifier"] == name]
        if not own:
            continue
        days = sorted({line["date"][:10] for line in own})
        commits = sorted({line["commit"] for line in own})
        versions = sorted({f"{library} {version}" for line in own for library, version in line["versions"].items()})
        busiest = max(line["load"] for line in own)
        said.append(
            f"- **{name}**: {len(own)} runs, {' to '.join(dict.fromkeys((days[0], days[-1])))}; "
            f"{'; '.join(sorted({line['machine'] for line in own}))}; highest load before a run {busiest:g}; "
            f"threads: {' or '.join(sorted({line['threads'] for line in own}))}; "
            f"{', '.join(versions)}; commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}."
        )
    return "\n".join(said) or NOTHING


BLOCKS: dict[str, Callable[[Sequence[Line]], str]] = {
    "players": players,
    "sets": sets_table,
    "accuracy": lambda lines: accuracy_table(lines, bold="**{}**"),
    "tests": tests,
    "ranking": ranking_table,
    "damage": damage_table,
    **{
        kind: lambda lines, kind=kind: accuracy_table(lines, damage=kind, bold="**{}**")
        for kind in DAMAGES
        if kind != "none"
    },
    "walker": lambda lines: split_table(lines, "walker"),
    "walker85": lambda lines: split_table(lines, "walker85"),
    "ablations": lambda lines: ablations_table(),
    "made": made_with,
}
