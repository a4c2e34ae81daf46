"""`neuralrde sweep`: many runs with different settings, on all cores or on a Ray cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..._write import writing
from . import flags
from .console import WRONG_USE, Refusal, count, going_on_unread, how_stopped, number, print_json, table
from .flags import option

if TYPE_CHECKING:
    from ..sweeps.results import Result


def sweep(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A TOML file that says what is fixed and what is varied.")
    ],
    address: Annotated[
        str | None, option("The address of a Ray cluster; auto takes the one on this machine. [a new one]", "ADDRESS")
    ] = None,
    out: Annotated[Path | None, option("The sweep's folder. [sweeps/NAME]", "FOLDER", show_default=False)] = None,
    show: Annotated[bool, option("Print the results so far and run nothing.", None, "--table")] = False,
    retry_failed: Annotated[bool, option("Run again what ended with an error.", None, "--retry-failed")] = False,
    no_ray: Annotated[
        bool, option("Run one after another in this process, each on all cores.", None, "--no-ray")
    ] = False,
    json: flags.AsJson = False,
) -> None:
    """Run every combination of a grid as tasks on Ray.

    Ray starts by itself, on the cores that this process may use; --address joins a cluster. A run whose worker or node
    dies continues from its checkpoint. What has a result is never run again, so the same command continues after
    Ctrl-C, or with more values in the file. FOLDER/results.csv has them all as a table.

        neuralrde sweep hearts.toml
        neuralrde sweep hearts.toml --table
        neuralrde sweep hearts.toml --address 10.0.0.1:6379
    """
    from ...datasets.dataset import safe_name
    from ..sweeps import InProcess, RayPool, Sweep

    if address is not None and no_ray:
        raise Refusal("Got --address with --no-ray; expected one of them.", WRONG_USE)
    folder = Path("sweeps") / safe_name(config.stem) if out is None else out
    if show:
        if not (lines := Sweep.results_in(folder)):
            raise Refusal(f"There are no results in {folder} yet. Run the sweep without --table first.")
        _show(lines, folder, json)
        return
    from .sweep_tasks import read_sweep, run_one

    say: Callable[[str], None] = (lambda text: None) if json else print
    left = 0

    def on_progress(done: int, total: int, said: str) -> None:
        nonlocal left
        left = total - done
        if said:
            say(f"  [{done}/{total}] {said}")

    with going_on_unread():
        sweep, options, on_ray = read_sweep(config, folder)
        if retry_failed:
            sweep.forget_failed()
        if not sweep.left():
            say(f"Nothing to run: every task has a result in {folder}.")
            no_ray = True
        pool = InProcess(run_one, **options) if no_ray else RayPool(run_one, **options, **on_ray, address=address)
        try:
            with pool:
                sweep.run(pool, on_progress)
        except (KeyboardInterrupt, SystemExit) as error:  # Ray makes an exit of SIGTERM
            word, code = how_stopped(error)
            others = f" with the other {count(left, 'run')}"
            raise Refusal(f"{word}. What is done is kept; the same command goes on{others}.", code) from None
        _show(Sweep.results_in(folder), folder, json)


def _show(lines: "list[Result]", folder: Path, json: bool) -> None:
    """The results so far, over seeds; a table of all runs goes into a file."""
    import pandas as pd

    from ..sweeps.results import short, summarise

    with writing(folder / "results.csv", "w", newline="") as file:
        rows = [{**line["point"], **line} for line in lines]
        pd.DataFrame(rows).drop(columns=["point", "curve", "trace"], errors="ignore").to_csv(file, index=False)
    groups = summarise(lines)
    if json:
        print_json({"folder": str(folder), "runs": len(lines), "groups": groups.to_dict("records")})
        return
    columns: list[str] = [name for name in groups if name not in ("mean", "deviation", "seconds", "failed")]
    body = []
    for row in groups.to_dict("records"):
        spread = "" if pd.isna(row["deviation"]) else f" ± {row['deviation']:.2g}"
        value = "" if pd.isna(row["mean"]) else f"{number(row['mean'])}{spread}"
        seconds = "" if pd.isna(row["seconds"]) else f"{row['seconds']:.1f}"
        failed = f"{row['failed']} failed" if row["failed"] else ""
        body.append([*("–" if pd.isna(row[name]) else row[name] for name in columns), value, seconds, failed])
    titles = [name.removeprefix("windows.") for name in columns]
    print("\n" + table(body, header=[*titles, "mean ± deviation", "seconds", ""]))
    failures = [line for line in lines if line["status"] == "failed"]
    for line in failures[:3]:
        print(f"  failed: {', '.join(short(value) for value in line['point'].values())}: {line.get('error')}")
    if len(failures) > 3:
        print(f"  and {len(failures) - 3} more failed")
    print(f"\n{count(len(lines), 'run')} in {folder}; all of them: {folder / 'results.csv'}")
    # Where the model of the best run is, if one data set was swept over.
    judged = [line for line in lines if line["status"] == "done" and line.get("objective") is not None]
    if len({line["point"].get("data") for line in judged}) == 1:
        best = min(judged, key=lambda line: line["objective"])
        print(f"Lowest validation loss: runs/{best['key']} ({number(best['objective'])})")
