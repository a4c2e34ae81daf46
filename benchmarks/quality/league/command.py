"""`python -m benchmarks league`: run what is missing, then print the tables."""

import argparse
from collections.abc import Sequence
from itertools import product

from .data import FIRST_SETS, LEAGUES, SEEDS, SETS, SPLIT_SETS, SPLITS


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks league",
        description="Classifiers with their defaults on real data sets. Every run is a line of "
        "results/league/lines.jsonl; runs that have a line are not repeated, so it can be interrupted at any time.",
    )
    several = {"metavar": "A,B,...", "type": lambda text: text.split(",")}
    made.add_argument("--league", choices=list(LEAGUES), default="regular", help="whose sets to run and to show")
    made.add_argument("--sets", **several, help="names of sets; all of the league or of the split unless given")
    made.add_argument("--classifiers", **several, help="short names; all unless given")
    made.add_argument("--seeds", **several, help="0,1,2 unless given; for the walker splits their five seeds")
    made.add_argument("--damage", **several, default=["none"], help="none, dropped, missing, cut, or several of them")
    made.add_argument("--splits", default="official", help="official, walker (70/15/15), or walker85 (85/15)")
    made.add_argument("--again", action="store_true", help="repeat runs whose line has another tag than this run's")
    made.add_argument("--tag", help="a name for this run; unless given, a digest of the library's source")
    made.add_argument("--table", action="store_true", help="run nothing, only print the tables")
    made.add_argument("--picture", action="store_true", help="run nothing, draw the league's ranks for its page")
    made.add_argument(
        "--page", action="store_true", help="run nothing, make the tables and picture of the league's page"
    )
    made.add_argument("--tidy", action="store_true", help="run nothing, delete lines that later ones have replaced")
    return made


def wanted(options: argparse.Namespace) -> list[tuple]:
    """The keys of all runs that the options ask for, seed by seed."""
    from .classifiers import CLASSIFIERS
    from .damage import DAMAGES

    chosen = {
        "--splits": ([options.splits], SPLITS),
        "--damage": (options.damage, DAMAGES),
        "--seeds": ([_whole(seed) for seed in options.seeds or SEEDS.get(options.splits, ())], None),
        "--sets": (options.sets or SPLIT_SETS.get(options.splits, LEAGUES[options.league]), SETS),
        "--classifiers": (options.classifiers or PLAYING[options.league], CLASSIFIERS),
    }
    for option, (names, known) in chosen.items():
        strange = [name for name in names if known is not None and name not in known]
        if strange:
            raise SystemExit(f"Got {option} {','.join(strange)}; expected names among {', '.join(known)}.")
    keys = product(*(names for names, _ in chosen.values()))
    return [key for key in keys if options.sets or key[1] == "none" or key[3] in FIRST_SETS]


# Without names, all but the defaults of old, which have been run once.
PLAYING = {
    "regular": ("closed-form", "neural", "statistics", "minirocket", "multirocket", "multirocket-hydra"),
    "irregular": ("closed-form", "neural", "statistics"),
}


def main(arguments: Sequence[str] = ()) -> None:
    options = parser().parse_args(list(arguments))
    from . import lines as results

    if options.tidy:
        results.tidy()
    elif not (options.table or options.picture or options.page):
        from .play import play

        tag = options.tag or results.code_tag()
        keys = wanted(options)
        todo = results.still_to_run(keys, results.read_lines(), tag=tag, again=options.again)
        print(f"{len(keys)} runs, {len(keys) - len(todo)} of them done already; tag {tag}", flush=True)
        try:
            failed = play(todo, tag=tag)
        except KeyboardInterrupt:
            raise SystemExit("\nInterrupted. What is done is kept; the same command goes on.") from None
        show(options)
        if failed:
            raise SystemExit("\nWithout a line:\n" + "\n".join(failed))
        return
    if options.picture or options.page:
        from .page import compared, write_page
        from .picture import draw

        wide = compared(results.of_league(results.read_lines(), options.league))
        if wide is None or wide.shape[1] < 2:
            raise SystemExit("Got no two classifiers with all sets; expected them for a picture of ranks.")
        print(f"Picture: {draw(wide, options.league)}")
        if options.page:
            print(f"Page: {write_page(results.read_lines(), options.league)}")
    if options.table:
        show(options)


def show(options: argparse.Namespace) -> None:
    from .lines import of_league, read_lines
    from .page import tests
    from .tables import accuracy_table, damage_table, ranking_table, split_table

    lines = of_league(read_lines(), options.league)
    if options.splits != "official":
        print(f"\n# Random splits, {options.splits}\n\n{split_table(lines, options.splits)}")
        return
    for damage in options.damage:
        print(f"\n# Accuracy in %, damage: {damage}\n\n{accuracy_table(lines, damage=damage)}")
    print(f"\n{tests(lines)}\n\n# Two classes\n\n{ranking_table(lines)}")
    print(f"\n# What damage costs, points of accuracy in brackets\n\n{damage_table(lines)}")


def _whole(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise SystemExit(f"Got --seeds {text}; expected whole numbers, for example --seeds 0,1,2.") from None
